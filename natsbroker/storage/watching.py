"""The damage and the failures of a store. A watcher learns of each once, including earlier ones."""

from __future__ import annotations

from collections.abc import Callable

from natsbroker.interfaces import IStoreWatcher

MOST_REMEMBERED = 10000
"""The damaged ranges of a log that are remembered for later watchers."""


class StoreHealth:
    def __init__(self) -> None:
        self._watchers: list[IStoreWatcher] = []
        self._damaged: dict[str, dict[tuple[int, int], str]] = {}
        self._states: dict[tuple[str, bytes], str] = {}
        self._quarantined: dict[str, str] = {}
        self._stopped = ""

    def watch(self, watcher: IStoreWatcher) -> Callable[[], None]:
        self._watchers.append(watcher)
        for log, ranges in self._damaged.items():
            for (start, stop), reason in ranges.items():
                watcher.recordsDamaged(log, start, stop, reason)
        for (space, key), reason in self._states.items():
            watcher.stateDamaged(space, key, reason)
        for log, reason in self._quarantined.items():
            watcher.logQuarantined(log, reason)
        if self._stopped:
            watcher.writesStopped(self._stopped)
        return lambda: self._watchers.remove(watcher) if watcher in self._watchers else None

    def recordsDamaged(self, log: str, start: int, stop: int, reason: str) -> None:
        known = self._damaged.setdefault(log, {})
        if (start, stop) in known or any(a <= start and stop <= b for a, b in known):
            return
        if len(known) < MOST_REMEMBERED:
            known[start, stop] = reason
        for watcher in self._watchers:
            watcher.recordsDamaged(log, start, stop, reason)

    @property
    def damagedRecords(self) -> int:
        return sum(b - a for ranges in self._damaged.values() for a, b in ranges)

    @property
    def damagedValues(self) -> int:
        return len(self._states)

    def damagedIn(self, log: str, start: int, stop: int) -> list[int]:
        """The known damaged sequences from C{start} to before C{stop}, in order."""
        sequences: set[int] = set()
        for begin, end in self._damaged.get(log, ()):
            sequences.update(range(max(begin, start), min(end, stop)))
        return sorted(sequences)

    def stateDamaged(self, space: str, key: bytes, reason: str) -> None:
        if (space, key) not in self._states:
            self._states[space, key] = reason
            for watcher in self._watchers:
                watcher.stateDamaged(space, key, reason)

    def logQuarantined(self, log: str, reason: str) -> None:
        if log not in self._quarantined:
            self._quarantined[log] = reason
            for watcher in self._watchers:
                watcher.logQuarantined(log, reason)

    def logDropped(self, log: str) -> None:
        self._damaged.pop(log, None)
        self._quarantined.pop(log, None)

    def logLost(self, log: str) -> None:
        for watcher in self._watchers:
            watcher.logLost(log)

    def writesStopped(self, reason: str) -> None:
        if not self._stopped:
            self._stopped = reason
            for watcher in self._watchers:
                watcher.writesStopped(reason)

    def writesResumed(self) -> None:
        if self._stopped:
            self._stopped = ""
            for watcher in self._watchers:
                watcher.writesResumed()
