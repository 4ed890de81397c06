"""
Taking new settings without a restart.

Promises: everything is planned before anything changes; if one owner of a setting cannot take it,
all reasons are told and nothing changes at all; an owner's step cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from twisted.logger import Logger

from natsbroker.config.diff import Change, differences, reloadProblems
from natsbroker.config.model import RANDOM_PORT, Settings
from natsbroker.errors import BrokerError

__all__ = ["Planner", "ReloadError", "Step", "logChanges", "plan", "settled"]

_log = Logger(namespace="natsbroker")

#: Puts one owner's part of new settings into force; cannot fail.
Step = Callable[[], None]

#: Asks one owner for its step: given the new settings and what is different in them. It raises
#: C{ValueError} for what it cannot take.
Planner = Callable[[Settings, Sequence[Change]], Step]


class ReloadError(BrokerError):
    """
    New settings cannot be taken; nothing has changed.

    @ivar problems: every reason.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def settled(old: Settings, new: Settings, isElsewhere: bool = False) -> Settings:
    """
    The new settings, with the ports that the kernel chose for the old ones where they ask for any.

    @param isElsewhere: whether clients connect at endpoints that the settings do not know; the
        address in them means nothing then.
    """
    monitoring = new.monitoring
    for name in ("http_port", "https_port"):
        if getattr(monitoring, name) == RANDOM_PORT and getattr(old.monitoring, name):
            kept: int = getattr(old.monitoring, name)
            if name == "http_port":
                monitoring = replace(monitoring, http_port=kept)
            else:
                monitoring = replace(monitoring, https_port=kept)
    port = old.port if new.port == RANDOM_PORT or isElsewhere else new.port
    host = old.host if isElsewhere else new.host
    return replace(new, host=host, port=port, monitoring=monitoring)


def plan(old: Settings, new: Settings, planners: Iterable[Planner]) -> tuple[list[Change], Step]:
    """
    Check new settings without changing anything.

    @return: what is different, and what puts it into force.
    @raise ReloadError: if they cannot be taken.
    """
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
    """
    Say what changed, in the real server's words.
    """
    said: dict[str, None] = dict.fromkeys(_told(change) for change in changes)
    for line in said:
        _log.info("Reloaded: {line}", line=line)
    digest = f"({settings.config_digest})" if settings.config_digest else ""
    _log.info("Reloaded server configuration {digest}", digest=digest)


#: Paths whose values are not shown, and what is said instead.
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

#: What the real server calls a setting, where it is not the last part of its path.
_NAMES = {
    "logging.logfile": "log_file",
    "pidfile": "pid_file",
    "authorization.timeout": "authorization timeout",
    "tls.timeout": "tls timeout",
}


def _told(change: Change) -> str:
    path = change.path
    if path in _NAMES:
        value = change.new
        shown = f"{value:g}" if isinstance(value, float) else change.textOf(value)
        return f"{_NAMES[path]} = {shown}"
    if path == "tls" and change.new is None:
        return "tls = disabled"
    above = path
    while above:
        if above in _WHOLE:
            return _WHOLE[above]
        above = above.rpartition(".")[0]
    return f"{path.rpartition('.')[2]} = {change.textOf(change.new)}"
