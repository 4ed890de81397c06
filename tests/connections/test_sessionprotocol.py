"""
The common part of the Twisted protocols of clients and links. Handshakes are in the tests of each.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker.connections.sessionprotocol import SessionProtocol


class Recorder:
    """Notes the names of the methods that are called, and pretends to be what it is used as."""

    context: Any = None

    def __init__(self) -> None:
        self.calls: list[str] = []

    @property
    def outbox(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **more: self.calls.append(name)


class Spoken(SessionProtocol):
    """A protocol of a session that only records."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = Recorder()
        self.session: Any = Recorder()
        self.session.context = self
        self.reactor = Clock()

    @property
    def owner(self) -> Any:
        return self.session

    @property
    def sent(self) -> list[str]:
        """The calls of the transport."""
        calls: list[str] = self._stream.calls
        return calls


def test_provides() -> None:
    """A session's protocol provides the interfaces that transports look for."""
    assert verifyObject(IPushProducer, Spoken())
    assert verifyObject(IHalfCloseableProtocol, Spoken())


@pytest.mark.parametrize(
    ("event", "calls"),
    [
        ("readConnectionLost", ["inputEnded"]),
        ("pauseProducing", ["pause", "writeBlocked"]),
        ("resumeProducing", ["writeProgressed", "resume"]),
    ],
)
def test_events(event: str, calls: list[str]) -> None:
    """The session gets the events of the transport, as long as there is a transport."""
    spoken = Spoken()
    session = spoken.session
    getattr(spoken, event)()
    assert session.calls == calls
    spoken.session = None
    getattr(spoken, event)()
    assert session.calls == calls


def test_deafPeer() -> None:
    """A peer that reads nothing more is cut at once."""
    spoken = Spoken()
    spoken.writeConnectionLost()
    assert spoken.sent == ["abortConnection"]


def test_lingers() -> None:
    """A peer that does not read the rest within a second is cut."""
    spoken = Spoken()
    spoken.finish()
    spoken.reactor.advance(0.9)
    assert spoken.sent == ["unregisterProducer", "loseConnection"]
    spoken.reactor.advance(0.2)
    assert spoken.sent[2:] == ["abortConnection"]


def test_withoutSession() -> None:
    """A protocol must name its session."""
    with pytest.raises(NotImplementedError):
        SessionProtocol().readConnectionLost()
