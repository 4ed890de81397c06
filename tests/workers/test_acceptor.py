"""
The acceptor of the parent, with sockets and workers of the test's own.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from twisted.internet.task import Clock

from natsbroker.clients.adoption import Adoption, adopt
from natsbroker.clients.info import ServerInfo
from natsbroker.workers.acceptor import Acceptor, FirstLine
from natsbroker.workers.accounts import AccountFinder
from natsbroker.workers.channel import GATHER
from natsbroker.workers.messages import (
    CLIENTS,
    Adopt,
)
from natsbroker.workers.placing import WorkerLoad
from tests.connections.realreactor import POLLED
from tests.links.test_hostcluster import TWO, Caller, Street
from tests.server.support import settingsOf

HELLO = b'CONNECT {"user":"a","pass":"a","verbose":false}\r\n'

LIMIT = 4096


class Worker:
    """A worker that keeps the connections it is given."""

    def __init__(self, info: ServerInfo | None) -> None:
        self.info = info
        self.connections = WorkerLoad()
        self.links = WorkerLoad()
        self.isReady = True
        self.isHung = False
        self.given: list[tuple[Adopt, socket.socket]] = []

    def sendAll(self, messages: Sequence[tuple[Any, Sequence[socket.socket]]]) -> None:
        self.given += [(message, sockets[0]) for message, sockets in messages]


class Readers(Clock):
    """A reactor whose readers the test calls."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[Any] = []

    def addReader(self, reader: Any) -> None:
        self.readers.append(reader)

    def removeReader(self, reader: Any) -> None:
        self.readers.remove(reader)


class Entrance:
    """An acceptor in front of two workers."""

    def __init__(self, text: str = TWO, listener: str = CLIENTS) -> None:
        self.reactor = Readers()
        self._listener = listener
        info = ServerInfo("ID", "name", "2.15.1", "0", auth_required=True)
        self.workers = [Worker(info), Worker(info)]
        self.acceptor = Acceptor(
            self.reactor,
            self.workers,
            settingsOf(text),
            random=Random(1),
            nonceBytes=bytes,
        )
        self.sockets: list[socket.socket] = []

    def dial(self) -> socket.socket:
        """A connected and accepted client."""
        theirs, ours = socket.socketpair()
        self.sockets += [theirs, ours]
        theirs.setblocking(False)
        self.acceptor.welcome(ours, ("::ffff:10.0.0.1", 7), self._listener)
        return theirs

    def say(self, client: socket.socket, data: bytes) -> None:
        """Send bytes from a client, and read them."""
        client.send(data)
        self.read()

    def read(self) -> None:
        """Read from all clients."""
        for reader in list(self.reactor.readers):
            reader.doRead()

    @property
    def given(self) -> list[Adopt]:
        """The connections that workers were given."""
        return [message for worker in self.workers for message, _ in worker.given]

    def end(self) -> None:
        """Close all sockets."""
        self.acceptor.close()
        for opened in self.sockets:
            opened.close()


@pytest.fixture
def entrance(request: pytest.FixtureRequest) -> Iterator[Entrance]:
    """An acceptor that is closed afterwards."""
    made = Entrance(**getattr(request, "param", {}))
    try:
        yield made
    finally:
        made.end()


class TestFirstLine:
    """Input up to the end of CONNECT."""

    def line(self) -> FirstLine:
        """The first line of a client of a server with two accounts."""
        return FirstLine(AccountFinder(settingsOf(TWO)), LIMIT)

    def test_pieces(self) -> None:
        """CONNECT may arrive in pieces, followed by more input."""
        line = self.line()
        for place in range(len(HELLO) - 1):
            assert not line.received(HELLO[place : place + 1])
        assert line.received(b"\nPING\r\n")
        assert (line.account, line.read) == ("A", HELLO + b"PING\r\n")

    @pytest.mark.parametrize("data", [b"PING\r\n", b"P", b"GET / HTTP/1.1\r\n", b"\0", b"cON-"])
    def test_guest(self, data: bytes) -> None:
        """A client whose first byte does not begin CONNECT is a guest, and is not read further."""
        line = self.line()
        assert line.received(data)
        assert line.account == "A"

    @pytest.mark.parametrize("argument", [b"", b" {", b' {"user":7}', b" []", b" \xff"])
    def test_nonsense(self, argument: bytes) -> None:
        """A malformed CONNECT is read to its end; the worker will answer it."""
        line = self.line()
        assert line.received(b"CONNECT" + argument + b"\r\n")
        assert line.account in ("", "A")

    def test_long(self) -> None:
        """A line that is too long is not read further."""
        line = self.line()
        assert not line.received(b"CONNECT " + b"x" * (LIMIT - 8))
        assert line.received(b"x")
        assert line.account == ""


