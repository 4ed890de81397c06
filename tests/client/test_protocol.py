"""The client's side of one connection. The test decides what the server sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.interfaces import ISSLTransport
from twisted.internet.task import Clock
from zope.interface import alsoProvides

from natsbroker.client.errors import ClientError, ConnectionEnded, ServerError, TLSError
from natsbroker.client.options import ConnectOptions
from natsbroker.client.protocol import ConnectionTerms, ServerConnection
from natsbroker.testing.transport import MemoryTransport
from natsbroker.wire.values import Message
from tests.auth.certificates import certificate

INFO = b'INFO {"server_id":"S","max_payload":100} \r\n'


class Listener:
    """
    Records calls.
    """

    def __init__(self) -> None:
        self.events: list[Any] = []

    def began(self) -> None:
        self.events.append("began")

    def ended(self, reason: ClientError) -> None:
        self.events.append(reason)

    def received(self, message: Message, sid: bytes) -> None:
        self.events.append((message.subject, sid, message.reply, message.headers, message.payload))

    def ponged(self) -> None:
        self.events.append("ponged")

    def failed(self, text: str) -> None:
        self.events.append(text)


class Shown:
    """
    A certificate as pyOpenSSL gives it.
    """

    def __init__(self, shown: Any) -> None:
        self._shown = shown

    def to_cryptography(self) -> Any:
        """The certificate."""
        return self._shown


class Call:
    """A connection whose server is played by the test."""

    def __init__(self, isTLS: bool = False, **terms: Any) -> None:
        self.clock = Clock()
        self.listener = Listener()
        options = terms.pop("options", ConnectOptions())
        self.protocol = ServerConnection(
            self.clock, ConnectionTerms(options, **terms), self.listener
        )
        transport: Any = MemoryTransport(self.clock, self.protocol)
        self.transport = transport
        self.started: list[Any] = []
        transport.startTLS = self.started.append
        transport.getPeerCertificate = lambda: self.shown
        self.shown: Any = Shown(certificate(names=["localhost"]))
        if isTLS:
            alsoProvides(self.transport, ISSLTransport)
        self.transport.connect()

    def say(self, data: bytes) -> bytes:
        """Send data as the server, and return the client's answer."""
        self.transport.send(data)
        return self.hear()

    def hear(self) -> bytes:
        """The output of the client."""
        self.clock.advance(0)
        heard: bytes = self.transport.take()
        return heard

    @property
    def events(self) -> list[Any]:
        """The events of the listener since the last call."""
        events, self.listener.events = self.listener.events, []
        return events

    def begin(self) -> None:
        """Accept the login."""
        self.say(INFO)
        self.say(b"PONG\r\n")
        assert self.events == ["began"]


class TestBeginning:
    """The login."""

    def test_login(self) -> None:
        """INFO is answered with CONNECT and PING, and the login ends with PONG."""
        call = Call(options=ConnectOptions(user="me", password="secret"))
        assert call.hear() == b""
        said = call.say(INFO)
        assert said.startswith(b"CONNECT {") and said.endswith(b"}\r\nPING\r\n")
        fields = json.loads(said[8:-8])
        assert (fields["user"], fields["pass"], fields["tls_required"]) == ("me", "secret", False)
        assert call.events == []
        assert call.say(b"PONG\r\n") == b""
        assert call.events == ["began"]
        assert call.protocol.info["max_payload"] == 100

    @pytest.mark.parametrize("headers", [True, False])
    def test_noResponders(self, headers: bool) -> None:
        """The status for no responders is requested only if the server supports headers."""
        said = Call().say(b'INFO {"headers":%s}\r\n' % json.dumps(headers).encode())
        assert json.loads(said[8:-8])["no_responders"] is headers

    def test_nonce(self) -> None:
        """The server's nonce is signed."""
        call = Call(options=ConnectOptions(nkey="N", sign=lambda nonce: nonce))
        assert b'"sig":"YWJj"' in call.say(b'INFO {"nonce":"abc"}\r\n')

    def test_denied(self) -> None:
        """A refused login ends with the server's error."""
        call = Call()
        call.say(INFO)
        call.say(b"-ERR 'Authorization Violation'\r\n")
        assert call.events == []
        call.transport.hangUp()
        call.hear()
        [reason] = call.events
        assert isinstance(reason, ServerError)
        assert reason.text == "Authorization Violation"

    @pytest.mark.parametrize("text", [b"", b"{", b"[]", b"1", b"null", b"[" * 100_000])
    def test_badInfo(self, text: bytes) -> None:
        """A malformed INFO ends the connection."""
        call = Call()
        call.say(b"INFO " + text + b"\r\n")
        [reason] = call.events
        assert isinstance(reason, ClientError)
        assert call.transport.closed == "aborted"

    @pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad\r\n", b"MSG a 1 x\r\n", b"\x16\x03\r\n"])
    def test_noServer(self, data: bytes) -> None:
        """If the peer is no NATS server, the connection ends, and nothing is sent to it."""
        call = Call()
        assert call.say(data) == b""
        [reason] = call.events
        assert "not a NATS server" in str(reason)

    def test_notYet(self) -> None:
        """Nothing can be sent before the login or after the end."""
        call = Call()
        with pytest.raises(ConnectionEnded):
            call.protocol.write(b"x")
        call.begin()
        call.protocol.write(b"x", b"y")
        assert call.hear() == b"xy"
        call.transport.hangUp()
        call.hear()
        with pytest.raises(ConnectionEnded):
            call.protocol.ping()


