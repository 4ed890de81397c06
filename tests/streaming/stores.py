"""
Stores that a test controls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.interfaces import ILeasedStore, IRetainedLog, IStateStore, IStreamStore
from natsbroker.interfaces.records import (
    Entry,
    LeaseLost,
    LogBounds,
    Record,
    Retention,
    StoreClosed,
)
from natsbroker.storage.memory import MemoryStore


@implementer(IStreamStore)
class HeldStore:
    """
    A store whose commits wait for the test.

    @ivar isHeld: whether anything waits at all.
    @ivar failing: what fails instead of being done; C{None} while nothing does.
    @ivar unreadable: what reads fail with; C{None} while they do not.
    @ivar reads: first sequence and limit of every read.
    """

    def __init__(self, inner: MemoryStore, isHeld: bool = False) -> None:
        self.inner = inner
        self.isHeld = isHeld
        self.failing: Exception | None = None
        self.unreadable: Exception | None = None
        self.reads: list[tuple[int, int]] = []
        self.waiting: list[tuple[Deferred[Any], Callable[[], Any]]] = []
        self._logs: dict[str, HeldLog] = {}

    def do(self, call: Callable[[], Any]) -> Deferred[Any]:
        """Do something when the test commits."""
        done: Deferred[Any] = Deferred()
        self.waiting.append((done, call))
        if not self.isHeld:
            self.commit()
        return done

    def commit(self) -> None:
        """Do, or fail, the waiting requests."""
        waiting, self.waiting = self.waiting, []
        for done, call in waiting:
            if self.failing is not None:
                done.errback(self.failing)
            else:
                call().addBoth(_pass, done)

    def logs(self) -> Deferred[list[str]]:
        return self.inner.logs()

    def open(self, name: str, create: bool = True) -> Deferred[Any]:
        return self.do(lambda: self.inner.open(name, create)).addCallback(self._opened)

    def _opened(self, log: Any) -> HeldLog:
        return self._logs.setdefault(log.name, HeldLog(self, log))

    def drop(self, name: str) -> Deferred[None]:
        self._logs.pop(name, None)
        return self.do(lambda: self.inner.drop(name))

    def states(self, space: str) -> Any:
        return HeldStates(self, self.inner.states(space))

    def watch(self, watcher: Any) -> Callable[[], None]:
        return self.inner.watch(watcher)

    def close(self) -> Deferred[None]:
        return succeed(None)


def _pass(result: Any, done: Deferred[Any]) -> None:
    if isinstance(result, Failure):
        done.errback(result)
    else:
        done.callback(result)


@implementer(IRetainedLog)
class HeldLog:
    """
    A log in a L{HeldStore}.

    @ivar appends: how many records each append brought.
    """

    def __init__(self, store: HeldStore, inner: Any) -> None:
        self._store = store
        self.inner = inner
        self.name = inner.name
        self.identity = inner.identity
        self._coming = 0
        self.appends: list[int] = []

    @property
    def nextSequence(self) -> int:
        return int(self.inner.nextSequence) + self._coming

    def append(self, batch: Sequence[Entry]) -> Deferred[range]:
        entries = list(batch)
        self._coming += len(entries)
        if entries:
            self.appends.append(len(entries))
        return self._store.do(lambda: self.inner.append(entries)).addBoth(self._done, len(entries))

    def _done(self, result: Any, count: int) -> Any:
        self._coming -= count
        return result

    def read(
        self, sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[list[Record]]:
        self._store.reads.append((sequence, limit))
        if self._store.unreadable is not None:
            return fail(self._store.unreadable)
        deferred: Deferred[list[Record]] = self.inner.read(sequence, limit, maxBytes)
        return deferred

    def bounds(self) -> LogBounds:
        bounds: LogBounds = self.inner.bounds()
        return bounds

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        if self._store.unreadable is not None:
            return fail(self._store.unreadable)
        deferred: Deferred[int] = self.inner.sequenceAt(timestamp)
        return deferred

    def retain(self, retention: Retention) -> None:
        self.inner.retain(retention)

    def discardBefore(self, sequence: int) -> Deferred[int]:
        return self._store.do(lambda: self.inner.discardBefore(sequence))

    def delete(self, sequences: Any) -> Deferred[int]:
        return self._store.do(lambda: self.inner.delete(sequences))

    def skipTo(self, sequence: int) -> Deferred[None]:
        return self._store.do(lambda: self.inner.skipTo(sequence))


@implementer(IStateStore)
class HeldStates:
    """
    The state of a L{HeldStore}.
    """

    def __init__(self, store: HeldStore, inner: Any) -> None:
        self._store = store
        self._inner = inner

    def load(self, prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        deferred: Deferred[dict[bytes, bytes]] = self._inner.load(prefix)
        return deferred

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        return self.change({key: value})

    def delete(self, key: bytes) -> Deferred[None]:
        return self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        copied = dict(changes)
        return self._store.do(lambda: self._inner.change(copied))


class Shared:
    """
    The state that brokers share.

    @ivar inner: where everything is.
    @ivar holder: the broker that has all leases.
    """

    def __init__(self, inner: MemoryStore) -> None:
        """
        Free the leases: the first waiting broker gets them, and the old holder is not notified.
        """
        self.inner = inner
        self.holder: LeasedStore | None = None
        self.waiting: list[tuple[LeasedStore, str, Deferred[Any]]] = []

    def free(self) -> None:
        """The leases are over: who waits for them first gets them; who had them knows nothing."""
        self.holder = None
        for deferred in self.waiting[:1]:
            self.waiting.remove(deferred)
            store, name, waiting = deferred
            store.open(name).chainDeferred(waiting)


@implementer(ILeasedStore)
class LeasedStore(HeldStore):
    """
    A broker's view of a store that several share.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared.inner)
        self.shared = shared
        self._isClosed = False
        self._watchers: list[Any] = []

    def do(self, call: Callable[[], Any]) -> Deferred[Any]:
        """Do something, if this broker holds the leases."""
        if self._isClosed:
            return fail(StoreClosed("closed"))
        if self.shared.holder is None:
            self.shared.holder = self
        if self.shared.holder is not self:
            return fail(LeaseLost("another broker serves it"))
        return super().do(call)

    def whenFree(self, name: str) -> Deferred[Any]:
        entry: list[Any] = []
        waiting: Deferred[Any] = Deferred(lambda _: self.shared.waiting.remove(entry[0]))
        entry.append((self, name, waiting))
        self.shared.waiting.append(entry[0])
        return waiting

    lease = 5.0

    def _missing(self, *details: Any) -> Deferred[Any]:
        return fail(NotImplementedError())

    isSure = True

    giveUp = giveUpStates = introduce = census = peek = verify = _missing

    def watch(self, watcher: Any) -> Callable[[], None]:
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def notice(self, log: str) -> None:
        """Notice that a log is another broker's."""
        for watcher in list(self._watchers):
            watcher.logLost(log)

    def close(self) -> Deferred[None]:
        self._isClosed = True
        if self.shared.holder is self:
            self.shared.free()
        return succeed(None)
