"""
The connection kind of a third party C{examples/line_bridge.py}, run unchanged, with clients and
peers over sockets.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import nats
import pytest
from twisted.internet.testing import StringTransport
from zope.interface.verify import verifyObject

from examples.line_bridge import LineBridge, LinePeer
from natsbroker.interfaces import IConnectionKind, IConnectionService
from natsbroker.runtime.plugins import PluginError, Plugins
from natsbroker.runtime.reload import ReloadError
from tests.examples.running import running
from tests.server.support import Host, settingsOf

SECTION = 'listen: "127.0.0.1:4222", services { lines { port: 7000 } }'


def bridged(text: str, **arguments: Any) -> Any:
    """A broker that finds the kind as an installed plugin."""
    plugins = Plugins(lambda interface: [LineBridge()] if interface is IConnectionKind else [])
    return Host(text, plugins=plugins, **arguments)


def test_contract() -> None:
    """The kind and its service provide their interfaces."""
    assert verifyObject(IConnectionKind, LineBridge())
    broker = Host("", connectionKinds=[LineBridge(7000)]).broker
    assert verifyObject(IConnectionService, broker.links.find("lines"))


def test_section() -> None:
    """The section of the configuration makes the kind listen, and cannot be changed by a reload."""
    host = bridged(SECTION).start()
    assert {server[0] for server in host.reactor.tcpServers} == {4222, 7000}
    with pytest.raises(ReloadError, match="not supported for service lines"):
        host.broker.reload(settingsOf(SECTION.replace("7000", "7001")))
    with pytest.raises((PluginError, ValueError), match="unknown option"):
        bridged(SECTION.replace("port:", "prot:"))


def test_slowPeer() -> None:
    """A peer that does not read misses messages, and other peers receive them."""
    host = Host('listen: "127.0.0.1:4222"', connectionKinds=[LineBridge(7000)]).start()
    service = host.broker.links.find("lines")
    peers: list[Any] = [LinePeer(service), LinePeer(service)]
    transports = [StringTransport(), StringTransport()]
    for peer, transport in zip(peers, transports, strict=True):
        peer.makeConnection(transport)
    peers[0].pauseProducing()
    host.broker.bus().publishInternal(b"lines.out", b"one\ntwo")
    peers[0].resumeProducing()
    host.broker.bus().publishInternal(b"lines.out", b"three")
    assert [sent.value() for sent in transports] == [b"three\n", b"one two\nthree\n"]


def test_program() -> None:
    """Lines are published to clients, and messages are sent to every peer."""

    async def conversation(clients: int, lines: int) -> None:
        client = await nats.connect(f"nats://127.0.0.1:{clients}")
        inbox = await client.subscribe("lines.in")
        await client.flush()
        peers = [socket.create_connection(("127.0.0.1", lines), 30) for _ in range(2)]
        peers[0].sendall(b"first\nsecond\r\n")
        peers[1].sendall(b"third\n")
        heard = [(await inbox.next_msg(timeout=30)).data for _ in range(3)]
        assert sorted(heard) == [b"first", b"second", b"third"]
        await client.publish("lines.out", b"to everybody")
        await client.flush()
        for peer in peers:
            with peer, peer.makefile("rb") as stream:
                assert stream.readline() == b"to everybody\n"
        await client.close()

    with running("line_bridge.py", "0", "0", lines=2) as [clients, lines]:
        asyncio.run(conversation(clients, lines))
