"""
The client, against a broker in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from twisted.internet.defer import CancelledError

from natsbroker import errors
from natsbroker.client.client import Client
from natsbroker.client.connecting import connectInProcess
from natsbroker.client.errors import ClientError, ConnectionEnded
from natsbroker.client.options import ConnectOptions
from natsbroker.errors import NoResponders, RequestTimeout
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.headers import Headers
from natsbroker.wire.values import Kind, Message
from tests.conftest import FlushLoggedErrors
from tests.support import Recorder


class Room:
    """
    A broker in memory with clients.
    """

    def __init__(self, configText: str = "") -> None:
        self.broker = MemoryBroker(configText=configText + "\nmax_payload: 1000\n")
        self.errors: list[str] = []

    def settle(self) -> None:
        """Let all calls that are due happen."""
        self.broker.advance(0)

    @property
    def subscriptions(self) -> int:
        """The number of the clients' subscriptions."""
        account = self.broker.broker.accounts["$G"]
        return sum(subscription.kind == Kind.CLIENT for subscription in account.subscriptions())

    def client(self, **options: Any) -> Client:
        """A connected client."""
        outcome: list[Any] = []
        connecting = connectInProcess(
            self.broker.broker, ConnectOptions(**options), onError=self.errors.append
        )
        connecting.addBoth(outcome.append)
        self.settle()
        [client] = outcome
        assert isinstance(client, Client)
        return client

    def result(self, deferred: Any) -> Any:
        """The result of a Deferred; the exception if it fails."""
        outcome: list[Any] = []
        deferred.addBoth(outcome.append)
        self.settle()
        assert outcome, "it did not fire"
        return getattr(outcome[0], "value", outcome[0])


@pytest.fixture
def room() -> Iterator[Room]:
    """A broker that is stopped afterwards."""
    made = Room()
    yield made
    made.broker.stop()
    assert made.broker.reactor.getDelayedCalls() == []


class TestMessages:
    """Publishing and subscribing."""

    def test_bothWays(self, room: Room) -> None:
        """A message published by one client reaches another's callback, with reply and headers."""
        one, two = room.client(), room.client()
        got: list[Message] = []
        subscription = one.subscribe(b"foo.*", got.append)
        room.settle()
        two.publish(b"foo.bar", b"hi", b"answer.here", Headers({"A": "b"}))
        two.publish(b"foo.baz")
        room.settle()
        assert [message.subject for message in got] == [b"foo.bar", b"foo.baz"]
        assert (got[0].payload, got[0].reply) == (b"hi", b"answer.here")
        assert Headers.fromBlock(got[0].headers).items() == [("A", "b")]
        assert (got[1].payload, got[1].headers) == (b"", b"")
        assert (subscription.pattern, subscription.delivered) == (b"foo.*", 2)

    def test_queueGroups(self, room: Room) -> None:
        """One member of a queue group gets each message."""
        members = [room.client() for _ in range(3)]
        got: list[list[Message]] = [[] for _ in members]
        for member, list_ in zip(members, got, strict=True):
            assert member.subscribe(b"foo", list_.append, b"q").queue == b"q"
        room.settle()
        for _ in range(30):
            members[0].publish(b"foo")
        room.settle()
        assert sum(map(len, got)) == 30

    def test_cancel(self, room: Room) -> None:
        """A cancelled subscription gets no more messages, not even those in flight."""
        client = room.client()
        got: list[Message] = []
        subscription = client.subscribe(b"foo", got.append)
        client.publish(b"foo", b"1")
        room.settle()
        client.publish(b"foo", b"2")
        subscription.cancel()
        subscription.cancel()
        room.settle()
        assert [message.payload for message in got] == [b"1"]
        assert room.subscriptions == 0

    @pytest.mark.parametrize(
        ("before", "count", "gets"), [(0, 2, 2), (1, 3, 3), (2, 2, 2), (3, 1, 3)]
    )
    def test_cancelAfter(self, room: Room, before: int, count: int, gets: int) -> None:
        """A maximum includes the messages that are already delivered."""
        client = room.client()
        got: list[Message] = []
        subscription = client.subscribe(b"foo", got.append)
        for _ in range(before):
            client.publish(b"foo")
        room.settle()
        subscription.cancelAfter(count)
        for _ in range(5):
            client.publish(b"foo")
        room.settle()
        assert len(got) == gets
        assert room.subscriptions == 0

    def test_echo(self, room: Room) -> None:
        """A client without echo receives only messages of other clients."""
        client = room.client(echo=False)
        got: list[Message] = []
        client.subscribe(b"foo", got.append)
        client.publish(b"foo", b"mine")
        room.client().publish(b"foo", b"theirs")
        room.settle()
        assert [message.payload for message in got] == [b"theirs"]

    def test_callbackFails(self, room: Room, flushLoggedErrors: FlushLoggedErrors) -> None:
        """
        A callback that raises an exception is logged. It is called again for the next message.
        """
        client = room.client()
        calls: list[Message] = []

        def fail(message: Message) -> None:
            calls.append(message)
            raise ZeroDivisionError("as expected")

        client.subscribe(b"foo", fail)
        client.publish(b"foo")
        client.publish(b"foo")
        room.settle()
        assert len(calls) == len(flushLoggedErrors(ZeroDivisionError)) == 2

    def test_refusedByClient(self, room: Room) -> None:
        """
        A publish that is too large, or would break the protocol, raises an error, and nothing is
        sent.
        """
        client = room.client()
        for subject in (b"", b"a b", b"a\r\nPING", b"a.*"):
            with pytest.raises(ValueError):
                client.publish(subject)
        with pytest.raises(ValueError):
            client.publish(b"a", reply=b"b c")
        with pytest.raises(ValueError):
            client.subscribe(b"a..b", print)
        with pytest.raises(ValueError):
            client.subscribe(b"a", print, b"q q")
        with pytest.raises(ValueError, match="1001 bytes"):
            client.publish(b"a", b"x" * 1001)
        client.publish(b"a", b"x" * 1000)
        assert room.result(client.flush()) is None

    def test_refusedByServer(self, room: Room) -> None:
        """An error of the server is passed to the callback."""
        client = room.client()
        client.publish(b"$GR.x")
        room.settle()
        assert room.errors == ['Permissions Violation for Publish to "$GR.x"']
        assert client.isOpen


