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
from natsbroker.websocket.deflate import Inflation
from natsbroker.websocket.frames import FrameReader, FrameWriter
from natsbroker.websocket.protocol import AcceptedWebSocket
from natsbroker.websocket.service import loginSettings, tlsFrom
from natsbroker.wire.mqtt.codec import PacketDecoder, encoded
from natsbroker.wire.mqtt.packets import (
    MQTT_5,
    Connack,
    Connect,
    Disconnect,
    FilterRequest,
    Packet,
    Publish,
    Suback,
    Subscribe,
)
from natsbroker.wire.mqtt.reasons import ReasonCode
from tests.conftest import FlushLoggedErrors
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


MQTT = 'jetstream { backend: memory }\nmqtt { listen: "127.0.0.1:1883"\n%s }\n'

MQTT_USERS = """authorization { users: [
    {user: w, password: w, allowed_connection_types: [MQTT_WS]}
    {user: m, password: m, allowed_connection_types: [MQTT]}
    {user: n, password: n, allowed_connection_types: [WEBSOCKET]}
    {user: a, password: a}
] }
"""


class TestMQTT:
    def test_frames(self) -> None:
        """Packets may be cut into frames anywhere, and several may be in one."""
        device = Device(WebSocketBroker(rest=MQTT % ""))
        packets: list[Packet] = [Connect(MQTT_5, "c"), Subscribe(1, [FilterRequest("a/#")])]
        data = b"".join(map(encoded, [*packets, Publish("a/b", b"hi")]))
        for size in (1, 7, len(data)):
            device = Device(device.broker)
            pieces = [data[start : start + size] for start in range(0, len(data), size)]
            said = device.take(b"".join(map(device.socket.writer.frames, pieces)))
            assert [type(packet) for packet in said] == [Connack, Suback, Publish]

    def test_text(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A text message ends the connection, as MQTT demands."""
        device = Device(WebSocketBroker(rest=MQTT % ""))
        device.ask(Connect(MQTT_5, "c"))
        assert device.take(b"\x81" + device.socket.writer.frames(encoded(Publish("a", b"")))[1:])
        assert device.socket.closeCode == 1003

    @pytest.mark.parametrize(("block", "code"), [("", 404), ("mqtt { }", 404), (MQTT % "", 101)])
    def test_path(self, block: str, code: int) -> None:
        """The path exists only if there is a listener for MQTT."""
        socket = WebSocketBroker(rest=block).dial()
        assert socket.upgrade(b"/mqtt").startswith(b"HTTP/1.1 %d " % code)

    @pytest.mark.parametrize(
        ("user", "reason"),
        [
            ("w", ReasonCode.SUCCESS),
            ("a", ReasonCode.SUCCESS),
            ("m", ReasonCode.NOT_AUTHORIZED),
            ("n", ReasonCode.NOT_AUTHORIZED),
            (None, ReasonCode.NOT_AUTHORIZED),
        ],
    )
    def test_users(self, user: str | None, reason: ReasonCode) -> None:
        """A user may be limited to MQTT over WebSocket. Cookies are no login."""
        broker = WebSocketBroker("user_cookie: u, pass_cookie: p", MQTT % "" + MQTT_USERS)
        device = Device(broker, Cookie="u=a; p=a")
        password = None if user is None else user.encode()
        (answer,) = device.ask(Connect(MQTT_5, "c", user=user, password=password))
        assert isinstance(answer, Connack)
        assert answer.reason is reason
        assert user in ("w", "a") or device.socket.closeCode == 1008

    def test_guests(self) -> None:
        """The logins are those of the block for MQTT, not those of the block for WebSocket."""
        broker = WebSocketBroker("no_auth_user: n", MQTT % "no_auth_user: a" + MQTT_USERS)
        Device(broker).ask(Connect(MQTT_5, "c"))
        (session,) = broker.broker.clientContext.connections
        facts = session.facts()
        assert (facts.user, facts.type, facts.clientID) == ("a", "mqtt", "c")
        assert str(session).startswith("127.0.0.1:50001 - mid_ws:1 ")

    def test_late(self) -> None:
        """The time for CONNECT is that of the block for MQTT."""
        broker = WebSocketBroker(rest=MQTT % "authorization { timeout: 1 }")
        device = Device(broker)
        broker.memory.advance(1.5)
        device.ask()
        assert device.socket.closeCode == 1008

    def test_compressed(self) -> None:
        """Long payloads are compressed in both directions."""
        device = Device(
            WebSocketBroker("compression: true", MQTT % ""),
            Sec_WebSocket_Extensions="permessage-deflate",
        )
        device.socket.writer = FrameWriter(isMasked=True, isCompressed=True)
        device.socket.reader = FrameReader(False, Inflation(lambda: 1 << 20))
        message = Publish("a", b"x" * 100_000)
        said = device.ask(Connect(MQTT_5, "c"), Subscribe(1, [FilterRequest("a")]), message)
        assert said[-1] == message

    def test_leaves(self) -> None:
        """A client that leaves gets a close frame."""
        device = Device(WebSocketBroker(rest=MQTT % ""))
        assert device.ask(Connect(MQTT_5, "c"), Disconnect())
        assert device.socket.closeCode == 1000

    def test_stops(self) -> None:
        """When the broker stops, clients hear it in MQTT, and then in the close frame."""
        device = Device(WebSocketBroker(rest=MQTT % ""))
        device.ask(Connect(MQTT_5, "c"))
        device.broker.broker.stopService()
        device.broker.memory.advance(1)
        assert device.ask() == [Disconnect(ReasonCode.SERVER_SHUTTING_DOWN)]
        assert device.socket.closeCode == 1001


class Device:
    """A client of MQTT over WebSocket."""

    def __init__(self, broker: WebSocketBroker, **headers: str) -> None:
        self.broker = broker
        self.socket = broker.dial()
        self.socket.upgrade(b"/mqtt", **headers)
        self._decoder = PacketDecoder(isOfClient=False, level=MQTT_5)

    def ask(self, *packets: Packet) -> list[Packet]:
        """Send packets in one message, and give those that come."""
        data = b"".join(map(encoded, packets))
        return self.take(self.socket.writer.frames(data) if data else b"")

    def take(self, frames: bytes) -> list[Packet]:
        """Send frames, and give the packets that come."""
        self.socket.reader.feed(self.socket.exchange(frames))
        self._decoder.feed(self.socket.ask())
        came: list[Packet] = []
        while (packet := self._decoder.next()) is not None:
            came.append(packet)
        return came


def test_tlsFrom() -> None:
    """Without a block, there is no TLS."""
    assert tlsFrom(Websocket()) is None
