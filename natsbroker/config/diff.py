"""
The changes from one configuration to the next, and those that need a restart, in nats-server's
words. A path names attributes of L{Settings} and names in mappings: C{logging.debug},
C{accounts.A.limits.max_payload}. Sequences change as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace

from natsbroker.config.keys.root import restarts, secrets
from natsbroker.config.model import RANDOM_PORT, Settings
from natsbroker.config.settings.authorization import Permissions, User
from natsbroker.wire.durations import durationText

_WHOLE = (User, Permissions)


@dataclass(frozen=True)
class Change:
    path: str
    old: object
    new: object
    secret: bool = False

    def __str__(self) -> str:
        return f"{self.path}: old={self.textOf(self.old)}, new={self.textOf(self.new)}"

    def __repr__(self) -> str:
        return f"<Change {self}>"

    def textOf(self, value: object) -> str:
        return "[REDACTED]" if self.secret else _goText(value)


def differences(old: Settings, new: Settings) -> list[Change]:
    return list(_compared("", old, new, False))


def reloadProblems(changes: list[Change]) -> list[str]:
    """List the changes that need a restart; a port that becomes random stays as it is."""
    problems = []
    for change in changes:
        name = _fixedName(change.path)
        if name is None or (change.path == "port" and change.new == RANDOM_PORT):
            continue
        values = f"old={change.textOf(change.old)}, new={change.textOf(change.new)}"
        problems.append(f"config reload not supported for {name}: {values}")
    return problems


def _fixedName(path: str) -> str | None:
    fixed = restarts()
    while path:
        if path in fixed:
            return fixed[path]
        path = path.rpartition(".")[0]
    return None


def _compared(path: str, old: object, new: object, secret: bool) -> Iterator[Change]:
    if old == new:
        return
    if is_dataclass(old) and not isinstance(old, (type, *_WHOLE)) and type(old) is type(new):
        for field in fields(old):
            if not field.compare:
                continue
            before, after = getattr(old, field.name), getattr(new, field.name)
            if field.name == "deferred":
                yield from map(_discreet, _compared(path, before, after, False))
            else:
                below = _below(path, field.name)
                yield from _compared(below, before, after, secret or not field.repr)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in {**old, **new}:
            below = _below(path, str(name))
            if name in old and name in new:
                yield from _compared(below, old[name], new[name], secret)
            else:
                yield Change(below, old.get(name), new.get(name), secret)
    else:
        yield Change(path, old, new, secret)


def _discreet(change: Change) -> Change:
    """Mark changes of passwords and keys, and of blocks that may hold them, as secret."""
    name = change.path.rpartition(".")[2]
    values = (change.old, change.new)
    hidden = name in secrets() or any(isinstance(value, (dict, list)) for value in values)
    return replace(change, secret=hidden)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _goText(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return durationText(value)
    if isinstance(value, (tuple, list, frozenset)):
        return f"[{' '.join(_goText(item) for item in value)}]"
    if value is None:
        return "<nil>"
    return str(value)