class TestAcceptor:
    """Clients before a worker has them."""

    def test_greeted(self, entrance: Entrance) -> None:
        """
        A client gets INFO with its client id and address; its CONNECT decides about the worker.
        """
        client = entrance.dial()
        info = json.loads(client.recv(4096)[5:])
        assert (info["client_id"], info["client_ip"], info["auth_required"]) == (
            3,
            "10.0.0.1",
            True,
        )
        assert "nonce" not in info and not entrance.given
        entrance.say(client, HELLO[:9])
        assert not entrance.given
        entrance.reactor.advance(0.5)
        entrance.say(client, HELLO[9:] + b"PING\r\n")
        (given,) = entrance.given
        assert given == Adopt(
            3, ("::ffff:10.0.0.1", 7), HELLO + b"PING\r\n", "", isGreeted=True, waited=0.5
        )
        assert not entrance.reactor.readers and not entrance.reactor.getDelayedCalls()
        assert sorted(len(worker.connections) for worker in entrance.workers) == [0, 1]

    def test_accounts(self, entrance: Entrance) -> None:
        """Clients of one account come to one worker, those of another account to another worker."""
        for user in b"ababab":
            client = entrance.dial()
            entrance.say(client, b'CONNECT {"user":"%c"}\r\n' % user)
        shares = [set(worker.connections.values()) for worker in entrance.workers]
        assert sorted(map(sorted, shares)) == [["A"], ["B"]]
        assert [given.cid % 3 for given in entrance.given] == [0] * 6

    @pytest.mark.parametrize(
        "entrance", [{"text": TWO + "streaming { account: A }"}], indirect=True
    )
    def test_streaming(self, entrance: Entrance) -> None:
        """
        Clients of the account with NATS Streaming come to the first worker, and to no other while
        that is not ready.
        """
        first, second = entrance.workers
        for _ in range(3):
            entrance.say(entrance.dial(), HELLO)
        assert [len(worker.given) for worker in entrance.workers] == [3, 0]
        first.isReady = False
        refused = entrance.dial()
        for client, user in ((refused, "a"), (entrance.dial(), "b")):
            entrance.say(client, HELLO.replace(b'"a"', f'"{user}"'.encode()))
        assert list(second.connections.values()) == ["B"]
        refused.recv(4096)
        assert refused.recv(1) == b""

    def test_late(self, entrance: Entrance) -> None:
        """A silent client goes to a worker after its time, and the worker counts the timeout."""
        entrance.dial()
        entrance.reactor.advance(1.9)
        assert not entrance.given
        entrance.reactor.advance(0.2)
        (given,) = entrance.given
        assert (given.read, given.isGreeted) == (b"", True) and given.waited >= 2.0

    def test_left(self, entrance: Entrance) -> None:
        """A client that leaves before it has a worker is forgotten."""
        entrance.dial().close()
        entrance.read()
        assert not entrance.given and not entrance.reactor.readers
        assert not entrance.reactor.getDelayedCalls()

    @pytest.mark.parametrize(
        "entrance",
        [{"text": ""}, {"listener": "websocket"}, {"text": TWO + "proxy_protocol: true"}],
        indirect=True,
    )
    def test_atOnce(self, entrance: Entrance) -> None:
        """
        If CONNECT does not matter for the placement, connections go to the workers at once, by
        load.
        """
        for _ in range(20):
            client = entrance.dial()
            with pytest.raises(BlockingIOError):
                client.recv(1)
        assert {(given.isGreeted, given.isExcess) for given in entrance.given} == {(False, False)}
        assert [len(worker.connections) for worker in entrance.workers] == [10, 10]

    @pytest.mark.parametrize("entrance", [{"text": TWO + "max_connections: 2"}], indirect=True)
    def test_full(self, entrance: Entrance) -> None:
        """Connections over the server's limit are marked; connections before CONNECT count."""
        first, _ = entrance.dial(), entrance.dial()
        entrance.say(first, HELLO)
        entrance.dial()
        assert len(entrance.given) == 1
        entrance.reactor.advance(2 * GATHER)
        assert [given.isExcess for given in entrance.given].count(True) == 1

    @pytest.mark.parametrize("entrance", [{"text": "max_connections: 1"}], indirect=True)
    def test_endReportedLater(self, entrance: Entrance) -> None:
        """A connection is not over the limit if an earlier one has just ended."""
        entrance.dial()
        entrance.dial()
        for worker in entrance.workers:
            worker.connections.clear()
        entrance.reactor.advance(2 * GATHER)
        assert [given.isExcess for given in entrance.given] == [False, False]

    @pytest.mark.parametrize("entrance", [{"text": "max_connections: 1"}], indirect=True)
    def test_closedWhileHeld(self, entrance: Entrance) -> None:
        """A held connection is closed when the server stops, and goes to no worker."""
        entrance.dial()
        client = entrance.dial()
        entrance.acceptor.close()
        entrance.reactor.advance(2 * GATHER)
        assert client.recv(1) == b"" and len(entrance.given) == 1

    def test_nobody(self, entrance: Entrance) -> None:
        """Without a worker, an accepted connection is closed."""
        client = entrance.dial()
        for worker in entrance.workers:
            worker.isReady = False
        entrance.say(client, HELLO)
        client.recv(4096)
        assert client.recv(1) == b"" and not entrance.given

    def test_hung(self, entrance: Entrance) -> None:
        """A worker that hangs gets no connections while another one takes them."""
        entrance.workers[0].isHung = True
        for _ in range(5):
            entrance.say(entrance.dial(), HELLO)
        assert len(entrance.workers[1].given) == 5
        entrance.workers[1].isHung = True
        entrance.say(entrance.dial(), HELLO)
        assert len(entrance.given) == 6

    def test_onlyReady(self, entrance: Entrance) -> None:
        """A worker that is being replaced gets no more connections."""
        entrance.workers[0].isReady = False
        for _ in range(5):
            entrance.say(entrance.dial(), HELLO)
        assert len(entrance.workers[1].given) == 5

    @pytest.mark.parametrize(
        "entrance", [{"text": "max_connections: 3", "listener": "leafnodes"}], indirect=True
    )
    def test_servers(self, entrance: Entrance) -> None:
        """
        Connections of other servers go to the worker with the fewest of them, and do not count as
        clients.
        """
        for worker, count in zip(entrance.workers, (3, 1), strict=True):
            worker.connections.update(dict.fromkeys(range(count), ""))
        for _ in range(3):
            entrance.dial()
        assert [len(worker.links) for worker in entrance.workers] == [1, 2]
        assert {(given.listener, given.isExcess) for given in entrance.given} == {
            ("leafnodes", False)
        }
        assert [len(worker.connections) for worker in entrance.workers] == [3, 1]

    def test_reload(self, entrance: Entrance) -> None:
        """New settings apply to later connections."""
        entrance.acceptor.use(settingsOf(""))
        entrance.dial()
        assert [given.isGreeted for given in entrance.given] == [False]


