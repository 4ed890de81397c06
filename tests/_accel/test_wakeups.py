"""
Work that is postponed is done later: when no socket is ready, no work is left over.

Real sockets, poller, transports and sessions; the order in which they have their turns is chosen by
Hypothesis. Sockets are local ones: what is sent is there at once, so that "ready" is a fact.
"""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from natsbroker.config.model import AuthorizationSettings, Settings
from natsbroker.connections.poller import PolledServer, SocketPoller
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message
from tests.support import COMPILED, Doorkeeper, World, needsCompiled, using

pytestmark = needsCompiled

HELLO = b'CONNECT {"verbose":false,"pedantic":false}\r\n'

#: What a client may send: some of it costs many shares of work, and some is more than sockets hold.
OPERATIONS = {
    "nothing": b"",
    "a message": b"PUB a 3\r\nabc\r\n",
    "a subscription": b"SUB a 1\r\n",
    "its end": b"UNSUB 1\r\n",
    "subscriptions": b"".join(b"SUB a %d\r\n" % number for number in range(300)),
    "patterns": b"".join(b"SUB b.%d %d\r\n" % (number, number) for number in range(1200)),
    "the end of all": b"".join(b"UNSUB %d\r\n" % number for number in range(1200)),
    "messages": b"PUB a 0\r\n\r\n" * 100,
    "a large message": b"PUB a 100000\r\n%b\r\n" % bytes(100_000),
    "long messages": b"PUB b.7 2000\r\n%b\r\n" % bytes(2000) * 60,
    "errors": b"SUB a..b 1\r\n" * 80,
}


class Transport(PolledServer):
    """A transport over a local socket, which has no options of TCP."""

    def setTcpNoDelay(self, enabled: object) -> None:
        """Nothing to do."""


class Reactor(Clock):
    """The time, and whether the poller is read."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[Any] = []

    def addReader(self, reader: Any) -> None:
        """Add a reader."""
        self.readers.append(reader)

    def removeReader(self, reader: Any) -> None:
        """Remove a reader."""
        self.readers.remove(reader)

    def getReaders(self) -> list[Any]:
        """All readers."""
        return self.readers


class Signal:
    """
    A descriptor in the poller that is not a connection. Each signal is published as a message.
    """

    def __init__(self, publish: Callable[[Message], object]) -> None:
        self._publish = publish
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """The descriptor that the poller watches."""
        return self._descriptor

    def doRead(self) -> None:
        """Publish a message."""
        os.eventfd_read(self._descriptor)
        self._publish(Message(b"a", b"signal"))

    def send(self) -> None:
        """Make the descriptor readable."""
        os.eventfd_write(self._descriptor, 1)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class Client:
    """
    The client's end of a connection.

    @ivar asked: how many PINGs the client has sent or will send.
    @ivar answered: how many PONGs the client has received.
    """

    def __init__(self, world: World, poller: SocketPoller, reactor: Reactor, number: int) -> None:
        ours, self._socket = socket.socketpair()
        for end in (ours, self._socket):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        address = IPv4Address("TCP", "127.0.0.1", number)
        protocol: Any = world.factory.buildProtocol(address)
        self.transport = Transport(
            poller, ours, protocol, ("127.0.0.1", number), None, number, reactor
        )
        protocol.makeConnection(self.transport)
        self.session = protocol.session
        self._unsent = bytearray()
        self._tail = b""
        self.asked = self.answered = 0
        self.isOpen = True
        self.isHeard = True

    def say(self, data: bytes) -> None:
        """Send data and a PING after it, as soon as the socket takes them."""
        if self.isHeard and self.isOpen:
            self._unsent += data + b"PING\r\n"
            self.asked += 1

    def push(self, most: int = 1 << 30) -> bool:
        """Send as much as the socket takes, and return whether there was any."""
        begun = len(self._unsent)
        try:
            while self._unsent and most > 0:
                count = self._socket.send(self._unsent[: min(most, 65536)])
                del self._unsent[:count]
                most -= count
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()
        return len(self._unsent) < begun

    def listen(self, most: int = 1 << 30) -> bool:
        """Receive as much as there is, and return whether there was any."""
        begun = most
        try:
            while self.isOpen and most > 0:
                data = self._socket.recv(min(most, 1 << 16))
                if not data:
                    self.close()
                    break
                most -= len(data)
                data = self._tail + data
                self.answered += data.count(b"PONG\r\n")
                self._tail = data[-5:]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
        return most < begun

    def finish(self) -> None:
        """Stop sending after all data was sent."""
        self.push()
        if self.isOpen and not self._unsent:
            self.isHeard = False
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket."""
        self.isOpen = False
        self._unsent.clear()
        self._socket.close()

    def owes(self) -> str:
        """
        The part of the session that waits although no socket is ready; empty if no part waits.
        """
        session, transport = self.session, self.transport
        if session.reason or not transport.connected:
            return ""
        isAsked = session._admission.login is not None
        isStalled = session._stall is not None
        holds = isAsked + isStalled + session._isResting
        if session._holds != holds:
            return f"{session._holds} holds, {holds} reasons"
        if session._isResting and not isStalled:
            return "input rests, and nobody goes on with it"
        if session.outbox.pending and not session.outbox.paused:
            return "output waits, and nobody sends it"
        return ""


