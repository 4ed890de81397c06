"""
Tests for L{natsbroker.interfaces.clients}: the package's classes provide the interfaces.
"""

from __future__ import annotations

from zope.interface.verify import verifyClass, verifyObject

from natsbroker.clients.dialect import ClientDialect
from natsbroker.interfaces import (
    IClientDialect,
    IClientEvents,
    IClientFactory,
    IClientSession,
    IOrigin,
)
from natsbroker.testing.transport import MemoryTransport
from tests.server.support import Host


def test_dialect() -> None:
    """The base class of dialects has all methods of both interfaces."""
    assert verifyClass(IClientDialect, ClientDialect) and verifyClass(IClientEvents, ClientDialect)


def test_session() -> None:
    """The factory for a kind of connection makes a session for each connection."""
    host = Host()
    sessions: list[object] = []

    def make(session: object) -> ClientDialect:
        sessions.append(session)
        return ClientDialect(session)

    factory = host.broker.clientFactory(make, "LINES")
    assert verifyObject(IClientFactory, factory)
    protocol = factory.buildProtocol(None)
    MemoryTransport(host.reactor, protocol).connect()
    (session,) = sessions
    assert verifyObject(IClientSession, session) and verifyObject(IOrigin, session)
