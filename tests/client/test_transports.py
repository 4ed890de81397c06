"""
Transports without sockets.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IConsumer, IPushProducer, ITransport
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker.client.transports import PipeEnd, TransportEnd, connectPipe
from tests.testing.recording import Recording

OWN, PEER = IPv4Address("TCP", "127.0.0.1", 1), IPv4Address("TCP", "127.0.0.1", 2)


class End(TransportEnd):
    """A transport that records its calls."""

    def __init__(self, connected: bool = True) -> None:
        super().__init__(OWN, PEER)
        self.connected = connected
        self.written: list[bytes] = []
        self.done: list[str] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def loseConnection(self) -> None:
        self.done.append("lost")

    def _readOn(self) -> None:
        self.done.append("reads")


class Producer:
    """
    Records calls.
    """

    def __init__(self) -> None:
        self.told: list[str] = []

    def pauseProducing(self) -> None:
        self.told.append("pause")

    def resumeProducing(self) -> None:
        self.told.append("resume")

    def stopProducing(self) -> None:
        self.told.append("stop")


def test_provides() -> None:
    """A transport provides its interfaces, and knows its addresses."""
    end = End()
    for interface in (ITransport, IConsumer, IPushProducer):
        assert verifyObject(interface, end)
    assert (end.getHost(), end.getPeer()) == (OWN, PEER)
    end.writeSequence([b"a", b"b"])
    assert end.written == [b"ab"]


def test_producer() -> None:
    """A producer is paused once, resumed once, and stopped once."""
    end, producer = End(), Producer()
    end.registerProducer(producer, True)
    end._filled()
    end._filled()
    assert (end._drained(), end._drained()) == (True, False)
    end._filled()
    end._abandoned()
    end._abandoned()
    assert not end._drained()
    assert producer.told == ["pause", "resume", "pause", "stop"]


def test_oneProducer() -> None:
    """
    Only one streaming producer can be registered at a time, and none after the connection has
    ended.
    """
    end, producer = End(), Producer()
    with pytest.raises(NotImplementedError):
        end.registerProducer(producer, False)
    end.registerProducer(producer, True)
    with pytest.raises(RuntimeError):
        end.registerProducer(Producer(), True)
    end._filled()
    end.unregisterProducer()
    assert not end._drained()
    End(connected=False).registerProducer(producer, True)
    assert producer.told == ["pause", "stop"]


def test_reading() -> None:
    """
    A transport reads when its protocol wants input, unless it is closing. Stopping it closes it.
    """
    end = End()
    reading = []
    for disconnecting in (False, True):
        end.disconnecting = disconnecting
        end.resumeProducing()
        reading.append(end.isReading)
        end.pauseProducing()
        reading.append(end.isReading)
    assert reading == [True, False, False, False]
    end.stopProducing()
    assert end.done == ["reads", "lost"]


class Pipe:
    """
    Two recording protocols.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.one, self.other = Recording(), Recording()
        connectPipe(self.clock, self.one, self.other)
        assert self.one.events == self.other.events == ["made"]
        for end in (self.one, self.other):
            end.events.clear()
        self.left: Any = self.one.transport
        self.right: Any = self.other.transport

    def settle(self) -> None:
        """Let all calls that are due happen."""
        self.clock.advance(0)


class TestBytes:
    """Bytes between two transports."""

    def test_provides(self) -> None:
        """Each end provides the interfaces of a transport, and knows the address of the other."""
        pipe = Pipe()
        for interface in (ITransport, IConsumer, IPushProducer):
            assert verifyObject(interface, pipe.left)
        assert isinstance(pipe.left, PipeEnd) and pipe.left.other is pipe.right
        assert repr(pipe.left.getPeer()) == repr(pipe.left.getHost()) == "PipeAddress()"

    def test_bothWays(self) -> None:
        """Bytes written in one turn arrive together at the other end, in a later turn."""
        pipe = Pipe()
        pipe.left.write(b"a")
        pipe.left.writeSequence([b"b", b"c"])
        pipe.right.write(b"d")
        assert pipe.other.events == []
        pipe.settle()
        assert (pipe.one.events, pipe.other.events) == ([b"d"], [b"abc"])

    def test_answersFromWithin(self) -> None:
        """A protocol may write while it receives data."""
        pipe = Pipe()
        pipe.other.onData = lambda: pipe.right.write(b"pong")
        pipe.left.write(b"ping")
        pipe.settle()
        assert pipe.one.events == [b"pong"]