class TestTLS:
    """TLS between client and server."""

    REQUIRED = b'INFO {"tls_required":true}\r\n'

    @pytest.mark.parametrize("field", ["tls_required", "tls_available"])
    def test_upgrade(self, field: str) -> None:
        """If TLS is required and the server offers it, CONNECT comes after the handshake."""
        call = Call(tls="creator")
        assert call.say(b'INFO {"%b":true}\r\n' % field.encode()) == b""
        assert call.started == ["creator"]
        call.protocol.handshakeCompleted()
        assert b'"tls_required":true' in call.hear()

    @pytest.mark.parametrize("isTLS", [False, True])
    @pytest.mark.parametrize(
        "shown",
        [None, Shown(certificate("CN=localhost")), Shown(certificate(names=["127.0.0.1"]))],
    )
    def test_nameless(self, shown: Any, isTLS: bool) -> None:
        """
        A client that began TLS without checking the name of the server's certificate sends nothing.
        """
        call = Call(isTLS, tls="creator")
        call.shown = shown
        if not isTLS:
            call.say(self.REQUIRED)
        call.protocol.handshakeCompleted()
        assert call.hear() == b""
        [reason] = call.events
        assert isinstance(reason, TLSError)
        assert call.transport.closed == "aborted"

    def test_greetingOverTLS(self) -> None:
        """INFO is answered as usual on a connection with TLS before INFO."""
        call = Call(isTLS=True)
        call.protocol.handshakeCompleted()
        assert call.hear() == b""
        assert call.say(self.REQUIRED).startswith(b"CONNECT")

    def test_serverWithoutTLS(self) -> None:
        """A client that requires TLS sends nothing to a server that does not offer it."""
        call = Call(tls="creator", options=ConnectOptions(password="secret"))
        assert call.say(INFO) == b""
        [reason] = call.events
        assert isinstance(reason, TLSError)
        assert call.started == []

    def test_clientWithoutTLS(self) -> None:
        """A client without TLS sends nothing to a server that requires it."""
        call = Call(options=ConnectOptions(password="secret"))
        assert call.say(self.REQUIRED) == b""
        [reason] = call.events
        assert isinstance(reason, TLSError)

    def test_encryptedAlready(self) -> None:
        """A connection that is already encrypted, or private, is not encrypted again."""
        for call in (Call(isTLS=True), Call(isPrivate=True), Call(isTLS=True, tls="creator")):
            assert call.say(self.REQUIRED).startswith(b"CONNECT")
            assert call.started == []

    def test_injected(self) -> None:
        """Bytes in clear text after INFO end the connection if TLS is to begin."""
        call = Call(tls="creator")
        assert call.say(self.REQUIRED + b"PONG\r\n") == b""
        [reason] = call.events
        assert isinstance(reason, TLSError)
        assert call.started == []


