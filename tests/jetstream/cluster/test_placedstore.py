"""Rows in the table before and after the objects that they represent."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker.interfaces import IStateStore, IStreamStore
from natsbroker.interfaces.records import LeaseLost, StoreFailed
from natsbroker.jetstream.cluster.placedstore import PlacedStore
from natsbroker.storage.memory import MemoryStore


class Table:
    """A store that records which rows are set, and the state that is stored at that moment."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, dict[bytes, bytes | None], list[bytes]]] = []
        self.refusal: Exception | None = None
        self.inner = MemoryStore(Clock())
        self.store = PlacedStore(self.inner, self.place)
        self.states = self.store.states("jetstream/A")

    async def place(self, account: str, rows: Any) -> None:
        """Set rows."""
        keys = list(await self.inner.states("jetstream/A").load())
        self.changes.append((account, dict(rows), keys))
        if self.refusal is not None:
            raise self.refusal


def failure(deferred: Deferred[Any]) -> Any:
    """The exception of a Deferred that has failed."""
    results: list[Any] = []
    deferred.addBoth(results.append)
    return results[0].value


def test_interfaces() -> None:
    """The store and its states provide the interfaces that JetStream requires."""
    table = Table()
    assert verifyObject(IStreamStore, table.store)
    assert verifyObject(IStateStore, table.states)


def test_order() -> None:
    """
    A stream's row is set before the stream is stored, and deleted after the stream is deleted.
    """
    table = Table()
    table.states.change({b"stream/1": b"c", b"consumer/1": b"d"})
    table.states.change({b"stream/1": None, b"consumer/1": None})
    assert table.changes == [("A", {b"stream/1": b"c"}, []), ("A", {b"stream/1": None}, [])]


def test_otherState() -> None:
    """State other than an account's streams sets no row."""
    table = Table()
    table.states.put(b"state/1", b"x")
    table.states.delete(b"state/1")
    table.store.states("pipeline/jetstream/A").put(b"stream/1", b"c")
    assert table.changes == []


def test_rowOfAnother() -> None:
    """A stream whose row is another worker's is not stored."""
    table = Table()
    table.refusal = LeaseLost("another worker has the stream")
    assert isinstance(failure(table.states.put(b"stream/1", b"c")), LeaseLost)
    loaded: Any = table.states.load()
    assert loaded.result == {}


def test_notStored() -> None:
    """If a stream cannot be stored, its row gets its former value again."""
    table = Table()
    table.states.put(b"stream/1", b"old")
    inner: Any = table.states
    inner._inner.change = lambda changes: fail(StoreFailed("full"))
    changing = table.states.change({b"stream/1": b"new", b"stream/2": b"c"})
    assert isinstance(failure(changing), StoreFailed)
    assert table.changes[-1][1] == {b"stream/1": b"old", b"stream/2": None}
