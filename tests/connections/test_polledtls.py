"""
Clients over TLS with compiled buffers, with real sockets and a separate reactor. The client's TLS
is in memory, so that its output can be cut anywhere.
"""

from __future__ import annotations

import gc
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from weakref import ref

import pytest

from natsbroker import errors
from natsbroker.clients.tls import TLSClientFactory
from natsbroker.config.model import Settings
from natsbroker.config.tls import TLSSettings
from natsbroker.connections.polledtls import PolledTLS
from natsbroker.connections.sessionprotocol import LINGER
from natsbroker.connections.tls import Begin, ConnectionCreator, TLSTerms
from natsbroker.connections.tlscontext import contextFrom
from tests.connections.realreactor import POLLED, RealReactor
from tests.interop.certificates import writeCertificates
from tests.server.support import logLines
from tests.support import COMPILED, World, using

if sys.platform == "linux":
    from natsbroker.connections.poller import SocketPoller

pytestmark = POLLED


class SecurePlace(RealReactor):
    """A listener with TLS whose sockets are polled."""

    def __init__(self, folder: Path, begin: Begin = Begin.AFTER_INFO) -> None:
        super().__init__()
        self.world = World()
        self.poller = SocketPoller(self.reactor, self.world.context.batch)
        pair = (str(folder / "server.pem"), str(folder / "server-key.pem"))
        settings = TLSSettings(certs=(pair,))
        creator = ConnectionCreator(contextFrom(settings))
        self.factory = TLSClientFactory(self.world.context, TLSTerms(creator, begin, settings))
        self.factory.poller = self.poller
        self.port = self.reactor.listenTCP(0, self.factory, interface="127.0.0.1")
        self.clients: list[SecureClient] = []

    def iterated(self) -> None:
        """Let the broker's time pass."""
        self.world.clock.advance(0.001)

    def client(self, receiveBuffer: int = 0) -> SecureClient:
        """A client that has finished its handshake and sent CONNECT."""
        made = SecureClient(self, receiveBuffer)
        self.clients.append(made)
        made.shake()
        made.send(b'CONNECT {"verbose":false,"headers":true}\r\nPING\r\n')
        made.read(b"PONG\r\n")
        return made

    @property
    def sessions(self) -> list[Any]:
        """The open sessions."""
        return list(self.world.context.connections)

    def stop(self) -> None:
        """Close everything."""
        for client in self.clients:
            client.socket.close()
        self.until(lambda: not len(self.poller.sockets))
        self.port.stopListening()
        self.poller.close()
        self.end()