class TestRequests:
    """Requests and answers."""

    def test_ownAnswer(self, room: Room) -> None:
        """Each request gets its own answer, over one subscription."""
        asker, answerer = room.client(), room.client()
        answerer.subscribe(b"double", lambda m: answerer.publish(m.reply, m.payload * 2))
        room.settle()
        asking = [asker.request(b"double", b"%d" % number) for number in range(5)]
        answers = [room.result(deferred).payload for deferred in asking]
        assert answers == [b"00", b"11", b"22", b"33", b"44"]
        assert room.subscriptions == 2

    def test_headers(self, room: Room) -> None:
        """A request may have headers."""
        client = room.client()
        got: list[Message] = []
        client.subscribe(b"ask", got.append)
        client.request(b"ask", headers=Headers({"A": "1"}), timeout=0.1).addErrback(lambda _: None)
        room.broker.advance(0.2)
        assert Headers.fromBlock(got[0].headers).get("A") == "1"

    def test_service(self, room: Room) -> None:
        """A service inside the broker answers requests of a client."""
        bus = room.broker.bus()
        service = Recorder(lambda message: bus.publish(Message(message.reply, b"from inside")))
        bus.subscribe(b"ask", service)
        assert room.result(room.client().request(b"ask")).payload == b"from inside"

    def test_noResponders(self, room: Room) -> None:
        """A request without responders fails at once."""
        error = room.result(room.client().request(b"no.one"))
        assert isinstance(error, NoResponders)
        assert error.subject == b"no.one"

    def test_timeout(self, room: Room) -> None:
        """A request without an answer fails at the timeout, and a late answer is dropped."""
        client = room.client()
        got: list[Message] = []
        client.subscribe(b"ask", got.append)
        asking = client.request(b"ask", timeout=3.0)
        room.broker.advance(3.1)
        assert isinstance(room.result(asking), RequestTimeout)
        client.publish(got[0].reply, b"late")
        room.settle()

    def test_cancelled(self, room: Room) -> None:
        """A request can be cancelled."""
        client = room.client()
        client.subscribe(b"ask", lambda message: None)
        asking = client.request(b"ask")
        asking.cancel()
        assert isinstance(room.result(asking), CancelledError)

    def test_connectionEnds(self, room: Room) -> None:
        """When the connection ends, all pending requests and flushes fail."""
        client = room.client()
        client.subscribe(b"ask", lambda message: None)
        room.settle()
        waiting = [client.request(b"ask"), client.flush()]
        client.close()
        for deferred in waiting:
            assert isinstance(room.result(deferred), ConnectionEnded)


class TestTheEnd:
    """Flushing, draining and closing."""

    def test_flush(self, room: Room) -> None:
        """
        A flush fires when the server has handled all earlier lines, and several flushes fire in
        order.
        """
        client = room.client()
        order: list[int] = []
        for number in range(3):
            client.flush().addCallback(partial(lambda number, _: order.append(number), number))
        assert order == []
        room.settle()
        assert order == [0, 1, 2]

    def test_close(self, room: Room) -> None:
        """Closing sends the waiting bytes, and fires when the connection has closed."""
        client, other = room.client(), room.client()
        got: list[Message] = []
        other.subscribe(b"foo", got.append)
        room.settle()
        client.publish(b"foo", b"last")
        assert isinstance(room.result(client.close()), ConnectionEnded)
        assert [message.payload for message in got] == [b"last"]
        assert not client.isOpen
        for use in (
            lambda: client.publish(b"foo"),
            lambda: client.subscribe(b"a", print),
            client.flush,
        ):
            with pytest.raises(ConnectionEnded):
                use()
        assert isinstance(room.result(client.whenClosed()), ConnectionEnded)

    def test_drain(self, room: Room) -> None:
        """Draining delivers messages in flight, answers included, and then closes."""
        client, other = room.client(), room.client()
        answers: list[Message] = []
        other.subscribe(b"answers", answers.append)
        client.subscribe(b"foo", lambda message: client.publish(b"answers", message.payload))
        room.settle()
        for number in range(5):
            other.publish(b"foo", b"%d" % number)
        closed = client.drain()
        assert isinstance(room.result(closed), ConnectionEnded)
        room.settle()
        assert [message.payload for message in answers] == [b"0", b"1", b"2", b"3", b"4"]
        assert room.subscriptions == 1

    def test_serverCloses(self, room: Room) -> None:
        """
        When the server closes the connection, waiting for the end yields the server's last error.
        """
        client = room.client()
        closed = [client.whenClosed(), client.whenClosed()]
        [session] = list[Any](room.broker.broker.clientContext.connections)
        session.close(errors.AUTH_REVOKED)
        for deferred in closed:
            assert str(room.result(deferred)) == "User Authentication Revoked"

    def test_connectingTwice(self, room: Room) -> None:
        """The attempt to connect can be read only once."""
        client = room.client()
        with pytest.raises(ClientError):
            assert client.connecting

    def test_cancelledAfterTheEnd(self, room: Room) -> None:
        """A subscription can be cancelled after its connection has ended."""
        client = room.client()
        subscription = client.subscribe(b"foo", print)
        room.result(client.close())
        subscription.cancel()
        assert not client.isOpen