class TestBackPressure:
    """A transport whose peer does not read."""

    def test_pausesTheWriter(self) -> None:
        """
        A producer is paused while too much is in flight, and resumed when the peer has read it.
        """
        pipe = Pipe()
        pipe.left.registerProducer(pipe.one, True)
        pipe.right.pauseProducing()
        pipe.left.write(b"x" * (1 << 16))
        pipe.settle()
        assert pipe.one.events == []
        pipe.left.write(b"x")
        pipe.settle()
        assert pipe.one.events == ["pause"]
        pipe.right.resumeProducing()
        assert pipe.other.events == []
        pipe.settle()
        assert pipe.one.events == ["pause", "resume"]
        assert [len(event) for event in pipe.other.events] == [(1 << 16) + 1]

    def test_producers(self) -> None:
        """
        Only one streaming producer can be registered at a time. A producer that is registered too
        late is stopped.
        """
        pipe = Pipe()
        pipe.left.registerProducer(pipe.one, True)
        with pytest.raises(RuntimeError):
            pipe.left.registerProducer(pipe.one, True)
        pipe.left.unregisterProducer()
        with pytest.raises(NotImplementedError):
            pipe.left.registerProducer(pipe.one, False)
        pipe.left.abortConnection()
        pipe.settle()
        pipe.left.registerProducer(pipe.one, True)
        assert pipe.one.events == [ConnectionAborted, "stop"]


class TestTheEnd:
    """The end of a transport."""

    def test_loseConnection(self) -> None:
        """Closing sends waiting bytes first, and then both ends are notified once."""
        pipe = Pipe()
        pipe.left.write(b"bye")
        pipe.left.loseConnection()
        pipe.left.loseConnection()
        pipe.left.write(b"too late")
        pipe.right.write(b"not heard")
        assert pipe.other.events == []
        pipe.settle()
        assert pipe.other.events == [b"bye", ConnectionDone]
        assert pipe.one.events == [ConnectionDone]
        assert pipe.clock.getDelayedCalls() == []

    def test_lostWaits(self) -> None:
        """A connection that is being closed stays open until its peer has read all bytes."""
        pipe = Pipe()
        pipe.right.pauseProducing()
        pipe.left.write(b"bye")
        pipe.left.loseConnection()
        pipe.settle()
        assert pipe.one.events == []
        pipe.right.resumeProducing()
        pipe.settle()
        assert (pipe.one.events, pipe.other.events) == ([ConnectionDone], [b"bye", ConnectionDone])

    def test_bothLose(self) -> None:
        """Both ends may close at the same time, with bytes in flight in both directions."""
        pipe = Pipe()
        for end in (pipe.left, pipe.right):
            end.write(b"bye")
            end.stopProducing()
        pipe.settle()
        assert pipe.one.events == pipe.other.events == [ConnectionDone]
        assert pipe.clock.getDelayedCalls() == []

    def test_aborted(self) -> None:
        """Aborting drops bytes in flight, and the other end sees a lost connection."""
        pipe = Pipe()
        pipe.right.registerProducer(pipe.other, True)
        pipe.left.write(b"bye")
        pipe.left.abortConnection()
        pipe.left.abortConnection()
        pipe.settle()
        assert (pipe.one.events, pipe.other.events) == (
            [ConnectionAborted],
            ["stop", ConnectionLost],
        )

    def test_lostFromWithin(self) -> None:
        """A protocol may close its transport while it receives data."""
        pipe = Pipe()
        pipe.other.onData = pipe.right.loseConnection
        pipe.left.write(b"1")
        pipe.settle()
        assert (pipe.one.events, pipe.other.events) == ([ConnectionDone], [b"1", ConnectionDone])


STEPS = st.tuples(st.sampled_from(["write", "pause", "resume", "settle"]), st.binary(max_size=5))


@given(st.lists(STEPS))
def test_nothingLost(steps: list[tuple[str, bytes]]) -> None:
    """Written bytes arrive in order, with any pauses."""
    pipe = Pipe()
    sent = b""
    for what, data in steps:
        if what == "write":
            pipe.left.write(data)
            sent += data
        elif what == "pause":
            pipe.right.pauseProducing()
        elif what == "resume":
            pipe.right.resumeProducing()
        else:
            pipe.settle()
    pipe.right.resumeProducing()
    pipe.left.loseConnection()
    pipe.settle()
    assert b"".join(pipe.other.events[:-1]) == sent
    assert pipe.other.events[-1] is ConnectionDone
