"""
The beginning of TLS on the client port, compared with nats-server.
"""

from __future__ import annotations

import socket
import ssl
import time

import pytest

from tests.interop.tls.conftest import BLOCK, Serve
from tests.interop.tls.hellos import ANY, hello
from tests.interop.tls.wire import CONNECT, Wire, contextFor, shakeHands

#: How an alert of TLS begins.
ALERT = b"\x15\x03"

#: Somebody who logs in and subscribes, all of it in the clear.
PLAIN = CONNECT % b',"user":"u","pass":"p"' + b"SUB > 1\r\nPING\r\n"


def finished(client: ssl.SSLObject) -> bool:
    """
    @return: whether a client in memory has finished its handshake.
    """
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


class TestAfterInfo:
    """INFO in clear text, then the handshake."""

    def test_clearTextAfterwards(self, serve: Serve) -> None:
        """
        A client that continues in clear text is disconnected without an error, and none of its
        lines has an effect.
        """
        server = serve(BLOCK % "")
        before = server.monitor("/varz")["subscriptions"]
        with Wire(server.port) as wire:
            assert wire.info()["tls_required"] is True
            wire.send(PLAIN)
            answer = wire.rest()
        # What nats-server writes is TLS's own alarm, not a word of NATS.
        assert answer == b"" or answer.startswith(ALERT)
        assert server.monitor("/varz")["subscriptions"] == before

    def test_injected(self, serve: Serve) -> None:
        """Input in clear text before the handshake is not treated as encrypted input."""
        server = serve(BLOCK % "")
        _, _, begin = hello(ANY)
        with Wire(server.port) as wire:
            wire.info()
            wire.send(CONNECT % b"" + b"SUB injected 1\r\n" + begin)
            assert b"MSG" not in wire.rest()
        with shakeHands(server.port, ANY) as wire:
            answer = wire.ask(CONNECT % b"" + b"PUB injected reply 1\r\nx\r\n")
            assert answer == b"PONG\r\n"

    def test_silentClient(self, serve: Serve) -> None:
        """A client that does not begin the handshake is disconnected at the timeout, not before."""
        server = serve(BLOCK % "timeout: 0.6")
        with Wire(server.port) as wire:
            wire.info()
            began = time.monotonic()
            assert wire.rest() == b""
            assert time.monotonic() - began > 0.5

    def test_slow(self, serve: Serve) -> None:
        """
        A client that begins a handshake and does not continue is disconnected, whatever it has sent
        of it.
        """
        server = serve(BLOCK % "timeout: 0.6")
        _, _, begin = hello(ANY)
        with Wire(server.port) as wire:
            wire.info()
            for place in range(0, 40, 10):
                wire.send(begin[place : place + 10])
                time.sleep(0.05)
            wire.rest()

    def test_noServerName(self, serve: Serve) -> None:
        """A client need not send a server name."""
        server = serve(BLOCK % "")
        with Wire(server.port) as wire:
            wire.info()
            wire.socket = ANY.wrap_socket(wire.socket)
            assert wire.ask(CONNECT % b"") == b"PONG\r\n"


