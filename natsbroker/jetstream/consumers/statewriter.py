"""
Writes the state of a consumer: late, many changes together, or at once if an answer depends on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.interfaces import IStateStore
from natsbroker.interfaces.records import LeaseLost, StoreClosed, StoreError
from natsbroker.runtime.deadlines import Deadline, Deadlines

_log = Logger(namespace="natsbroker.jetstream")

#: Seconds for which changes are collected if no answer waits for them. After a crash, messages that
#: were acknowledged in this time without a reply subject are delivered again.
LATE = 0.2

#: Seconds after which a write that failed is tried again.
RETRY = 1.0


class StateWriter:
    """Keeps the value of one key up to date. One write is in flight at a time."""

    def __init__(
        self,
        states: IStateStore | None,
        key: bytes,
        encode: Callable[[], bytes],
        deadlines: Deadlines,
        relaxed: Callable[[Callable[[], object]], object],
    ) -> None:
        """
        The writer of the value that C{encode} gives; C{states} is C{None} if it is not kept.

        @param relaxed: makes a call that may write to the store as published messages are written,
            which with an interval between syncs a power cut may undo.
        """
        self._states = states
        self._key = key
        self._encode = encode
        self._deadlines = deadlines
        self._relaxed = relaxed
        self._version = 0
        self._durable = self._synced = 0
        self._writing = 0
        self._isSyncing = False
        self._timer: Deadline | None = None
        self._waiting: deque[tuple[int, bool, Callable[[], object]]] = deque()
        self._isStopped = False

    @property
    def isKept(self) -> bool:
        """Whether the state survives the process."""
        return self._states is not None

    def begin(self, others: Mapping[bytes, bytes]) -> Deferred[None]:
        """
        Write the first state and other values, all or nothing.

        @return: fires when they are durable; fails with L{StoreError}, without another attempt.
        """
        if self._states is None:
            return succeed(None)
        self._cancelTimer()
        self._version += 1
        self._writing = self._version
        self._isSyncing = True
        writing = self._states.change({**others, self._key: self._encode()})
        return writing.addCallbacks(self._written, self._notBegun)

    def _notBegun(self, failure: Failure) -> Failure:
        self._writing = 0
        return failure

    def touched(self) -> None:
        if self._states is None or self._isStopped:
            return
        self._version += 1
        if self._timer is None and not self._writing:
            self._timer = self._deadlines.after(LATE, self._write)

    def whenDurable(self, call: Callable[[], object], isRelaxed: bool = False) -> None:
        """
        Write changes at once, and make a call when all changes so far are durable. Calls are made
        in order.

        @param isRelaxed: whether it is enough that they are as durable as published messages.
        """
        if self._isDurable(self._version, isRelaxed) and not self._waiting:
            call()
        elif not self._isStopped:
            self._waiting.append((self._version, isRelaxed, call))
            if not self._writing:
                self._write()

    def _isDurable(self, version: int, isRelaxed: bool) -> bool:
        return version <= (self._durable if isRelaxed else self._synced)

    def flush(self) -> Deferred[None]:
        """Write changes at once; fires when all changes so far are durable."""
        done: Deferred[None] = Deferred()
        self.whenDurable(lambda: done.callback(None))
        return done

    def stop(self) -> None:
        """Write nothing more. Calls that wait are not made."""
        self._isStopped = True
        self._waiting.clear()
        self._cancelTimer()

    def _cancelTimer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write(self) -> None:
        self._cancelTimer()
        if self._states is None or self._isStopped:
            return
        self._writing = self._version
        self._isSyncing = any(not isRelaxed for _, isRelaxed, _ in self._waiting)
        put = partial(self._put, self._states)
        try:
            if self._isSyncing:
                put()
            else:
                self._relaxed(put)
        except ValueError:
            _log.failure("The state of a consumer cannot be written")
            self._writing = 0

    def _put(self, states: IStateStore) -> None:
        states.put(self._key, self._encode()).addCallbacks(self._written, self._failed)

    def _written(self, result: None) -> None:
        self._durable, self._writing = self._writing, 0
        if self._isSyncing:
            self._synced = self._durable
        waiting = self._waiting
        while waiting and self._isDurable(*waiting[0][:2]):
            waiting.popleft()[2]()
        if self._writing:
            return  # One of the callbacks has begun the next write.
        if waiting:
            self._write()
        elif self._durable != self._version and self._timer is None and not self._isStopped:
            self._timer = self._deadlines.after(LATE, self._write)

    def _failed(self, failure: Failure) -> None:
        self._writing = 0
        failure.trap(StoreError)
        if failure.check(StoreClosed, LeaseLost):
            self.stop()
        elif not self._isStopped:
            _log.error("A consumer's state is not written: {why}", why=str(failure.value))
            self._timer = self._deadlines.after(RETRY, self._write)
