"""
Tests for L{natsbroker.leafnodes.websockets}: two brokers in memory, one of which dials the other.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from natsbroker.testing.transport import MemoryTransport
from tests.server.support import Host, logLines
from tests.websocket.memory import WebSocketBroker

HUB = 'leafnodes { listen: "127.0.0.1:7422" }'
SPOKE = """
listen: "127.0.0.1:4222", server_name: spoke
leafnodes { remotes: [ { urls: ["%s"], %s } ] }
"""


class Pair:
    """
    @ivar ends: the two transports of the connection, the hub's first.
    @ivar crossed: all bytes that the spoke has sent.
    """

    def __init__(self, block: str = "", remote: str = "", rest: str = HUB) -> None:
        # Both have subjects of their own that tell loops.
        self.hub = WebSocketBroker(block, rest, seed=2)
        self.spoke = Host(SPOKE % ("ws://127.0.0.1:8080/some", remote)).start()
        self.spoke.settle()
        self.crossed = b""
        self.ends: list[MemoryTransport] = []

    def connect(self) -> None:
        address = IPv4Address("TCP", "127.0.0.1", 50001)
        accepting = next(server[1] for server in self.hub.reactor.tcpServers if server[0] == 8080)
        host, port, dialling, *_ = self.spoke.reactor.tcpClients.pop()
        assert (host, port) == ("127.0.0.1", 8080)
        hub = MemoryTransport(self.hub.reactor, accepting.buildProtocol(address), address)
        protocol: Any = dialling.buildProtocol(address)
        spoke = MemoryTransport(self.spoke.reactor, protocol, IPv4Address("TCP", host, port))
        self.ends = [hub, spoke]
        for end in self.ends:
            end.connect()
        self.pump()

    def pump(self) -> None:
        """Carry bytes until none are left."""
        hub, spoke = self.ends
        for _ in range(20):
            self.hub.memory.advance(0)
            self.spoke.settle()
            toHub, toSpoke = spoke.take(), hub.take()
            self.crossed += toHub
            if toHub:
                hub.send(toHub)
            if toSpoke:
                spoke.send(toSpoke)

    @property
    def leafs(self) -> Any:
        """The leafnodes of the hub."""
        return self.hub.broker.leafnodes.leafs  # type: ignore[union-attr]  # the hub has them


@pytest.mark.parametrize(
    ("block", "remote", "isMasked"),
    [
        ("", "", True),
        ("compression: true", "ws_compression: true", True),
        ("", "ws_no_masking: true", False),
        ("compression: true", "ws_compression: true, ws_no_masking: true", False),
    ],
)
def test_messages(block: str, remote: str, isMasked: bool) -> None:
    """Messages pass in both directions, compressed and without masks if both sides agree."""
    pair = Pair(block, remote)
    pair.connect()
    near, far = pair.spoke.client(), pair.hub.memory.connect({"verbose": False})
    near.ask(b"SUB down 1\r\n")
    far.request(b"SUB up 1\r\n")
    pair.pump()
    payload = b"x" * 500
    near.ask(b"PUB up 500\r\n%b\r\n" % payload)
    far.request(b"PUB down 500\r\n%b\r\n" % payload)
    pair.pump()
    assert far.receive() == b"MSG up 1 500\r\n%b\r\n" % payload
    assert near.receive() == b"MSG down 1 500\r\n%b\r\n" % payload
    assert (b"LS+ down" in pair.crossed) is not isMasked
    assert pair.crossed.startswith(b"GET /some/leafnode HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n")


def test_shown() -> None:
    """A leafnode over WebSocket has another label in the log, and no S2 compression."""
    pair = Pair()
    pair.connect()
    (leaf,) = pair.leafs
    assert str(leaf).endswith(f" - lid_ws:{leaf.number}")
    assert leaf.compression.level == "off"


def test_connectionType() -> None:
    """A user may be restricted to leafnodes over WebSocket."""
    users = (
        "authorization { users: [ {user: a, password: a, connection_types: [LEAFNODE]}, "
        "{user: b, password: b, connection_types: [LEAFNODE_WS]} ] }"
    )
    pair = Pair("no_auth_user: b", rest=f"{HUB}\n{users}")
    pair.connect()
    (leaf,) = pair.leafs
    assert leaf.grant.user == "b"


def test_declined() -> None:
    """A hub that refuses WebSocket is dialled again later."""
    pair = Pair()
    host, port, dialling, *_ = pair.spoke.reactor.tcpClients.pop()
    protocol: Any = dialling.buildProtocol(None)
    transport = MemoryTransport(pair.spoke.reactor, protocol, IPv4Address("TCP", host, port))
    with logLines() as lines:
        transport.connect()
        pair.spoke.settle()
        transport.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        pair.spoke.settle()
    assert transport.closed == "aborted"
    assert "Error soliciting websocket connection: invalid websocket connection" in str(lines)
    assert not pair.spoke.reactor.tcpClients
    pair.spoke.advance(2.1)
    assert len(pair.spoke.reactor.tcpClients) == 1


def test_silentPeer() -> None:
    """A hub that does not answer in time is disconnected, and dialled again."""
    pair = Pair(remote='first_info_timeout: "0.5s"')
    host, port, dialling, *_ = pair.spoke.reactor.tcpClients.pop()
    protocol: Any = dialling.buildProtocol(None)
    transport = MemoryTransport(pair.spoke.reactor, protocol, IPv4Address("TCP", host, port))
    transport.connect()
    pair.spoke.advance(0.6)
    assert transport.closed == "aborted"
    pair.spoke.advance(2.1)
    assert len(pair.spoke.reactor.tcpClients) == 1


def test_stops() -> None:
    """
    A broker that stops closes a connection before its WebSocket handshake, and does not dial again.
    """
    pair = Pair()
    host, port, dialling, *_ = pair.spoke.reactor.tcpClients.pop()
    protocol: Any = dialling.buildProtocol(None)
    transport = MemoryTransport(pair.spoke.reactor, protocol, IPv4Address("TCP", host, port))
    transport.connect()
    pair.spoke.settle()
    pair.spoke.broker.stopService()
    pair.spoke.advance(3)
    assert transport.closed == "aborted"
    assert not pair.spoke.reactor.tcpClients


def test_urls() -> None:
    """A spoke gets the WebSocket addresses of its hub, and dials them as such."""
    pair = Pair()
    pair.connect()
    pair.leafs.useUrls(["x:1"], ["127.0.0.1:8080", "other:9"])
    pair.pump()
    service: Any = pair.spoke.broker.leafnodes
    (remote,) = service._remotes.values()
    urls = [(str(url), url.isWebSocket) for url in remote.urls]
    assert urls == [("other:9", True), ("127.0.0.1:8080", True)]
