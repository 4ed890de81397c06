"""
The conformance table against a broker in memory, with a clock that the rows advance.

Every row is replayed as written, byte by byte, and with its longest packet split at every byte: the
answer must not depend on how the bytes arrive. The lane is that of this run of the tests, compiled
or pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from natsbroker.testing.memory import MemoryBroker, MemoryConnection
from tests.conformance.rows import Row, allRows
from tests.conformance.splits import byteByByte, everySplit
from tests.conformance.tables.logins import ONE_USER
from tests.conformance.transcripts import Replay, Step

ROWS = [row for row in allRows() if not row.needsProcess]

#: How many seconds late a broker may be with what is due.
LATENESS = 0.06

rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)

#: Without the rows that are about splits themselves.
unsplitRows = pytest.mark.parametrize(
    "row", [row for row in ROWS if row.number != 52 or row.name == "whole"], ids=lambda row: row.id
)


class MemoryPeer:
    """
    The client's end of a connection in memory.
    """

    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = connection

    def send(self, data: bytes) -> None:
        """Send bytes, unless the broker has closed."""
        if not self._connection.closed:
            self._connection.send(data)

    def read(self) -> bytes:
        """Read the available output. Time stands still, so that no more comes."""
        data = self._connection.receive()
        if not data and not self._connection.closed:
            raise TimeoutError
        return data

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class MemoryStage:
    """
    A broker in memory and its clock.
    """

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def dial(self) -> MemoryPeer:
        """
        Connect.
        """
        return MemoryPeer(self._broker.connect())

    def wait(self, seconds: float) -> None:
        """Advance the clock a little beyond the time at which the event is due."""
        self._broker.advance(seconds + LATENESS)

    sleep = wait


def play(row: Row, steps: Sequence[Step], broker: MemoryBroker) -> None:
    """Replay a row."""
    Replay(MemoryStage(broker), row.countPings).run(steps)


@rows
def test_rowHolds(row: Row) -> None:
    """The answer of natsbroker is that of the row."""
    with MemoryBroker(configText=row.config) as broker:
        play(row, row.ourSteps, broker)


@unsplitRows
def test_byteByByte(row: Row) -> None:
    """The answer is the same if every byte arrives alone."""
    with MemoryBroker(configText=row.config) as broker:
        play(row, byteByByte(row.ourSteps), broker)


@pytest.mark.slow
@unsplitRows
def test_everySplit(row: Row) -> None:
    """
    The answer is the same wherever the longest packet is split in two.

    One broker plays all splits of a row that does not need a fresh one, because starting a broker
    takes longer than most rows.
    """
    with MemoryBroker(configText=row.config) as shared:
        for at, steps in everySplit(row.ourSteps):
            own = MemoryBroker(configText=row.config) if row.fresh else nullcontext(shared)
            with own as broker:
                try:
                    play(row, steps, broker)
                except AssertionError as error:
                    raise AssertionError(f"split at {at}: {error}") from error


def test_nothingIsEarly() -> None:
    """A client that sends nothing has the whole login time."""
    with MemoryBroker(configText=ONE_USER) as broker:
        client = broker.connect()
        assert client.receive().startswith(b"INFO ")
        broker.advance(0.49)
        assert (client.receive(), client.closed) == (b"", "")
        broker.advance(0.01 + LATENESS)
        assert client.receive() == b"-ERR 'Authentication Timeout'\r\n"
        assert client.closed
