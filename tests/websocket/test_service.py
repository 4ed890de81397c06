"""
Tests for L{natsbroker.websocket.service}.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.clients.adoption import Adoption
from natsbroker.config.settings.websocket import Websocket
from natsbroker.config.tls import TLSSettings
from natsbroker.runtime.reload import ReloadError
from natsbroker.websocket.protocol import AcceptedWebSocket
from natsbroker.websocket.service import loginSettings, tlsFrom
from tests.server.support import logLines, settingsOf
from tests.websocket.memory import CONNECT, Socket, WebSocketBroker

USERS = "authorization { users: [ {user: a, password: x}, {user: b, password: y} ] }"


class TestLogins:
    def test_overrides(self) -> None:
        """The logins of the block replace those of the top level."""
        settings = settingsOf("authorization { user: a, password: b }")
        loginTerms = loginSettings(settings, Websocket(token="t"))
        assert (loginTerms.authorization.user, loginTerms.authorization.token) == ("", "t")
        assert loginSettings(settings, Websocket()).authorization.user == "a"

    def test_mapping(self) -> None:
        """Certificates name users if the block's own tls says so."""
        settings = settingsOf("")
        tls = TLSSettings(verify_and_map=True)
        assert loginSettings(settings, Websocket(tls=tls)).tls is tls

    def test_onlyHere(self) -> None:
        """The block's logins are required over WebSocket, and not from other clients."""
        broker = WebSocketBroker("authorization { user: u, password: p }")
        socket = broker.dial()
        socket.upgrade()
        assert json.loads(socket.ask()[5:])["auth_required"]
        assert b"Authorization Violation" in socket.ask(CONNECT)
        connect = b'CONNECT {"user":"u","pass":"p","verbose":false}\r\nPING\r\n'
        socket = broker.dial()
        socket.upgrade()
        socket.ask()
        assert socket.ask(connect) == b"PONG\r\n"
        assert broker.memory.connect({"verbose": False}).request(b"PING\r\n") == b"PONG\r\n"

    def test_guests(self) -> None:
        """A client over WebSocket without a login is the block's no_auth_user."""
        broker = WebSocketBroker("no_auth_user: b", USERS)
        socket = broker.client()
        socket.ask(b"SUB a 1\r\n")
        (facts,) = [connection.facts() for connection in broker.broker.clientContext.connections]
        assert facts.user == "b"

    def test_reload(self) -> None:
        """A reload of the users applies to clients over WebSocket."""
        text = 'websocket {{ listen: "127.0.0.1:8080", no_tls: true\n no_auth_user: b\n}}\n{}'
        broker = WebSocketBroker("no_auth_user: b", USERS)
        new = USERS.replace("x", "z")
        broker.broker.reload(settingsOf(text.format(new)))
        socket = broker.dial()
        socket.upgrade()
        socket.ask()
        said = socket.ask(b'CONNECT {"user":"a","pass":"z","verbose":false}\r\nPING\r\n')
        assert said == b"PONG\r\n"


class TestReload:
    @pytest.mark.parametrize("change", ["compression: true", "same_origin: true"])
    def test_refuses(self, change: str) -> None:
        """A reload that changes the block is refused."""
        broker = WebSocketBroker()
        text = f'websocket {{ listen: "127.0.0.1:8080", no_tls: true, {change} }}'
        with pytest.raises(ReloadError, match="config reload not supported for Websocket"):
            broker.broker.reload(settingsOf(text))

    def test_same(self) -> None:
        """A reload that does not change the block succeeds."""
        broker = WebSocketBroker()
        broker.broker.reload(
            settingsOf('websocket { listen: "127.0.0.1:8080", no_tls: true }\nmax_payload: 9')
        )
        assert broker.settings.max_payload == 9


class TestListening:
    def test_announces(self) -> None:
        """The log names the address, and warns if TLS is missing."""
        with logLines() as lines:
            broker = WebSocketBroker()
        assert "Listening for websocket clients on ws://0.0.0.0:8080" in "\n".join(lines)
        assert "Websocket not configured with TLS. DO NOT USE IN PRODUCTION!" in "\n".join(lines)
        assert broker.broker.addresses()["websocket"] == ["ws://127.0.0.1:8080"]

    @pytest.mark.parametrize(
        ("option", "shown"),
        [("", {}), ('handshake_timeout: "3s"', {"handshake_timeout": 3_000_000_000})],
    )
    def test_varz(self, option: str, shown: dict[str, Any]) -> None:
        """The page C{/varz} shows the block as nats-server does, without secrets."""
        broker = WebSocketBroker(
            'compression: true, origins: ["http://a"], authorization { user: u, password: p }\n'
            + option
        )
        steps = broker.broker.monitoring.varz.steps()
        try:
            while True:
                next(steps)
        except StopIteration as end:
            page = end.value
        assert page["websocket"] == {
            "host": "127.0.0.1",
            "port": 8080,
            **shown,
            "no_tls": True,
            "allowed_origins": ["http://a"],
            "compression": True,
        }

    def test_connz(self) -> None:
        """A client over WebSocket is shown on C{/connz} and in the log."""
        broker = WebSocketBroker()
        broker.client(X_Forwarded_For="10.1.2.3")
        (session,) = broker.broker.clientContext.connections
        assert session.facts().type == "websocket"
        assert str(session).startswith("10.1.2.3/127.0.0.1:50001 - wid:1")

    def test_stops(self) -> None:
        """When the broker stops, connections that have not completed the handshake are cut."""
        broker = WebSocketBroker()
        waiting, client = broker.dial(), broker.client()
        broker.broker.stopService()
        broker.memory.advance(1)
        assert waiting.ending == "aborted"
        client.ask()
        assert client.closeCode == 1001

    def test_noLeafnodes(self) -> None:
        """A leafnode that connects to a broker without leafnodes is closed after the handshake."""
        broker = WebSocketBroker()
        socket = broker.dial()
        assert socket.upgrade(b"/leafnode").startswith(b"HTTP/1.1 101 ")
        assert socket.ending == "lost"


class TestAdopted:
    """Connections that another process accepted, and counts as clients until they end."""

    @pytest.fixture
    def dialled(self, monkeypatch: pytest.MonkeyPatch) -> tuple[Socket, list[tuple[int, str]]]:
        """A connection, and the list of reported ends."""
        monkeypatch.setattr(AcceptedWebSocket, "adoption", Adoption(77))
        broker = WebSocketBroker(rest='leafnodes { listen: "127.0.0.1:7422" }')
        ends: list[tuple[int, str]] = []
        broker.broker.clientContext.connections.left = lambda *left: ends.append(left)
        return broker.dial(), ends

    def test_client(self, dialled: tuple[Socket, list[tuple[int, str]]]) -> None:
        """A client has the number that it was given."""
        socket, ends = dialled
        socket.upgrade(b"/")
        assert b'"client_id":77,' in socket.ask()
        assert ends == []

    def test_leafnode(self, dialled: tuple[Socket, list[tuple[int, str]]]) -> None:
        """A leafnode does not count as a client."""
        socket, ends = dialled
        socket.upgrade(b"/leafnode")
        assert ends == [(77, "")]


def test_tlsFrom() -> None:
    """Without a block, there is no TLS."""
    assert tlsFrom(Websocket()) is None