class TestTalk:
    """A connection after the login."""

    def test_messages(self) -> None:
        """Messages are handed over with and without headers, in order."""
        call = Call()
        call.begin()
        call.say(b"MSG a 1 2\r\nhi\r\nHMSG b 2 r 3 5\r\nhhhpp\r\n")
        assert call.events == [(b"a", b"1", b"", b"", b"hi"), (b"b", b"2", b"r", b"hhh", b"pp")]

    def test_serverPings(self) -> None:
        """PINGs of the server are answered, also before the login has ended."""
        call = Call()
        assert call.say(b"PING\r\n") == b"PONG\r\n"
        call.begin()
        assert call.say(b"+OK\r\nPING\r\n") == b"PONG\r\n"

    def test_errors(self) -> None:
        """An error of the server is reported, and the connection stays."""
        call = Call()
        call.begin()
        call.say(b"-ERR 'Permissions Violation for Publish to \"a\"'\r\nMSG a 1 0\r\n\r\n")
        assert call.events[0] == 'Permissions Violation for Publish to "a"'
        call.transport.hangUp()
        call.hear()
        [reason] = call.events
        assert isinstance(reason, ConnectionEnded)

    def test_lastWord(self) -> None:
        """The last error of the server is the reason for the end of the connection."""
        call = Call()
        call.begin()
        call.say(b"-ERR 'Stale Connection'\r\n")
        call.transport.hangUp()
        call.hear()
        [told, reason] = call.events
        assert told == reason.text == "Stale Connection"

    def test_newInfo(self) -> None:
        """A later INFO replaces the first."""
        call = Call()
        call.begin()
        call.say(b'INFO {"ldm":true}\r\n')
        assert call.protocol.info == {"ldm": True}
        call.say(b"INFO {\r\n")
        assert "is malformed" in str(call.events[0])

    def test_pings(self) -> None:
        """PONGs are assigned by their order to PINGs of the program or of the client itself."""
        call = Call(pingInterval=10.0)
        call.begin()
        call.protocol.ping()
        call.clock.advance(2.1)
        call.protocol.ping()
        assert call.hear() == b"PING\r\n" * 3
        call.say(b"PONG\r\n")
        assert call.events == ["ponged"]
        call.say(b"PONG\r\n")
        assert call.events == []
        call.say(b"PONG\r\nPONG\r\n")
        assert call.events == ["ponged"]


class TestTheEnd:
    """The end of a connection."""

    def test_silentServer(self) -> None:
        """A server that answers no PINGs is disconnected."""
        call = Call(pingInterval=10.0)
        call.begin()
        for _ in range(40):
            call.clock.advance(1)
        [reason] = call.events
        assert "does not answer" in str(reason)
        assert call.transport.closed == "aborted"
        assert call.clock.getDelayedCalls() == []

    def test_talkativeServer(self) -> None:
        """A server that sends any bytes is not considered dead."""
        call = Call(pingInterval=10.0)
        call.begin()
        for number in range(100):
            call.clock.advance(1)
            if number % 7 == 0:
                call.say(b"MSG a 1 0\r\n\r\n")
            if b"PING" in call.hear():
                call.say(b"PONG\r\n")
        assert call.transport.connected
        assert ConnectionEnded not in [type(event) for event in call.events]

    def test_close(self) -> None:
        """
        Closing sends the waiting bytes, keeps the first reason, and delivers no later messages.
        """
        call = Call()
        call.begin()
        call.protocol.write(b"last")
        call.protocol.close(ConnectionEnded("ours"))
        call.protocol.abort(ConnectionEnded("another"))
        call.protocol.dataReceived(b"MSG a 1 0\r\n\r\n")
        call.hear()
        [reason] = call.events
        assert str(reason) == "ours"

    def test_closeBeforeConnection(self) -> None:
        """Closing before the connection is open is harmless, and leaves no timer."""
        clock = Clock()
        protocol = ServerConnection(clock, ConnectionTerms(ConnectOptions()), Listener())
        protocol.close(ConnectionEnded("x"))
        protocol.abort(ConnectionEnded("x"))
        assert clock.getDelayedCalls() == []
