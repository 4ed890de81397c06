"""
Clients behind a proxy that sends their addresses in a header.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from natsbroker.clients.protocol import ClientFactory
from natsbroker.config.model import AuthorizationSettings, Settings
from natsbroker.connections.proxyheader import TIMEOUT
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.connections.headers import FIRST, NAMED, UNNAMED, WRONG
from tests.server.support import logLines
from tests.support import QUIET, Doorkeeper, Names, World, onEach, using


@pytest.fixture(autouse=True)
def implementation(names: Names) -> Iterator[Names]:
    """Use the implementation under test."""
    with using(names):
        yield names


class Proxied(World):
    """A broker whose clients come through a proxy."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.factory = ClientFactory(self.context, isProxied=True)


@onEach
class TestProxied:
    """A proxy header before the client's first byte."""

    @pytest.mark.parametrize("header", [*NAMED, *UNNAMED])
    def test_read(self, header: bytes) -> None:
        """The client has the address that the header names, and is served as any other."""
        wire = Proxied().dial()
        assert "client_ip" not in json.loads(wire.receive()[5:])
        assert wire.ask(header + QUIET + b"PING\r\n") == b"PONG\r\n"
        expected = NAMED.get(header, ("127.0.0.1", 50000))
        assert (wire.protocol.host, wire.protocol.port) == expected
        assert wire.session.facts().host == expected[0]
        assert expected[0] in str(wire.session)
        assert wire.ask(b"SUB a 1\r\nPUB a 1\r\nx\r\n") == b"MSG a 1 1\r\nx\r\n"

    def test_pieces(self) -> None:
        """A proxy header may come in pieces."""
        wire = Proxied().dial()
        wire.receive()
        for byte in FIRST:
            assert wire.ask(bytes([byte])) == b""
        assert wire.ask(QUIET + b"PING\r\n") == b"PONG\r\n"
        assert wire.protocol.host == "1.2.3.4"

    @pytest.mark.parametrize("header", WRONG)
    def test_malformed(self, header: bytes) -> None:
        """
        A malformed proxy header ends the connection without a message, and the log has the error.
        """
        wire = Proxied().dial()
        wire.receive()
        with logLines() as lines:
            assert wire.ask(header + QUIET * 20) == b""
        assert wire.session.reason == "Protocol Violation"
        assert any("invalid PROXY protocol header" in line for line in lines)

    def test_twice(self) -> None:
        """A second proxy header is treated as input of the client."""
        wire = Proxied().dial()
        wire.receive()
        assert wire.ask(FIRST * 2) == b"-ERR 'Unknown Protocol Operation'\r\n"

    def test_late(self) -> None:
        """A connection that sends no header in time is closed, even if no login is required."""
        world = Proxied()
        wire = world.dial()
        world.advance(TIMEOUT + 0.1)
        assert wire.session.reason == "Protocol Violation"

    def test_loginTime(self) -> None:
        """The time to log in includes the wait for the header."""
        world = Proxied(
            Settings(authorization=AuthorizationSettings(timeout=1.0)), Doorkeeper(required=True)
        )
        wire = world.dial()
        wire.send(FIRST)
        world.advance(1.1)
        assert wire.session.reason == "Authentication Timeout"

    def test_gone(self) -> None:
        """A connection that ends before its proxy header leaves nothing."""
        world = Proxied()
        wire = world.dial()
        wire.transport.hangUp()
        world.advance(0)
        with logLines() as lines:
            world.advance(TIMEOUT + 0.1)
        assert not any("PROXY" in line for line in lines) and not len(world.context.connections)

    def test_login(self) -> None:
        """The authorizer sees the address of the proxy's header."""
        asked: list[str] = []

        def decide(request: ConnectRequest) -> Grant:
            asked.append(request.host)
            return Grant()

        wire = Proxied(None, Doorkeeper(decide)).dial()
        wire.ask(FIRST + QUIET)
        assert asked == ["1.2.3.4"]

    def test_notAsked(self) -> None:
        """A header is refused without the setting."""
        world = World()
        wire = world.dial()
        wire.receive()
        assert wire.ask(FIRST) == b"-ERR 'Unknown Protocol Operation'\r\n"
        assert wire.protocol.host == "127.0.0.1"