class _Adopter(Worker):
    """A broker in this process, in the place of a worker."""

    def __init__(self, street: Street, number: int) -> None:
        super().__init__(street.brokers[number].clientContext.info)
        self._street = street
        self._broker = street.brokers[number]

    def sendAll(self, messages: Sequence[tuple[Any, Sequence[socket.socket]]]) -> None:
        for message, [accepted] in messages:
            self._adopt(message, accepted)

    def _adopt(self, message: Adopt, accepted: socket.socket) -> None:
        factory = next(iter(self._broker.listeners)).factory
        nonce = message.nonce if message.isGreeted else None
        adoption = Adoption(message.cid, nonce, message.waited, message.isExcess)
        adopt(
            self._street.reactor,
            factory,
            self._broker.readers,
            accepted,
            message.peer,
            message.read,
            adoption,
        )


class TestBrokers:
    """An acceptor in front of two brokers that are one server."""

    pytestmark = POLLED

    def test_session(self, tmp_path: Any) -> None:
        """Clients that came through the acceptor reach others of their account at either broker."""
        street = Street(tmp_path, TWO)
        try:
            street.begin(1, 2)
            places = [_Adopter(street, 1), _Adopter(street, 2)]
            acceptor = Acceptor(street.reactor, places, street.settings, random=Random(1))
            port = street.reactor.listenTCP(0, acceptor, interface="127.0.0.1")
            acceptor.attend(port)
            acceptor.changed()
            address = "127.0.0.1", port.getHost().port
            callers = [Caller(street, 1, address, user=user, **{"pass": user}) for user in "aabb"]
            street.callers += callers
            for caller in callers:
                assert caller.say(b"SUB x 1\r\n") == b""
            assert [sorted(place.connections.values()) for place in places] in (
                [["A", "A"], ["B", "B"]],
                [["B", "B"], ["A", "A"]],
            )
            callers[0].say(b"PUB x 2\r\nhi\r\n")
            assert callers[1].upTo(b"hi\r\n") == b"MSG x 1 2\r\nhi\r\n"
            assert callers[2].say(b"") == b""
            port.stopListening()
            acceptor.close()
        finally:
            street.stop()
