"""
The store that forgets: logs in memory, for tests and for streams that need not survive. Each
Deferred has fired when it is returned. What was appended is not copied: the bytes objects are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from natsbroker.interfaces import IStateStore, IStoreWatcher, IStreamLog, IStreamStore
from natsbroker.interfaces.records import NoSuchLog, StoreClosed, StoreError
from natsbroker.storage.checks import checkChanges, checkLogName, checkSpace
from natsbroker.storage.memorylog import MemoryLog
from natsbroker.storage.policy import Aging
from natsbroker.storage.watching import StoreHealth


@implementer(IStateStore)
class MemoryStates:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._values: dict[bytes, bytes] = {}

    def load(self, prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        if self._store.closed is not None:
            return fail(self._store.closed)
        found = sorted(each for each in self._values if each.startswith(prefix))
        return succeed({key: self._values[key] for key in found})

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        return self.change({key: value})

    def delete(self, key: bytes) -> Deferred[None]:
        return self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        checkChanges(changes)
        if self._store.closed is not None:
            return fail(self._store.closed)
        for key, value in changes.items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        return succeed(None)


@implementer(IStreamStore)
class MemoryStore:
    def __init__(
        self,
        reactor: IReactorTime | Any,
        maxSize: int = 0,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """
        @param maxSize: of all records together, in bytes; 0 for any.
        """
        self.now = now
        self._aging = Aging(reactor)
        self.closed: StoreError | None = None
        self._maxSize = maxSize
        self._logs: dict[str, MemoryLog] = {}
        self._states: dict[str, MemoryStates] = {}
        self._troubles = StoreHealth()

    def _hasRoom(self, size: int) -> bool:
        if not self._maxSize:
            return True
        return sum(each.size for each in self._logs.values()) + size <= self._maxSize

    def logs(self) -> Deferred[list[str]]:
        return fail(self.closed) if self.closed is not None else succeed(sorted(self._logs))

    def open(self, name: str, create: bool = True) -> Deferred[IStreamLog]:
        checkLogName(name)
        if self.closed is not None:
            return fail(self.closed)
        log = self._logs.get(name)
        if log is None:
            if not create:
                return fail(NoSuchLog(f"there is no log {name}"))
            log = self._logs[name] = MemoryLog(name, self._hasRoom, self.now, self._aging)
        return succeed(log)

    def drop(self, name: str) -> Deferred[None]:
        if self.closed is not None:
            return fail(self.closed)
        log = self._logs.pop(name, None)
        if log is None:
            return fail(NoSuchLog(f"there is no log {name}"))
        log.closed = StoreClosed(f"log {name} was dropped")
        self._aging.forget(log)
        return succeed(None)

    def states(self, space: str) -> MemoryStates:
        checkSpace(space)
        return self._states.setdefault(space, MemoryStates(self))

    def watch(self, watcher: IStoreWatcher) -> Callable[[], None]:
        return self._troubles.watch(watcher)

    def close(self) -> Deferred[None]:
        if self.closed is None:
            self.closed = StoreClosed("the store is closed")
            self._aging.stop()
            for log in self._logs.values():
                log.closed = self.closed
        return succeed(None)
