"""
New settings without a restart. Every owner of settings plans before any step is made. If one
cannot, all reasons are reported and nothing changes. Changes of JetStream that need a restart wait
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace

from twisted.logger import Logger

from natsbroker.config.diff import Change, differences, reloadProblems
from natsbroker.config.keys.root import restarts
from natsbroker.config.model import RANDOM_PORT, Settings
from natsbroker.errors import BrokerError

LIFE = "natsbroker.life"
"""The logger of lines about a server as a whole: its start, its reloads and its end. Workers, which
are a server together, leave them to their parent."""

_log = Logger(namespace=LIFE)

Step = Callable[[], None]
"""Puts one owner's part of new settings into force; cannot fail."""

Planner = Callable[[Settings, Sequence[Change]], Step]
"""Makes one owner's step from the new settings and the changes in them, or raises C{ValueError}."""


class ReloadError(BrokerError):
    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def below(changes: Iterable[Change], *paths: str) -> bool:
    return any(
        change.path == path or change.path.startswith(path + ".")
        for change in changes
        for path in paths
    )


def nothing() -> None:
    """Change nothing."""


def heldBack(old: Settings, new: Settings) -> tuple[Settings, list[Change]]:
    """
    The settings to put into force, and the changes that wait for a restart. Until then, JetStream
    does not begin, end or move to another store.
    """
    before, after = old.jetstream, new.jetstream
    if before.enabled != after.enabled:
        kept = replace(before, default_domains=after.default_domains, will_extend=after.will_extend)
    else:
        fixed = [field.name for field in fields(before) if f"jetstream.{field.name}" in restarts()]
        kept = replace(after, **{name: getattr(before, name) for name in fixed})
    held = replace(new, jetstream=kept)
    return held, differences(held, new)


def logHeldBack(changes: Iterable[Change]) -> None:
    for change in changes:
        _log.warn("Reloaded without {change}: a restart is needed", change=str(change))


def settled(old: Settings, new: Settings, isElsewhere: bool = False) -> Settings:
    monitoring = new.monitoring
    for name in ("http_port", "https_port"):
        if getattr(monitoring, name) == RANDOM_PORT and getattr(old.monitoring, name):
            monitoring = replace(monitoring, **{name: getattr(old.monitoring, name)})
    port = old.port if new.port == RANDOM_PORT or isElsewhere else new.port
    host = old.host if isElsewhere else new.host
    return replace(new, host=host, port=port, monitoring=monitoring)


def plan(old: Settings, new: Settings, planners: Iterable[Planner]) -> tuple[list[Change], Step]:
    changes = differences(old, new)
    problems = reloadProblems(changes)
    steps: list[Step] = []
    for planner in planners:
        try:
            steps.append(planner(new, changes))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ReloadError(problems)

    def apply() -> None:
        for step in steps:
            step()

    return changes, apply


def logChanges(changes: Iterable[Change], settings: Settings) -> None:
    for line in dict.fromkeys(map(_lineFor, changes)):
        _log.info("Reloaded: {line}", line=line)
    digest = f"({settings.config_digest})" if settings.config_digest else ""
    _log.info("Reloaded server configuration {digest}", digest=digest)


_WHOLE = {
    "accounts": "accounts",
    "mappings": "accounts",
    "operator.resolver_preload": "accounts",
    "authorization.auth_callout": "authorization callout",
    "authorization.defined": "authorization",
    "authorization.users": "authorization users",
    "authorization.default_permissions": "authorization users",
    "authorization.user": "authorization username",
    "authorization.password": "authorization password",
    "authorization.token": "authorization token",
    "authorization.plugin": "authorization plugin",
    "authorization.options": "authorization plugin",
    "tls": "tls = enabled",
    "server_tags": "tags",
    "server_metadata": "metadata",
    "services": "services",
    "plugins": "services",
}
"""Paths whose values are not logged, and the text that is logged instead."""

_NAMES = {
    "logging.logfile": "log_file",
    "pidfile": "pid_file",
    "authorization.timeout": "authorization timeout",
    "tls.timeout": "tls timeout",
}
"""nats-server's names of settings, where they are not the last part of the path."""


def _lineFor(change: Change) -> str:
    path = change.path
    if path in _NAMES:
        value = change.new
        text = f"{value:g}" if isinstance(value, float) else change.textOf(value)
        return f"{_NAMES[path]} = {text}"
    if path == "tls" and change.new is None:
        return "tls = disabled"
    above = path
    while above:
        if above in _WHOLE:
            return _WHOLE[above]
        above = above.rpartition(".")[0]
    return f"{path.rpartition('.')[2]} = {change.textOf(change.new)}"
