"""nats-server and natsbroker carry MQTT over WebSocket alike."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from natsbroker.websocket.deflate import Inflation
from natsbroker.websocket.frames import ControlFrame, FrameReader, FrameWriter
from natsbroker.wire.mqtt.codec import encoded
from natsbroker.wire.mqtt.packets import MQTT_3_1_1, Connect, Disconnect, Packet, Publish
from natsbroker.wire.mqtt.reasons import ReasonCode
from tests.interop.certificates import writeCertificates
from tests.interop.mqtt.listeners import MQTTClient, MQTTServer
from tests.interop.mqtt.test_sessions import ALLOWED, ANSWERS
from tests.interop.servers import ALL, PATIENCE, REAL, Flavour
from tests.websocket.test_upgrade import AGREED, asking

_GUEST = "no_auth_user: a"
_REST = """
websocket {
    listen: "127.0.0.1:-1", no_tls: true, compression: true, origins: ["http://good"]
    no_auth_user: n, user_cookie: who, pass_cookie: word
}
authorization {
    users: [
        {user: a, password: a, permissions { subscribe: ["a.>", "$MQTT.sub.>"], publish: ["a.>"] }}
        {user: w, password: w, allowed_connection_types: [MQTT_WS]}
        {user: m, password: m, allowed_connection_types: [MQTT]}
        {user: n, password: n, allowed_connection_types: [WEBSOCKET]}
    ]
}
"""

_PATH = "GET /mqtt HTTP/1.1"
_NAMED = b"Sec-Websocket-Protocol: mqtt\r\n\r\n"
_DEFLATE = "permessage-deflate"


@pytest.fixture(scope="module", params=ALL, ids=lambda flavour: flavour.name)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MQTTServer]:
    directory = Path(tmp_path_factory.mktemp("mqtt"))
    started = MQTTServer(request.param, directory, block=_GUEST, rest=_REST).start()
    yield started
    started.stop()


class FramedSocket:
    """
    A WebSocket with the methods of a socket.

    @ivar size: the bytes in each message that is sent; 0 for all at once.
    @ivar closeCode: the code of the close frame; C{None} before.
    """

    def __init__(
        self,
        server: MQTTServer,
        size: int = 0,
        isCompressed: bool = False,
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.size = size
        self.closeCode: int | None = None
        inflation = Inflation(lambda: 1 << 20) if isCompressed else None
        self._reader = FrameReader(False, inflation)
        self._writer = FrameWriter(isMasked=True, isCompressed=isCompressed)
        self._socket = socket.create_connection(("127.0.0.1", server.webSocketPort), PATIENCE)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
        changes: dict[str, str | None] = {**headers}
        if isCompressed:
            changes["Sec-WebSocket-Extensions"] = _DEFLATE
        self._socket.sendall(asking(changes, _PATH))
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self._socket.recv(1)
        self.answer = answer

    def sendall(self, data: bytes) -> None:
        size = self.size or len(data)
        pieces = (data[start : start + size] for start in range(0, len(data), size))
        self.sendFrames(b"".join(map(self._writer.frames, pieces)))

    def sendFrames(self, data: bytes) -> None:
        self._socket.sendall(data)

    def recv(self, most: int) -> bytes:
        while True:
            frame = self._reader.next()
            if isinstance(frame, bytes):
                return frame
            if isinstance(frame, ControlFrame):
                self.closeCode = frame.code
            elif not (data := self._socket.recv(most)):
                return b""
            else:
                self._reader.feed(data)

    def close(self) -> None:
        self._socket.close()


def member(server: MQTTServer, opened: FramedSocket, clientID: str = "") -> MQTTClient:
    client = MQTTClient(server, opened=opened)
    answer = client.connect(clientID, user="a", password=b"a")
    assert answer.reason is ReasonCode.SUCCESS
    return client


def test_handshakes(server: MQTTServer) -> None:
    """The answer names the protocol, and is the same to clients that ask for none or others."""
    for asked in ("", "mqtt", "mqttv3.1, x"):
        headers = {"Sec-WebSocket-Protocol": asked} if asked else {}
        assert FramedSocket(server, headers=headers).answer == AGREED + _NAMED
    assert FramedSocket(server, headers={"Origin": "http://good"}).answer == AGREED + _NAMED
    assert FramedSocket(server, isCompressed=True).answer.startswith(
        AGREED + b"Sec-WebSocket-Extensions: permessage-deflate;"
    )
    refused = FramedSocket(server, headers={"Origin": "http://evil"}).answer
    assert refused.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("isCompressed", [False, True])
@pytest.mark.parametrize("size", [0, 1, 7])
def test_messages(server: MQTTServer, size: int, isCompressed: bool) -> None:
    """Packets may be cut into frames anywhere, and long ones may be compressed."""
    client = member(server, FramedSocket(server, size, isCompressed))
    assert client.subscribe("a/#", "b") == [ReasonCode.UNSPECIFIED_ERROR] * 2
    assert client.subscribe("a/+") == [ReasonCode.SUCCESS]
    payload = b"x" * (1000 if size else 100_000)
    client.publish("a/b", payload)
    client.publish("b", payload)
    client.flush()
    assert client.packets == [Publish("a/b", payload)]


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_answers(server: MQTTServer, name: str) -> None:
    """A packet has the answer that it has without WebSocket."""
    data, expected = ANSWERS[name]
    if name in ALLOWED and server.flavour is REAL:
        expected = []
    client = member(server, FramedSocket(server, 3))
    client.sendBytes(data)
    if expected is None:
        assert client.receive() is None
    else:
        client.flush()
        assert client.packets == expected


def _asking(user: str | None) -> Packet:
    password = None if user is None else user.encode()
    return Connect(MQTT_3_1_1, "z", user=user, password=password)


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("w", ReasonCode.SUCCESS),
        ("m", ReasonCode.NOT_AUTHORIZED),
        ("n", ReasonCode.NOT_AUTHORIZED),
    ],
)
def test_users(server: MQTTServer, user: str, reason: ReasonCode) -> None:
    """A user may be limited to MQTT over WebSocket, or to other connections."""
    opened = FramedSocket(server)
    client = MQTTClient(server, opened=opened)
    client.send(_asking(user))
    answer: Any = client.receive()
    assert answer.reason is reason
    if reason.isError:
        assert client.receive() is None
        assert opened.closeCode == 1008


def test_guests(server: MQTTServer) -> None:
    """
    A client without a login is the user that the block for MQTT names. The block for WebSocket and
    its cookies do not count.
    """
    client = MQTTClient(server, opened=FramedSocket(server, headers={"Cookie": "who=w; word=w"}))
    assert client.connect("guest").reason is ReasonCode.SUCCESS
    client.flush()
    page: Any = server.monitor("/connz?auth=1&mqtt_client=guest")
    (row,) = page["connections"]
    assert (row["type"], row["authorized_user"]) == ("mqtt", "a")


def test_leaves(server: MQTTServer) -> None:
    """A client that leaves gets the code for it."""
    opened = FramedSocket(server)
    client = member(server, opened)
    client.send(Disconnect())
    assert client.receive() is None
    assert opened.closeCode == 1000


def test_takenOver(server: MQTTServer) -> None:
    """A client whose identifier another one takes gets the code for it."""
    opened = FramedSocket(server)
    before = member(server, opened, "same")
    after = member(server, FramedSocket(server), "same")
    assert before.receive() is None
    assert opened.closeCode == 1011
    after.flush()
    assert after.packets == []


def test_text(server: MQTTServer) -> None:
    """A text message ends the connection, as MQTT demands; nats-server takes it as bytes."""
    opened = FramedSocket(server)
    client = MQTTClient(server, opened=opened)
    frame = FrameWriter(isMasked=True).frames(encoded(_asking("a"), MQTT_3_1_1))
    opened.sendFrames(b"\x81" + frame[1:])
    if server.flavour is REAL:
        assert client.receive() is not None
    else:
        assert client.receive() is None
        assert opened.closeCode == 1003


_TLS = """tls {
    cert_file: "$DIR/server.pem", key_file: "$DIR/server-key.pem", ca_file: "$DIR/ca.pem", %s
}"""


@pytest.mark.parametrize("flavour", ALL, ids=lambda flavour: flavour.name)
@pytest.mark.parametrize("isMapped", [False, True])
def test_certificates(flavour: Flavour, isMapped: bool, tmp_path: Path) -> None:
    """
    A certificate that was shown to the listener for WebSocket is a login if the block for MQTT says
    so, whatever the block for WebSocket says.
    """
    mapping, checking = _TLS % "verify_and_map: true", _TLS % "verify: true"
    ofMQTT, ofWebSocket = (mapping, checking) if isMapped else (checking, mapping)
    rest = f"""
    websocket {{ listen: "127.0.0.1:-1", {ofWebSocket} }}
    authorization {{
        users: [ {{user: alice@example.com, connection_types: [MQTT_WS]}} ]
    }}
    """
    server = MQTTServer(flavour, tmp_path, block=ofMQTT, rest=rest)
    home = server.directory
    writeCertificates(home)
    tls = ssl.create_default_context(cafile=str(home / "ca.pem"))
    tls.load_cert_chain(home / "client.pem", home / "client-key.pem")
    server.start()
    try:
        client = MQTTClient(server, opened=FramedSocket(server, 5, tls=tls))
        isIn = client.connect("c").reason is ReasonCode.SUCCESS
        if isIn:
            client.subscribe("a")
            client.publish("a", b"x" * 10_000)
            client.flush()
            assert client.packets == [Publish("a", b"x" * 10_000)]
    finally:
        server.stop()
    assert isIn is isMapped
