"""
Tests of L{natsbroker.clients.finding}.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from natsbroker.clients.finding import closeAll, closeExcess, sessionsOf
from natsbroker.config.model import AccountLimits
from tests.server.support import Host


def fired(deferred: Deferred[None]) -> list[object]:
    """A list that shows whether a Deferred has fired."""
    sessions: list[object] = []
    deferred.addBoth(sessions.append)
    return sessions


def test_sessions() -> None:
    """All sessions are found."""
    host = Host()
    clients = [host.client() for _ in range(3)]
    sessions = sessionsOf(host.broker.clientContext.connections)
    assert sessions == [client.session for client in clients]


def test_closeExcess() -> None:
    """The newest connections of an account are closed, as many as exceed the limit. Others stay."""
    host = Host("accounts { A { users: [{user: a, password: p}] } }\nno_auth_user: a")
    clients = [host.client() for _ in range(4)]
    context, accounts = host.broker.clientContext, host.broker.accounts
    closeExcess(context, accounts, "A")
    assert [client.closed for client in clients] == [""] * 4
    accounts.include("A", AccountLimits(max_connections=2))
    closeExcess(context, accounts, "$G")
    closeExcess(context, accounts, "A")
    assert [client.closed for client in clients] == ["", "", "lost", "lost"]
    assert clients[3].receive() == b"-ERR 'maximum account active connections exceeded'\r\n"


def test_closeAll() -> None:
    """Each client is disconnected without an error, after its waiting output."""
    host = Host()
    clients = [host.client() for _ in range(2)]
    clients[0].transport.send(b"PING\r\n")
    done = fired(closeAll(host.broker.clientContext.connections))
    assert done == []
    assert clients[0].receive() == b"PONG\r\n"
    assert [client.closed for client in clients] == ["lost", "lost"]
    assert [client.session.reason for client in clients] == ["Server Shutdown"] * 2
    assert done == [None]


def test_slow() -> None:
    """A client that reads nothing is disconnected soon."""
    host = Host()
    client = host.client()
    client.transport.taking = False
    client.transport.send(b"PING\r\n")
    done = fired(closeAll(host.broker.clientContext.connections))
    host.advance(0.9)
    assert done == []
    host.advance(0.2)
    assert client.closed == "aborted"
    assert done == [None]


def test_none() -> None:
    """Without clients, closing all ends at once."""
    assert fired(closeAll(Host().broker.clientContext.connections)) == [None]