class TestFirst:
    """The handshake, then INFO."""

    def test_silence(self, serve: Serve) -> None:
        """The server sends nothing in clear text, however long the client waits."""
        server = serve(BLOCK % "handshake_first: true, timeout: 1")
        with Wire(server.port) as wire:
            assert wire.rest() == b""

    def test_clearTextClient(self, serve: Serve) -> None:
        """A client in clear text receives nothing, not even INFO."""
        server = serve(BLOCK % "handshake_first: true")
        with Wire(server.port) as wire:
            wire.send(PLAIN)
            assert b"INFO" not in wire.rest()

    def test_tls(self, serve: Serve) -> None:
        """A client that begins TLS gets INFO over TLS, which says that TLS is required."""
        server = serve(BLOCK % "handshake_first: true")
        with Wire(server.port, ANY) as wire:
            assert wire.info()["tls_required"] is True
            assert wire.ask(CONNECT % b"") == b"PONG\r\n"

    @pytest.mark.parametrize("setting", ["auto", '"400ms"'])
    def test_waits(self, serve: Serve, setting: str) -> None:
        """
        With a fallback delay, a client that does not begin TLS gets INFO in clear text after the
        delay, and then does the handshake.
        """
        server = serve(BLOCK % f"handshake_first: {setting}")
        with Wire(server.port) as wire:
            began = time.monotonic()
            assert wire.info()["tls_required"] is True
            waited = time.monotonic() - began
            assert waited > (0.045 if setting == "auto" else 0.35)
            assert wire.secure(ANY).ask(CONNECT % b"") == b"PONG\r\n"

    @pytest.mark.parametrize("setting", ["auto", '"400ms"'])
    def test_quick(self, serve: Serve, setting: str) -> None:
        """A client that begins TLS at once gets INFO over TLS."""
        server = serve(BLOCK % f"handshake_first: {setting}")
        with Wire(server.port, ANY) as wire:
            assert wire.info()["tls_required"] is True
            assert wire.ask(CONNECT % b"") == b"PONG\r\n"


class TestOptional:
    """TLS that is optional and depends on the first byte."""

    CONFIG = BLOCK % "" + "allow_non_tls: true\n"

    def test_plain(self, serve: Serve) -> None:
        """Input that does not begin a handshake is served in clear text."""
        with Wire(serve(self.CONFIG).port) as wire:
            info = wire.info()
            assert (info.get("tls_available"), info.get("tls_required")) == (True, None)
            assert wire.ask(CONNECT % b"") == b"PONG\r\n"

    def test_tls(self, serve: Serve) -> None:
        """Input that begins a handshake is answered with TLS."""
        with shakeHands(serve(self.CONFIG).port, ANY) as wire:
            assert wire.ask(CONNECT % b"") == b"PONG\r\n"

    def test_pieces(self, serve: Serve) -> None:
        """The handshake may come byte by byte."""
        client, source, begin = hello(ANY)
        with Wire(serve(self.CONFIG).port) as wire:
            wire.info()
            wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for place in range(len(begin)):
                wire.send(begin[place : place + 1])
            while not finished(client):
                data = wire.socket.recv(65536)
                assert data
                source.write(data)
            assert client.version() == "TLSv1.3"

    def test_notLater(self, serve: Serve) -> None:
        """A connection that began in clear text stays in clear text."""
        with Wire(serve(self.CONFIG).port) as wire:
            wire.info()
            assert wire.ask(CONNECT % b"") == b"PONG\r\n"
            wire.send(hello(ANY)[2])
            assert wire.rest().startswith(b"-ERR 'Unknown Protocol Operation'\r\n")


class TestOthers:
    """Clients that expect another protocol on the port."""

    def test_alpn(self, serve: Serve) -> None:
        """
        A client that offers protocols of the web is served NATS, and none of them is negotiated.
        """
        context = contextFor()
        context.set_alpn_protocols(["h2", "http/1.1"])
        with shakeHands(serve(BLOCK % "").port, context) as wire:
            assert isinstance(wire.socket, ssl.SSLSocket)
            assert wire.socket.selected_alpn_protocol() is None
            assert wire.ask(CONNECT % b"") == b"PONG\r\n"

    def test_https(self, serve: Serve) -> None:
        """An HTTP request over TLS ends the connection, and no part of the request is returned."""
        server = serve(BLOCK % "handshake_first: true")
        with Wire(server.port, ANY) as wire:
            wire.info()
            wire.send(b"GET /secret HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = wire.rest()
        assert answer == b"-ERR 'Unknown Protocol Operation'\r\n"

    def test_http(self, serve: Serve) -> None:
        """An HTTP request in clear text ends the connection in the handshake."""
        with Wire(serve(BLOCK % "").port) as wire:
            wire.info()
            wire.send(b"GET /secret HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"secret" not in wire.rest()
