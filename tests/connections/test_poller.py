"""
Plain TCP connections with compiled buffers, over real sockets and a separate reactor.
"""

from __future__ import annotations

import gc
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from weakref import ref

import pytest
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.protocol import ServerFactory
from zope.interface.verify import verifyObject

from natsbroker import hot
from natsbroker.clients.context import ClientContext
from natsbroker.clients.info import ServerInfo
from natsbroker.clients.protocol import ClientFactory
from natsbroker.clients.session import ClientSession
from natsbroker.config.model import Settings
from natsbroker.wire.values import Kind
from tests.conftest import FlushLoggedErrors
from tests.connections.realreactor import POLLED, RealReactor
from tests.support import COMPILED, QUIET, Accounts, Doorkeeper, using

if sys.platform == "linux":
    from natsbroker.connections import poller

pytestmark = POLLED


@pytest.mark.parametrize(
    ("processors", "own", "limits", "expected"),
    [
        (1, "0::/\n", {}, False),
        (2, "0::/\n", {}, True),
        (2, "0::/\n", {".": "max 100000"}, True),
        (2, "0::/\n", {".": "150000 100000"}, False),
        (2, "0::/\n", {".": "200000 100000"}, True),
        (2, "0::/a/b\n", {"a/b": "max 100000", "a": "50000 100000"}, False),
        (2, "0::/a/b\n", {"c": "50000 100000"}, True),
        (2, "3:cpu:/a\n0::/b\n", {"a": "50000 100000", "b": "400000 100000"}, True),
        (2, "3:cpu:/a\n", {".": "what is this?"}, True),
        (2, None, {".": "50000 100000"}, True),
    ],
)
def test_hasSpareProcessor(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processors: int,
    own: str | None,
    limits: dict[str, str],
    expected: bool,
) -> None:
    """A process has a spare processor if it has two, and no control group limits it to less."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(processors)))
    groups, file = tmp_path / "groups", tmp_path / "own"
    for name, text in limits.items():
        (groups / name).mkdir(parents=True, exist_ok=True)
        (groups / name / "cpu.max").write_text(text)
    if own is not None:
        file.write_text(own)
    assert poller.hasSpareProcessor(groups, file) is expected


class Server(RealReactor):
    """A port whose connections go through a poller."""

    def __init__(self, limits: Settings) -> None:
        super().__init__()
        self.batch: Any = hot.FlushBatch(lambda call: self.reactor.callLater(0, call))
        self.accounts = Accounts(self.batch, Random(1), ("$G",))
        info = ServerInfo("ID", "name", "2.15.1", "0")
        self.context = ClientContext(
            self.reactor, self.accounts, Doorkeeper(), info, self.batch, limits
        )
        self.port = self.reactor.listenTCP(0, ClientFactory(self.context), interface="127.0.0.1")
        self.poller = poller.SocketPoller(self.reactor, self.batch)
        assert poller.installTransport(self.port, self.poller)
        self.peers: list[Peer] = []

    def dial(self) -> Peer:
        """Connect a client that sends nothing."""
        before = self.context.connections.total
        peer = Peer(self, socket.create_connection(("127.0.0.1", self.port.getHost().port)))
        self.peers.append(peer)
        self.until(lambda: self.context.connections.total > before)
        peer.session = self.context.connections.get(before + 1)
        return peer

    def client(self) -> Peer:
        """Connect a client that logs in."""
        peer = self.dial()
        assert peer.read(1).startswith(b"INFO ")
        assert peer.ask(QUIET + b"PING\r\n", b"PONG\r\n") == b"PONG\r\n"
        return peer

    def stop(self) -> None:
        """Close everything."""
        for peer in self.peers:
            peer.socket.close()
        self.until(lambda: not len(self.context.connections))
        self.port.stopListening()
        self.poller.close()
        assert self.end() == []


class Peer:
    """A client with a real socket, which never blocks."""

    def __init__(self, server: Server, connection: socket.socket) -> None:
        self.server = server
        self.socket = connection
        self.socket.setblocking(False)
        self.session: Any = None
        self.data = b""
        self.ended = False

    def _poll(self) -> None:
        try:
            while data := self.socket.recv(1 << 16):
                self.data += data
            self.ended = True
        except BlockingIOError:
            pass
        except ConnectionResetError:
            self.ended = True

    def read(self, count: int) -> bytes:
        """At least that many bytes, and everything that arrived with them."""

        def enough() -> bool:
            self._poll()
            return len(self.data) >= count or self.ended

        self.server.until(enough)
        data, self.data = self.data, b""
        return data

    def readUntil(self, end: bytes) -> bytes:
        """All bytes up to an ending."""

        def there() -> bool:
            self._poll()
            return self.data.endswith(end) or self.ended

        self.server.until(there)
        data, self.data = self.data, b""
        return data

    def send(self, data: bytes) -> None:
        """Send, and let the server run while the socket is full."""
        view = memoryview(data)

        def sent() -> bool:
            nonlocal view
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                pass
            return not view

        self.server.until(sent)

    def ask(self, data: bytes, end: bytes) -> bytes:
        """Send, and read up to an ending."""
        self.send(data)
        return self.readUntil(end)

    def readToEnd(self) -> bytes:
        """Everything up to the end of the connection."""

        def done() -> bool:
            self._poll()
            return self.ended

        self.server.until(done)
        data, self.data = self.data, b""
        return data


@pytest.fixture
def limits() -> Settings:
    """The limits of the server."""
    return Settings()


@pytest.fixture
def server(limits: Settings) -> Iterator[Server]:
    """A server that is stopped afterwards."""
    assert COMPILED is not None
    with using(COMPILED):
        made = Server(limits)
        try:
            yield made
        finally:
            made.stop()


def pub(subject: bytes, body: bytes) -> bytes:
    """A PUB operation."""
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body)


class TestTalk:
    """Bytes in both directions."""

    def test_isFast(self, server: Server) -> None:
        """Connections of an accelerated port are polled, and the session sees no difference."""
        peer = server.client()
        assert type(peer.session.peer.transport) is poller.PolledServer
        assert len(server.poller.sockets) == 1

    def test_messages(self, server: Server) -> None:
        """Messages reach other connections in order, on the lane and outside it."""
        one, two = server.client(), server.client()
        one.ask(b"SUB foo 1\r\nPING\r\n", b"PONG\r\n")
        two.send(pub(b"foo", b"1") + b"PING\r\n" + pub(b"foo", b"2") + pub(b"foo", b"3"))
        assert two.readUntil(b"PONG\r\n") == b"PONG\r\n"
        expected = b"".join(b"MSG foo 1 1\r\n%d\r\n" % number for number in (1, 2, 3))
        assert one.read(len(expected)) == expected

    def test_turnLengths(self, server: Server) -> None:
        """Each turn is counted once, by its length."""
        bounds, counts, total = server.poller.turnLengths()
        assert bounds == sorted(bounds)
        assert len(counts) == len(bounds) + 1
        peer = server.client()
        for _ in range(20):
            peer.ask(b"PING\r\n", b"PONG\r\n")
        _, after, seconds = server.poller.turnLengths()
        assert sum(after) >= sum(counts) + 20
        assert total < seconds < 10

    def test_pieces(self, server: Server) -> None:
        """A message that arrives in pieces is put together."""
        peer = server.client()
        peer.ask(b"SUB foo 1\r\nPING\r\n", b"PONG\r\n")
        data = pub(b"foo", b"hello") + b"PING\r\n"
        for place in range(len(data)):
            peer.send(data[place : place + 1])
            server.reactor.iterate(0)
        assert peer.readUntil(b"PONG\r\n") == b"MSG foo 1 5\r\nhello\r\nPONG\r\n"

    def test_large(self, server: Server) -> None:
        """Messages larger than any buffer are delivered."""
        one, two = server.client(), server.client()
        one.ask(b"SUB foo 1\r\nPING\r\n", b"PONG\r\n")
        body = bytes(range(256)) * 4000
        for _ in range(3):
            two.send(pub(b"foo", body))
            assert one.readUntil(body + b"\r\n") == b"MSG foo 1 %d\r\n%b\r\n" % (len(body), body)

    def test_rest(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        """A publish that is completed by the next read stays on the lane, wherever it is cut."""
        one, two = server.client(), server.client()
        one.ask(b"SUB foo 1\r\nPING\r\n", b"PONG\r\n")
        monkeypatch.setattr(ClientSession, "_operations", {})
        line, message = b"PUB foo 1000\r\n", pub(b"foo", b"x" * 1000)
        expected = b"MSG foo 1 1000\r\n" + b"x" * 1000 + b"\r\n"
        for place in (len(line), len(line) + 500, len(message) - 2, len(message) - 1):
            two.send(message + message[:place])
            assert one.read(len(expected)) == expected
            two.send(message[place:])
            assert one.read(len(expected)) == expected

    def test_together(self, server: Server) -> None:
        """The output of a turn for many connections is sent before the turn ends."""
        peers = [server.client() for _ in range(3)]
        server.batch.enter()
        for _ in range(8):
            for peer in peers:
                peer.session.outbox.write(b"x" * 100_000)
        waiting = sum(peer.session.outbox.pending for peer in peers)
        server.batch.leave()
        assert waiting < 2_400_000
        assert all(len(peer.read(800_000)) == 800_000 for peer in peers)

    def test_manyConnections(self, server: Server) -> None:
        """Many connections can be opened and closed."""
        for _ in range(3):
            peers = [server.client() for _ in range(40)]
            for peer in peers:
                peer.ask(b"SUB foo 1\r\nPING\r\n", b"PONG\r\n")
            peers[0].send(pub(b"foo", b"x"))
            assert all(peer.read(1) == b"MSG foo 1 1\r\nx\r\n" for peer in peers)
            for peer in peers:
                peer.socket.close()
            server.until(lambda: not len(server.context.connections))
            assert len(server.poller.sockets) == 0
            assert len(server.accounts["$G"]) == 0

    @pytest.mark.parametrize("waiting", [b"", b"x" * 20_000_000])
    def test_lingers(self, server: Server, waiting: bytes) -> None:
        """A peer that does not read the end is disconnected soon."""
        session = server.client().session
        session.outbox.write(waiting)
        session.peer.finish()
        calls = [call.func for call in server.reactor.getDelayedCalls()]
        assert session.peer.abort in calls

    def test_noCycles(self, server: Server) -> None:
        """A connection that has ended is freed at once, without the garbage collector."""
        peer = server.client()
        peer.ask(b"SUB foo 1\r\nPING\r\n" + pub(b"foo", b"x") + b"PING\r\n", b"PONG\r\n")
        session, peer.session = peer.session, None
        parts = [ref(session), ref(session.outbox), ref(session.peer.transport)]
        peer.socket.close()
        gc.collect()
        gc.disable()
        try:
            del session
            server.until(lambda: not len(server.context.connections))
            server.reactor.iterate(0)
            assert [part() for part in parts] == [None, None, None]
        finally:
            gc.enable()


class TestSlowReceivers:
    """Receivers whose sockets are full."""

    def fill(self, server: Server) -> tuple[Peer, Peer, bytes]:
        """A receiver that does not read, and a publisher that has sent it many messages."""
        slow, publisher = server.client(), server.client()
        slow.ask(b"SUB foo 1\r\nPING\r\n", b"PONG\r\n")
        message = pub(b"foo", b"x" * 100_000)
        for _ in range(60):
            publisher.send(message)
        return slow, publisher, message

    def test_nothingIsLost(self, server: Server) -> None:
        """Output that a full socket does not take is sent later."""
        slow, publisher, message = self.fill(server)
        server.until(lambda: slow.session.outbox.pending > 0)
        total = 60 * len(b"MSG foo 1 100000\r\n" + message[-100_002:])
        got = slow.read(total)
        assert len(got) == total
        assert got == (b"MSG foo 1 100000\r\n" + message[-100_002:]) * 60
        assert slow.session.outbox.pending == 0
        assert publisher.ask(b"PING\r\n", b"PONG\r\n") == b"PONG\r\n"

    @pytest.mark.parametrize("limits", [Settings(max_pending=500_000, no_fast_producer_stall=True)])
    def test_cut(self, server: Server, limits: Settings) -> None:
        """A receiver is disconnected when too much output waits."""
        slow, publisher, _ = self.fill(server)
        server.until(lambda: slow.session.reason)
        assert slow.session.reason == "Slow Consumer (Pending Bytes)"
        server.until(lambda: len(server.context.connections) == 1)
        assert publisher.ask(b"PING\r\n", b"PONG\r\n") == b"PONG\r\n"

    @pytest.mark.parametrize("limits", [Settings(write_deadline=0.3, no_fast_producer_stall=True)])
    def test_writeDeadline(self, server: Server, limits: Settings) -> None:
        """A receiver that reads nothing within the write deadline is disconnected."""
        slow, _, _ = self.fill(server)
        server.until(lambda: slow.session.reason)
        assert slow.session.reason == "Slow Consumer (Write Deadline)"

    def test_publisherIsHeld(self, server: Server) -> None:
        """A publisher is not read from while its receiver must catch up, and then resumes."""
        slow, publisher, _ = self.fill(server)
        server.until(lambda: slow.session.outbox.lagging or slow.session.outbox.pending > 0)
        publisher.send(b"PING\r\n")
        slow.read(60 * 100_000)
        assert publisher.readUntil(b"PONG\r\n") == b"PONG\r\n"


class TestTheEnd:
    """The end of connections."""

    def test_error(self, server: Server) -> None:
        """A violation gets an error, and the connection is closed."""
        peer = server.client()
        peer.send(b"FOO\r\n")
        assert peer.readToEnd() == b"-ERR 'Unknown Protocol Operation'\r\n"

    def test_errorBehindMuch(self, server: Server) -> None:
        """
        Waiting output is sent before a connection is closed for a violation, if the peer reads.
        """
        peer = server.client()
        body = b"x" * 100_000
        peer.send(b"SUB foo 1\r\n" + pub(b"foo", body) * 50 + b"FOO\r\n")
        got = peer.readToEnd()
        assert got.count(b"MSG foo 1") == 50
        assert got.endswith(body + b"\r\n-ERR 'Unknown Protocol Operation'\r\n")

    def test_left(self, server: Server) -> None:
        """A peer that closes the connection is removed."""
        peer = server.client()
        session = peer.session
        peer.socket.close()
        server.until(lambda: not len(server.context.connections))
        assert session.reason == "Client Closed"

    def test_reset(self, server: Server) -> None:
        """A peer that resets the connection is removed, also while its reading is paused."""
        peer = server.client()
        peer.session.peer.pauseReading()
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.socket.close()
        peer.session.peer.resumeReading()
        server.until(lambda: not len(server.context.connections))

    def test_halfClosed(self, server: Server) -> None:
        """A peer that has closed only its sending side still gets the answers."""
        peer = server.client()
        peer.socket.send(b"PING\r\n" * 3)
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.readToEnd() == b"PONG\r\n" * 3

    def test_notRead(self, server: Server) -> None:
        """Input of a connection is not handled while its reading is paused."""
        peer = server.client()
        peer.session.peer.pauseReading()
        peer.send(b"PING\r\n")
        for _ in range(5):
            server.reactor.iterate(0.01)
        assert peer.session.decoder.received == len(QUIET + b"PING\r\n")
        peer.session.peer.resumeReading()
        assert peer.readUntil(b"PONG\r\n") == b"PONG\r\n"

    def test_failure(self, server: Server, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A failure in one connection is logged and does not affect the others."""
        peer, other = server.client(), server.client()

        class Broken:
            def deliver(self, message: object, tag: object) -> None:
                raise ZeroDivisionError("as expected")

        account: Any = server.accounts["$G"]
        account.subscribe(Kind.INTERNAL, b"foo", Broken(), None, b"", 1)
        peer.send(pub(b"foo", b"x"))
        server.until(lambda: flushLoggedErrors(ZeroDivisionError))
        assert other.ask(b"PING\r\n", b"PONG\r\n") == b"PONG\r\n"


