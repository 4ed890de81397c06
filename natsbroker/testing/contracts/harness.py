"""The common part of the contract tests of stores: the harness that makes a store, and entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast
from unittest import SkipTest

from twisted.internet.defer import Deferred

from natsbroker.interfaces import IStreamLog, IStreamStore
from natsbroker.interfaces.records import Entry, Record, Retention

if TYPE_CHECKING:
    from unittest import TestCase

    class _Base(TestCase):
        successResultOf: Any
        failureResultOf: Any
        assertNoResult: Any
        mktemp: Any
else:
    _Base = object

__all__ = ["SECOND", "StoreHarness", "entry", "numbered"]


T = TypeVar("T")


SECOND = 1_000_000_000


def entry(payload: bytes, subject: bytes = b"s", headers: bytes = b"", time: int = 0) -> Entry:
    return (subject, headers, payload, time)


def numbered(start: int, stop: int, subject: bytes = b"s") -> list[Entry]:
    return [entry(b"%d" % number, subject) for number in range(start, stop)]


class StoreHarness(_Base):
    """
    @ivar time: what the store's wall clock shows, in nanoseconds.
    """

    time = 1_700_000_000 * SECOND

    def now(self) -> int:
        return self.time

    def makeStore(self) -> Any:
        """Make an empty store, with L{now} as its clock. It is closed by the contract."""
        raise NotImplementedError

    def reopen(self, store: Any) -> Any:
        """Close a store and open it again."""
        raise SkipTest("this store cannot be reopened: it keeps nothing after it is closed")

    def wait(self, deferred: Deferred[T]) -> T:
        results: list[Any] = []
        deferred.addCallbacks(results.append, results.append)
        if not results:
            self.fail("the Deferred has not fired")
        if hasattr(results[0], "raiseException"):
            results[0].raiseException()
        return cast(T, results[0])

    def advance(self, seconds: float) -> None:
        """Advance L{time} and the reactor's time."""
        self.time += int(seconds * SECOND)

    def failsWith(self, error: type[Exception], deferred: Deferred[Any]) -> Exception:
        try:
            result = self.wait(deferred)
        except error as failure:
            return failure
        self.fail(f"did not fail with {error.__name__}: {result!r}")

    def store(self) -> IStreamStore:
        store: IStreamStore = self.makeStore()
        self.addCleanup(lambda: self.wait(store.close()))
        return store

    def log(self, entries: Sequence[Entry] = (), retention: Retention | None = None) -> Any:
        log: Any = self.wait(self.store().open("log"))
        if retention is not None:
            log.retain(retention)
        if entries:
            self.wait(log.append(entries))
        return log

    def allOf(self, log: IStreamLog, start: int = 1) -> list[Record]:
        records: list[Record] = []
        while True:
            page = self.wait(log.read(start))
            if not page:
                return records
            records += page
            start = page[-1].sequence + 1

    def payloads(self, log: IStreamLog) -> list[bytes]:
        return [record.payload for record in self.allOf(log)]

    def sequences(self, log: IStreamLog) -> list[int]:
        return [record.sequence for record in self.allOf(log)]
