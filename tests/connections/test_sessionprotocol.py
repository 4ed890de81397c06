"""
The common part of the Twisted protocols of clients and links. Handshakes are tested with each of
them.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker.connections.sessionprotocol import SessionProtocol


class Recorder:
    """
    An object that records the names of its called methods, and stands for sessions and transports.
    """

    context: Any = None

    def __init__(self) -> None:
        self.calls: list[str] = []

    @property
    def outbox(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **more: self.calls.append(name)


class Spoken(SessionProtocol):
    """The protocol of a session that only records calls."""

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
    """The protocol of a session provides the interfaces that transports require."""
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
    """The session gets the events of the transport while there is one."""
    spoken = Spoken()
    session = spoken.session
    getattr(spoken, event)()
    assert session.calls == calls
    spoken.session = None
    getattr(spoken, event)()
    assert session.calls == calls


def test_deafPeer() -> None:
    """A peer that has stopped reading is disconnected at once."""
    spoken = Spoken()
    spoken.writeConnectionLost()
    assert spoken.sent == ["abortConnection"]


def test_lingers() -> None:
    """A peer that does not read the rest within a second is disconnected."""
    spoken = Spoken()
    spoken.finish()
    spoken.reactor.advance(0.9)
    assert spoken.sent == ["unregisterProducer", "loseConnection"]
    spoken.reactor.advance(0.2)
    assert spoken.sent[2:] == ["abortConnection"]


def test_withoutSession() -> None:
    """A protocol class must define its session."""
    with pytest.raises(NotImplementedError):
        SessionProtocol().readConnectionLost()
