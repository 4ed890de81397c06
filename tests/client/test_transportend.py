"""
Tests of L{natsbroker.client.transportend}.
"""

from __future__ import annotations

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IConsumer, IPushProducer, ITransport
from zope.interface.verify import verifyObject

from natsbroker.client.transportend import TransportEnd

OWN, PEER = IPv4Address("TCP", "127.0.0.1", 1), IPv4Address("TCP", "127.0.0.1", 2)


class End(TransportEnd):
    """
    An end that notes what is asked of it.
    """

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
    """It is a transport, a consumer and a producer, and knows where its ends are."""
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
    """There is one streaming producer at a time, and none where the connection is gone."""
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
    """It reads when its protocol wants it to, unless it is closing; stopping it is closing it."""
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