class Turns(RuleBasedStateMachine):
    """Clients, and a broker whose turns come in any order."""

    def __init__(self) -> None:
        super().__init__()
        assert COMPILED is not None
        self._using = using(COMPILED)
        self._using.__enter__()
        self.soon: deque[Callable[[], None]] = deque()
        self.logins: list[Deferred[Grant]] = []
        self.areLoginsSlow = False
        limits = Settings(
            write_deadline=1e6, authorization=AuthorizationSettings(timeout=1e6), ping_interval=1e6
        )
        keeper = Doorkeeper(self._grant)
        self.world = World(limits, keeper, schedule=self.soon.append)
        self.world.clock = self.world.context.reactor = self.reactor = Reactor()
        self.poller = SocketPoller(self.reactor, self.world.context.batch)
        self.signal = Signal(self.world.accounts["$G"].busFor(Kind.INTERNAL).publish)
        self.poller.addReader(self.signal)  # type: ignore[arg-type]
        self.clients: list[Client] = []

    def _grant(self, request: object) -> Any:
        if not self.areLoginsSlow:
            return Grant()
        login: Deferred[Grant] = Deferred(lambda deferred: self.logins.remove(deferred))
        self.logins.append(login)
        return login

    def _client(self, number: int) -> Client:
        return self.clients[number % len(self.clients)]

    # What happens outside.

    @rule()
    def connects(self) -> None:
        """One more client connects."""
        if len(self.clients) < 6:
            client = Client(self.world, self.poller, self.reactor, 1 + len(self.clients))
            self.clients.append(client)
            client.say(HELLO)

    @precondition(lambda self: self.clients)
    @rule(
        number=st.integers(0, 5),
        names=st.lists(st.sampled_from(sorted(OPERATIONS)), max_size=3),
        most=st.sampled_from([3, 1000, 1 << 30]),
    )
    def says(self, number: int, names: list[str], most: int) -> None:
        """A client sends some data, now or in part later."""
        client = self._client(number)
        client.say(b"".join(OPERATIONS[name] for name in names))
        client.push(most)

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5), most=st.sampled_from([100, 100_000, 1 << 30]))
    def listens(self, number: int, most: int) -> None:
        """A client receives a part of its input."""
        self._client(number).listen(most)

    @precondition(lambda self: len(self.clients) > 1)
    @rule(number=st.integers(0, 5), isOrderly=st.booleans())
    def leaves(self, number: int, isOrderly: bool) -> None:
        """A client stops sending, or closes the connection."""
        client = self._client(number)
        if isOrderly:
            client.finish()
        else:
            client.close()

    @rule()
    def signals(self) -> None:
        """A descriptor that is no connection is ready."""
        self.signal.send()

    @rule(areSlow=st.booleans())
    def loginsChange(self, areSlow: bool) -> None:
        """The authorizer begins or stops to answer at once."""
        self.areLoginsSlow = areSlow

    @precondition(lambda self: self.logins)
    @rule()
    def answers(self) -> None:
        """The authorizer answers the oldest login."""
        self.logins.pop(0).callback(Grant())

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5))
    def reloads(self, number: int) -> None:
        """The broker reconsiders a client's grant."""
        self._client(number).session.reauthorize()

    # What happens inside.

    def isReady(self) -> bool:
        """Whether the reactor would call the poller."""
        return bool(select.select([self.poller.fileno()], [], [], 0)[0])

    @precondition(isReady)
    @rule()
    def polls(self) -> None:
        """The poller handles what is ready."""
        self.poller.doRead()
        assert not self.poller.trouble

    @precondition(lambda self: self.soon)
    @rule()
    def goesOn(self) -> None:
        """The next call that was asked for soon is made."""
        self.soon.popleft()()

    @rule(seconds=st.sampled_from([0.0, 0.05, 0.11]))
    def timePasses(self, seconds: float) -> None:
        """Some time passes."""
        self.reactor.advance(seconds)

    # What must hold.

    @invariant()
    def nothingIsForgotten(self) -> None:
        """
        While no socket is ready and nothing is scheduled, no client has unfinished work without a
        reason.
        """
        calls = self.reactor.getDelayedCalls()
        if self.soon or any(call.getTime() <= self.reactor.seconds() for call in calls):
            return
        if not self.isReady():
            assert [client.owes() for client in self.clients] == [""] * len(self.clients)

    def teardown(self) -> None:
        """Every PING of a client that stayed connected is answered after everything has run."""
        try:
            self.areLoginsSlow = False
            isMoving = True
            while isMoving:
                isMoving = any([client.push() for client in self.clients])
                isMoving = any([client.listen() for client in self.clients]) or isMoving
                isMoving = isMoving or self.isReady() or bool(self.soon or self.logins)
                self.polls()
                while self.soon:
                    self.goesOn()
                while self.logins:
                    self.answers()
                isStalled = any(client.session._stall is not None for client in self.clients)
                isMoving = isMoving or isStalled
                self.reactor.advance(0.11)
                self.nothingIsForgotten()
            for client in self.clients:
                if client.isOpen:
                    assert client.answered == client.asked
        finally:
            self._end()

    def _end(self) -> None:
        for client in self.clients:
            client.close()
        for _ in range(1000):
            if not any(client.transport.connected for client in self.clients):
                break
            self.polls()
            if self.soon:
                self.goesOn()
            self.reactor.advance(0.5)
        self.poller.removeReader(self.signal)  # type: ignore[arg-type]
        self.signal.close()
        self.poller.close()
        self._using.__exit__(None, None, None)


TestTurns = Turns.TestCase
TestTurns.settings = settings(max_examples=20, stateful_step_count=50, deadline=None)