class TestSocketPoller:
    """The reader in the reactor that serves all connections."""

    @pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
    def test_pollerRaises(
        self,
        server: Server,
        error: type[BaseException],
        flushLoggedErrors: FlushLoggedErrors,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """An exception of the poller is logged and reported as trouble, and the reader stays."""
        peer = server.client()

        class Broken:
            def fileno(self) -> int:
                return int(working.fileno())

            def run(self) -> None:
                raise error

        working = server.poller.sockets
        monkeypatch.setattr(server.poller, "sockets", Broken())
        peer.send(b"PING\r\n")
        server.until(lambda: flushLoggedErrors(error))
        assert server.poller.trouble == "reading and writing connections fails"
        monkeypatch.setattr(server.poller, "sockets", working)
        assert peer.readUntil(b"PONG\r\n") == b"PONG\r\n"
        assert server.poller.trouble == ""
        flushLoggedErrors(error)

    def test_reactorDropsIt(self, server: Server, flushLoggedErrors: FlushLoggedErrors) -> None:
        """The reactor watches the reader again after dropping it for an exception."""
        peer = server.client()
        server.reactor._disconnectSelectable(server.poller, MemoryError(), True)
        assert len(flushLoggedErrors(MemoryError)) == 1
        assert server.poller.trouble == ""
        assert peer.ask(b"PING\r\n", b"PONG\r\n") == b"PONG\r\n"

    def test_removed(self, server: Server) -> None:
        """A reader that was removed from the reactor is reported as trouble."""
        server.reactor.removeReader(server.poller)
        assert server.poller.trouble == "the reactor does not watch the connections"
        server.reactor.addReader(server.poller)


class TestTakingOver:
    """The ports that go through the poller."""

    def test_otherPortsAreLeftAlone(self, server: Server) -> None:
        """A port with another kind of factory is left unchanged."""
        factory: Any = ServerFactory()
        port = server.reactor.listenTCP(0, factory, interface="127.0.0.1")
        assert not poller.installTransport(port, server.poller)
        assert not poller.installTransport(object(), server.poller)
        port.stopListening()


class Reader:
    """A reader of a descriptor that is not a connection."""

    def __init__(self, then: Callable[[], object]) -> None:
        self.then = then
        self.ours, self.theirs = socket.socketpair()
        self.read: list[bytes] = []

    def fileno(self) -> int:
        """The descriptor."""
        return self.ours.fileno()

    def doRead(self) -> None:
        """Read a byte, and make the test's call."""
        self.read.append(self.ours.recv(1))
        self.then()

    def close(self) -> None:
        """Close the sockets."""
        self.ours.close()
        self.theirs.close()


class HeldPiece:
    """
    A writer to a disk that counts as fast.

    @ivar byThread: for each written piece, whether the writer's thread wrote it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("wb")
        self.writer: Any = hot.SyncedWriter(4096, 10**11)
        self.byThread: list[bool] = []
        for _ in range(16):
            self.write()
            select.select([self.writer], [], [])
            assert self.writer.result() == (0, 0)

    def write(self) -> None:
        """Let the writer write a piece."""
        file = self.file.fileno()
        self.writer.write(file, b"piece", 0, file, b"", 0, True)

    def fileno(self) -> int:
        """The descriptor."""
        return int(self.writer.fileno())

    def doRead(self) -> None:
        """A piece was written."""
        self.byThread.append(bool(select.select([self.writer], [], [], 0)[0]))
        assert self.writer.result() == (0, 0)

    def close(self) -> None:
        """Close the writer and the file."""
        self.writer.close()
        self.file.close()


def test_readerIsCalledInATurn(server: Server) -> None:
    """The output of a reader to a client is sent when the reader returns, without a timer."""
    client = server.client()
    reader = Reader(lambda: client.session.outbox.write(b"+OK\r\n"))
    server.poller.addReader(reader)  # type: ignore[arg-type]
    timers = server.reactor.getDelayedCalls()
    reader.theirs.send(b"a")
    server.until(lambda: reader.read)
    assert server.reactor.getDelayedCalls() == timers
    assert client.read(1) == b"+OK\r\n"
    server.poller.removeReader(reader)  # type: ignore[arg-type]
    reader.theirs.send(b"b")
    assert client.ask(b"PING\r\n", b"PONG\r\n") == b"PONG\r\n"
    assert reader.read == [b"a"]
    reader.close()


def test_sendNow(server: Server) -> None:
    """A reader can send output to a client before it returns."""
    client = server.client()
    chunks: list[bytes] = []

    def then() -> None:
        client.session.outbox.write(b"+OK\r\n")
        assert not select.select([client.socket], [], [], 0)[0]
        server.poller.sendNow()
        chunks.append(client.socket.recv(10))
        client.session.outbox.write(b"+OK\r\n")

    reader = Reader(then)
    server.poller.addReader(reader)  # type: ignore[arg-type]
    reader.theirs.send(b"a")
    server.until(lambda: reader.read)
    assert chunks == [b"+OK\r\n"]
    assert client.read(1) == b"+OK\r\n"
    server.poller.removeReader(reader)  # type: ignore[arg-type]
    reader.close()


def test_readerThatRaises(server: Server, flushLoggedErrors: FlushLoggedErrors) -> None:
    """A reader that raises an exception affects neither clients nor its own next call."""
    client = server.client()
    reader = Reader(lambda: 1 / 0)
    server.poller.addReader(reader)  # type: ignore[arg-type]
    for name in (b"a", b"b"):
        reader.theirs.send(name)
        server.until(lambda: name in reader.read)  # noqa: B023
        assert client.ask(b"PING\r\n", b"PONG\r\n") == b"PONG\r\n"
    server.poller.removeReader(reader)  # type: ignore[arg-type]
    reader.close()
    assert len(flushLoggedErrors(ZeroDivisionError)) == 2


def test_callsFromThreads(server: Server, flushLoggedErrors: FlushLoggedErrors) -> None:
    """Calls from threads run in order, in the reactor's thread and in a turn."""
    assert verifyObject(IReactorFromThreads, server.poller)
    client = server.client()
    reports: list[tuple[int, int]] = []

    def called(thread: int, *, number: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        reports.append((thread, number))
        client.session.outbox.write(b"+OK\r\n")

    def work(thread: int) -> None:
        for number in range(200):
            server.poller.callFromThread(called, thread, number=number)
            server.poller.callFromThread(divmod, 1, 0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    timers = list(server.reactor.getDelayedCalls())
    for worker in threads:
        worker.start()
    server.until(lambda: len(reports) == 600)
    assert server.reactor.getDelayedCalls() == timers
    assert client.read(3000) == b"+OK\r\n" * 600
    for worker in threads:
        worker.join()
    for thread in range(3):
        assert [number for caller, number in reports if caller == thread] == list(range(200))
    server.until(lambda: not server.poller._calls)
    assert len(flushLoggedErrors(ZeroDivisionError)) == 600


def test_callsWhenClosed(server: Server) -> None:
    """Calls from threads that come when the poller is closed, or later, are made by the reactor."""
    calls: list[int] = []
    another = poller.SocketPoller(server.reactor, server.batch)
    another.callFromThread(calls.append, 1)
    another.close()
    another.callFromThread(calls.append, 2)
    assert calls == []
    server.until(lambda: calls == [1, 2])


class TestLingering:
    """The poller's wait for further input before it returns to the reactor."""

    def reads(self, server: Server, then: Callable[[], object]) -> list[bytes]:
        """
        The reads in one call of the poller, for a reader that is readable again after its first
        byte.

        @param then: called after that byte.
        """

        def again() -> None:
            if len(reader.read) == 1:
                reader.theirs.send(b"b")
                then()

        reader = Reader(again)
        server.poller.addReader(reader)  # type: ignore[arg-type]
        reader.theirs.send(b"a")
        server.poller.doRead()
        server.poller.removeReader(reader)  # type: ignore[arg-type]
        reader.close()
        return reader.read

    def test_readAgain(self, server: Server) -> None:
        """Further input is read without another iteration of the reactor."""
        assert self.reads(server, lambda: None) == [b"a", b"b"]

    def test_timersComeFirst(self, server: Server) -> None:
        """The poller returns to the reactor at once if a call is due."""

        def then() -> None:
            calls.append(server.reactor.callLater(0, lambda: None))

        calls: list[Any] = []
        assert self.reads(server, then) == [b"a"]
        calls[0].cancel()

    def test_otherReadersComeFirst(self, server: Server) -> None:
        """
        The poller returns to the reactor at once if one of the reactor's own descriptors is
        readable.
        """
        other = Reader(lambda: None)
        server.reactor.addReader(other)
        other.theirs.send(b"x")
        assert self.reads(server, lambda: None) == [b"a"]
        server.reactor.removeReader(other)
        other.close()

    @pytest.mark.parametrize("isBusy", [False, True])
    def test_heldPiece(self, server: Server, tmp_path: Path, isBusy: bool) -> None:
        """A held piece is written by the poller, or by the thread if the poller has other work."""
        held, other = HeldPiece(tmp_path / "pieces"), Reader(lambda: None)

        def then() -> None:
            held.write()
            assert held.writer.isHeld
            server.poller.writeSoon(held.writer)
            if isBusy:
                other.theirs.send(b"x")

        reader = Reader(then)
        for watched in (reader, held, other):
            server.poller.addReader(watched)  # type: ignore[arg-type]
        reader.theirs.send(b"a")
        server.poller.doRead()
        assert not held.writer.isHeld
        server.until(lambda: held.byThread)
        assert held.byThread == [isBusy]
        assert held.path.read_bytes() == b"piece"
        for watched in (reader, held, other):
            server.poller.removeReader(watched)  # type: ignore[arg-type]
            watched.close()

    def test_closedWhileHeld(self, server: Server, tmp_path: Path) -> None:
        """A writer that is closed in the turn in which it holds a piece writes this piece once."""
        held = HeldPiece(tmp_path / "pieces")

        def then() -> None:
            held.write()
            server.poller.writeSoon(held.writer)
            server.poller.removeReader(held)  # type: ignore[arg-type]
            held.close()
            held.path.write_bytes(b"")

        reader = Reader(then)
        for watched in (reader, held):
            server.poller.addReader(watched)  # type: ignore[arg-type]
        reader.theirs.send(b"a")
        server.poller.doRead()
        assert not server.poller.trouble
        assert held.path.read_bytes() == b""
        server.poller.removeReader(reader)  # type: ignore[arg-type]
        reader.close()

    def test_heldOutsideATurn(self, server: Server, tmp_path: Path) -> None:
        """A piece that is held outside a turn is written by the thread."""
        held = HeldPiece(tmp_path / "pieces")
        server.poller.addReader(held)  # type: ignore[arg-type]
        held.write()
        server.poller.writeSoon(held.writer)
        assert not held.writer.isHeld
        server.until(lambda: held.byThread)
        assert held.byThread == [True]
        server.poller.removeReader(held)  # type: ignore[arg-type]
        held.close()

    def test_nothingComes(self, server: Server) -> None:
        """The poller's wait ends if no input comes."""
        server.poller.doRead()
        assert not server.poller.trouble
