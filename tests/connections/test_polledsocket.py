"""
The connection of a socket and a session: the order of their ends, without a poller's loop.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from natsbroker import hot
from natsbroker.connections.polledsocket import PolledSocket
from tests.support import COMPILED, needsCompiled, using

pytestmark = needsCompiled


class RecordingSession:
    """A session that records its calls."""

    def __init__(self, batch: Any) -> None:
        assert COMPILED is not None
        self.decoder = COMPILED.Decoder()
        self.outbox = COMPILED.Outbox(batch, self, lambda data: None, 1 << 26)
        self.told: list[str] = []

    def proceed(self) -> None:
        self.told.append(f"{self.decoder.pending} bytes")

    def writeBlocked(self) -> None:
        self.told.append("blocked")

    def writeProgressed(self) -> None:
        self.told.append("progressed")

    def inputEnded(self) -> None:
        self.told.append("ended")

    def internalFailure(self) -> None:
        self.told.append(f"failed with {sys.exc_info()[1]!r}")

    def outboxOverflowed(self) -> None:
        """Unused by these tests."""
        raise AssertionError("too much was put in")

    def outboxFailed(self) -> None:
        """Unused by these tests."""
        raise AssertionError("sending failed")


class Desk:
    """
    A polled socket over one end of a socket pair.

    @ivar ends: the arguments with which it was ended.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        batch = hot.FlushBatch(lambda call: self.clock.callLater(0, call))
        self.poller = hot.Poller(batch)
        self.talk = RecordingSession(batch)
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.theirs.setblocking(False)
        self.ends: list[Failure] = []
        clock: Any = self.clock
        self.socket = PolledSocket(
            self.poller, self.ours.fileno(), self.talk, clock, self.ends.append
        )

    @property
    def watched(self) -> str:
        """The events of the socket that the kernel watches, as the kernel's flags."""
        lines = Path(f"/proc/self/fdinfo/{self.poller.fileno()}").read_text().splitlines()
        [events] = [
            line.split()[3]
            for line in lines
            if line.split()[:2] == ["tfd:", f"{self.ours.fileno()}"]
        ]
        return events

    def run(self) -> list[str]:
        """
        Handle what is ready.

        @return: the calls of the session.
        """
        self.poller.run()
        self.clock.advance(0)
        told, self.talk.told = self.talk.told, []
        return told

    def fill(self) -> None:
        """Write more than the socket takes."""
        self.talk.outbox.write(b"x" * 10_000_000)
        self.clock.advance(0)

    def drain(self) -> int:
        """Read all that was written."""
        total = 0
        for _ in range(10_000):
            self.run()
            try:
                total += len(self.theirs.recv(1 << 20))
            except BlockingIOError:
                if not self.talk.outbox.pending:
                    break
        return total

    def close(self) -> None:
        """Close everything."""
        self.socket.forget()
        self.poller.close()
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A socket that is closed afterwards."""
    assert COMPILED is not None
    with using(COMPILED):
        made = Desk()
        try:
            yield made
        finally:
            made.close()


def test_input(desk: Desk) -> None:
    """Input is in the decoder when the session is called, unless reading is paused."""
    desk.theirs.send(b"PING\r\n")
    assert desk.run() == ["6 bytes"]
    desk.socket.setReading(False)
    desk.theirs.send(b"PING\r\n")
    assert desk.run() == []
    desk.socket.setReading(True)
    assert desk.run() == ["12 bytes"]


def test_shortPause(desk: Desk) -> None:
    """A pause changes the kernel's events only if input arrives meanwhile."""
    before = desk.watched
    desk.socket.setReading(False)
    assert (desk.watched, desk.run()) == (before, [])
    desk.theirs.send(b"PING\r\n")
    assert desk.run() == []
    assert desk.watched != before
    desk.socket.setReading(True)
    assert (desk.watched, desk.run()) == (before, ["6 bytes"])


def test_finish(desk: Desk) -> None:
    """The end comes once after all output was sent, however often it is requested."""
    desk.fill()
    assert desk.run() == ["blocked"]
    desk.socket.finish()
    desk.socket.finish()
    assert (desk.run(), desk.ends) == ([], [])
    assert desk.drain() == 10_000_000
    desk.run()
    assert [end.type for end in desk.ends] == [ConnectionDone]


def test_finishAtOnce(desk: Desk) -> None:
    """The end does not come within the call that requests it, even if no output waits."""
    desk.socket.finish()
    assert desk.ends == []
    desk.run()
    assert len(desk.ends) == 1
    desk.theirs.send(b"late")
    assert desk.run() == []


def test_peerEnds(desk: Desk) -> None:
    """The end of a peer's input is reported once."""
    desk.theirs.shutdown(socket.SHUT_WR)
    assert desk.run() == ["ended"]
    assert (desk.run(), desk.ends) == ([], [])


def test_lost(desk: Desk) -> None:
    """A peer that has disconnected ends the connection."""
    desk.fill()
    desk.run()
    desk.theirs.close()
    for _ in range(3):
        desk.run()
    assert [end.type for end in desk.ends] == [ConnectionLost]


def test_forgotten(desk: Desk) -> None:
    """A forgotten socket handles no events, and reports no end."""
    desk.socket.finish()
    desk.socket.forget()
    desk.socket.forget()
    desk.socket.setReading(True)
    desk.socket.useLane(None)
    desk.theirs.send(b"late")
    assert (desk.run(), desk.ends, len(desk.poller)) == ([], [], 0)