class SecureClient:
    """
    @ivar cut: gives the length of the next packet that the client sends.
    """

    def __init__(self, place: SecurePlace, receiveBuffer: int) -> None:
        self.place = place
        self.socket = socket.socket()
        if receiveBuffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receiveBuffer)
        self.socket.connect(("127.0.0.1", place.port.getHost().port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.input, self.output = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.input, self.output)
        self.cut: Callable[[], int] = lambda: 1 << 20
        self.isOver = False
        self.waiting = b""

    def carry(self) -> None:
        """Send a packet of the waiting output, and read the input."""
        self.waiting += self.output.read()
        if self.waiting:
            try:
                sent = self.socket.send(self.waiting[: self.cut()])
                self.waiting = self.waiting[sent:]
            except BlockingIOError:
                pass
        self.take()

    def take(self) -> None:
        """Read the encrypted input."""
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if data:
            self.input.write(data)
        else:
            self.isOver = True

    def shake(self) -> None:
        """Read INFO, and do the handshake."""
        info = b""

        def greeted() -> bool:
            nonlocal info
            try:
                info += self.socket.recv(1 << 16)
            except BlockingIOError:
                pass
            return info.endswith(b"\r\n")

        self.place.until(greeted)
        assert info.startswith(b"INFO ")

        self.over(self.tls.do_handshake)

    def send(self, data: bytes) -> None:
        """Encrypt bytes, one record at a time, and send them in packets."""
        for start in range(0, len(data), 9000):
            self.tls.write(data[start : start + 9000])

        def sent() -> bool:
            self.carry()
            return not (self.waiting or self.output.pending)

        self.place.until(sent)

    def over(self, end: Callable[[], object]) -> None:
        """Carry bytes until a call that waits for input has returned."""

        def done() -> bool:
            self.carry()
            try:
                end()
            except ssl.SSLWantReadError:
                return False
            return True

        self.place.until(done)

    def some(self) -> bytes:
        """The bytes that can be decrypted at present."""
        data = b""
        while True:
            try:
                more = self.tls.read(1 << 18)
            except ssl.SSLWantReadError:
                return data
            if not more:
                return data
            data += more

    def read(self, end: bytes) -> bytes:
        """The bytes up to and including an ending."""
        data = b""

        def there() -> bool:
            nonlocal data
            self.carry()
            data += self.some()
            return data.endswith(end)

        self.place.until(there)
        return data

    def rest(self) -> bytes:
        """The bytes up to the end of TLS, which the server announces before it closes."""
        data = b""

        def over() -> bool:
            nonlocal data
            self.carry()
            try:
                more = self.tls.read(1 << 18)
            except ssl.SSLWantReadError:
                assert not self.isOver, "the end of TLS was not announced"
                return False
            data += more
            return not more

        self.place.until(over)
        return data


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with certificates."""
    folder = tmp_path_factory.mktemp("certificates")
    writeCertificates(folder)
    return folder


@pytest.fixture
def place(certificates: Path) -> Iterator[SecurePlace]:
    """A listener that is stopped afterwards."""
    assert COMPILED is not None
    with using(COMPILED):
        made = SecurePlace(certificates)
        try:
            yield made
        finally:
            made.stop()


def publishes(random: Random, count: int) -> tuple[bytes, bytes]:
    """Publishes, and the messages that a subscriber with sid 1 receives for them."""
    sent, received = b"", b""
    for number in range(count):
        body = random.randbytes(random.choice((0, 1, 90, 4000, 20_000, 70_000)))
        subject = b"a.%d" % (number % 7)
        sent += b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body)
        received += b"MSG %b 1 %d\r\n%b\r\n" % (subject, len(body), body)
    return sent, received


def test_polled(place: SecurePlace) -> None:
    """The socket is in the poller, and the compiled lane encrypts output."""
    place.client()
    (session,) = place.sessions
    assert len(place.poller.sockets) == 1
    assert isinstance(session.peer._stream, PolledTLS)
    assert session.peer._stream.outbox is not None


@pytest.mark.parametrize("seed", range(4))
def test_anyCutOfRecords(place: SecurePlace, seed: int) -> None:
    """Messages arrive whole and in order, wherever records are cut into packets."""
    random = Random(seed)
    client = place.client()
    client.send(b"SUB a.* 1\r\nPING\r\n")
    client.read(b"PONG\r\n")
    client.cut = lambda: random.choice((1, 5, 60, 1400, 16_500, 100_000))
    sent, received = publishes(random, 25)
    client.send(sent + b"PING\r\n")
    assert client.read(b"PONG\r\n") == received + b"PONG\r\n"


def test_slowReader(place: SecurePlace) -> None:
    """A message larger than any buffer waits until the peer reads, and arrives in order."""
    slow, publisher = place.client(receiveBuffer=65536), place.client()
    slow.send(b"SUB a.* 1\r\nPING\r\n")
    slow.read(b"PONG\r\n")
    sent, received = publishes(Random(7), 420)
    publisher.send(sent + b"PING\r\n")
    session = min(place.sessions, key=lambda peer: int(peer.cid))
    place.until(lambda: session.outbox.paused and session.outbox.pending > 1 << 18)
    assert slow.read(received[-40:]) == received


def test_pendingCountsBothLayers(place: SecurePlace) -> None:
    """
    Encrypted output that waits counts towards the limit, at which a peer that does not read is
    disconnected.
    """
    place.world.context.settings = Settings(max_pending=1 << 21)
    slow, publisher = place.client(receiveBuffer=4096), place.client()
    slow.send(b"SUB a.* 1\r\nPING\r\n")
    slow.read(b"PONG\r\n")
    for seed in range(20):
        publisher.send(publishes(Random(seed), 80)[0])
    place.until(lambda: len(place.sessions) == 1)


def test_lastWords(place: SecurePlace) -> None:
    """The last line of a session is sent before the end of TLS."""
    client = place.client()
    client.send(b"NONSENSE\r\n")
    assert client.rest() == b"-ERR 'Unknown Protocol Operation'\r\n"


def test_endOfTLS(place: SecurePlace) -> None:
    """An orderly end of TLS by a client is answered, and messages before that are delivered."""
    client, subscriber = place.client(), place.client()
    subscriber.send(b"SUB a 1\r\nPING\r\n")
    subscriber.read(b"PONG\r\n")
    client.tls.write(b"PUB a 4\r\nlast\r\n")
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.over(client.tls.unwrap)
    assert subscriber.read(b"last\r\n") == b"MSG a 1 4\r\nlast\r\n"
    place.until(lambda: len(place.sessions) == 1)


def test_noCycles(place: SecurePlace) -> None:
    """A connection that has ended is freed at once, not when the collector runs."""
    client = place.client()
    (session,) = place.sessions
    peer = session.peer
    parts = [ref(session), ref(peer), ref(peer._stream), ref(peer._stream.transport)]
    gc.collect()
    gc.disable()
    try:
        del session, peer
        client.tls.write(b"PING\r\n")
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.over(client.tls.unwrap)
        place.until(lambda: not place.sessions)
        place.until(lambda: all(part() is None for part in parts))
    finally:
        gc.enable()


def test_endWithoutNotice(place: SecurePlace) -> None:
    """A session ends when its connection ends without a closing notice."""
    client = place.client()
    client.socket.shutdown(socket.SHUT_WR)
    place.until(lambda: not place.sessions)


def test_reset(place: SecurePlace) -> None:
    """A session ends when its connection is reset."""
    client = place.client()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.socket.close()
    place.until(lambda: not place.sessions)


@pytest.mark.parametrize("garbage", [b"\x17\x03\x03\x00\x20" + b"x" * 32, b"PING\r\n" * 10])
def test_garbageBetweenRecords(place: SecurePlace, garbage: bytes) -> None:
    """Input that is not a TLS record is answered with an alert, and ends the connection."""
    client = place.client()
    client.tls.write(b"PING\r\n")
    client.waiting = client.output.read() + garbage

    def refused() -> bool:
        client.carry()
        try:
            client.some()
        except ssl.SSLError as error:
            return "ALERT" in str(error)
        return False

    place.until(refused)
    place.until(lambda: not place.sessions)


def test_garbageInTheHandshake(place: SecurePlace) -> None:
    """
    A client that answers INFO in clear text is disconnected, and the log has OpenSSL's reason.
    """
    client = SecureClient(place, 0)
    place.clients.append(client)
    place.until(lambda: len(place.poller.sockets) == 1)
    client.waiting = b"CONNECT {}\r\nPING\r\n"

    def over() -> bool:
        client.carry()
        return client.isOver

    with logLines() as lines:
        place.until(over)
    assert place.sessions == []
    # OpenSSL takes CONNECT for a request to a proxy.
    assert any("TLS handshake error: https proxy request" in line for line in lines)


def test_saidInTheHandshake(place: SecurePlace) -> None:
    """Output of the session during the handshake is sent after the handshake."""
    client = SecureClient(place, 0)
    place.clients.append(client)
    place.until(lambda: len(place.sessions) == 1)
    [session] = place.sessions
    session.say(b"PING\r\n")
    session.outbox.flush()
    client.shake()
    came = b""

    def isTold() -> bool:
        nonlocal came
        client.carry()
        came += client.some()
        return came == b"PING\r\n"

    place.until(isTold)


def test_silentAtTheEnd(place: SecurePlace) -> None:
    """A client that does not answer the end of TLS is disconnected soon."""
    place.client()
    [session] = place.sessions
    session.close(errors.STALE)
    place.until(lambda: not session.outbox.pending)
    assert place.sessions == [session]
    place.world.clock.advance(LINGER)
    place.until(lambda: place.sessions == [])
