"""
The beginning and the end of a connection.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker import errors
from natsbroker.advisories import (
    ClientDisconnected,
)
from natsbroker.config.model import Settings
from natsbroker.wire.values import Kind, Message
from tests.clients.lines import info, msg, pub
from tests.conftest import FlushLoggedErrors
from tests.support import (
    BatchRecorder,
    Doorkeeper,
    Recorder,
    World,
    onEach,
)

pytestmark = pytest.mark.usefixtures("implementation")


@onEach
class TestGreeting:
    """The first bytes."""

    def test_info(self) -> None:
        """A client is greeted with INFO, which names its connection."""
        world = World()
        fields = info(world.dial("10.0.0.7").receive())
        assert (fields["client_id"], fields["client_ip"]) == (1, "10.0.0.7")
        assert "nonce" not in fields and "auth_required" not in fields
        assert info(world.dial().receive())["client_id"] == 2

    def test_nonce(self) -> None:
        """If a signature is required, each INFO has a new nonce of 15 characters."""
        world = World(authorizer=Doorkeeper(required=True, nonce=True))
        letters = iter((b"a", b"b"))
        world.context.nonceBytes = lambda count: next(letters) * count
        nonces = [info(world.dial().receive())["nonce"] for _ in range(2)]
        assert [len(nonce) for nonce in nonces] == [15, 15]
        assert nonces[0] != nonces[1]

    def test_oneTooMany(self) -> None:
        """
        A connection beyond the limit gets INFO and an error, and is closed. Later there is room
        again.
        """
        world = World(Settings(max_connections=2))
        wires = [world.client() for _ in range(2)]
        third = world.dial()
        greeting, _, rest = third.receive().partition(b"\r\n")
        assert info(greeting + b"\r\n")["client_id"] == 3
        assert rest == b"-ERR 'maximum connections exceeded'\r\n"
        assert third.closed == "lost"
        wires[0].transport.hangUp()
        world.settle()
        assert world.client().ask(b"PING\r\n") == b"PONG\r\n"

    def test_withoutLimit(self) -> None:
        """A connection limit of zero means no limit."""
        world = World(Settings(max_connections=0))
        assert all(world.client().ask(b"PING\r\n") == b"PONG\r\n" for _ in range(10))


@onEach
class TestTheEnd:
    """The end of connections."""

    def test_errorAndClose(self) -> None:
        """A violation is answered after all earlier output, and the connection is closed."""
        world = World()
        wire = world.client()
        answer = wire.ask(b"SUB foo 1\r\n" + pub(b"foo", b"x") + b"FOO\r\n" + pub(b"foo", b"y"))
        assert answer == msg(b"foo", b"1", b"x") + b"-ERR 'Unknown Protocol Operation'\r\n"
        assert wire.closed == "lost"
        assert wire.session.reason == "Protocol Violation"

    def test_silentClose(self) -> None:
        """A violation for which nats-server closes without an error has no error here."""
        wire = World().client()
        assert (wire.ask(b"SUB foo\r\n"), wire.closed) == (b"", "lost")

    def test_nothingAfterwards(self) -> None:
        """A connection that is being closed gets no more messages, and its input is dropped."""
        world = World()
        wire, other = world.client(), world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.taking = False
        wire.send(b"FOO\r\n")
        other.ask(pub(b"foo", b"x"))
        for _ in range(10):
            wire.protocol.dataReceived(b"x" * 10_000)
        assert wire.session.decoder.pending == 0
        wire.transport.taking = True
        assert wire.receive() == b"-ERR 'Unknown Protocol Operation'\r\n"

    def test_linger(self) -> None:
        """
        A connection that is being closed is aborted after a second if its peer does not read the
        rest.
        """
        world = World()
        wire = world.client()
        wire.transport.taking = False
        wire.send(b"FOO\r\n")
        world.advance(0.9)
        assert wire.closed == ""
        world.advance(0.2)
        assert wire.closed == "aborted"
        assert world.clock.getDelayedCalls() == []

    def test_waitingOutputIsSent(self) -> None:
        """Waiting output of a connection that is being closed is sent if the peer reads again."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.taking = False
        for _ in range(3):
            wire.ask(pub(b"foo", b"x" * 100_000))
        wire.send(b"FOO\r\n")
        world.advance(0.5)
        wire.transport.taking = True
        got = wire.receive()
        assert got == msg(b"foo", b"1", b"x" * 100_000) * 3 + (
            b"-ERR 'Unknown Protocol Operation'\r\n"
        )
        assert wire.closed == "lost"

    def test_disconnected(self) -> None:
        """When a client disconnects, its subscriptions end and the connection counts as closed."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\nSUB bar q 2\r\n" + pub(b"foo", b"xyz"))
        assert (len(world.accounts["$G"]), len(world.context.connections)) == (2, 1)
        wire.transport.hangUp()
        world.settle()
        assert (len(world.accounts["$G"]), len(world.context.connections)) == (0, 0)
        assert world.accounts.counts["$G"] == 0
        assert world.context.connections.closedTraffic == [1, 3, 1, 3]
        [closed] = world.context.connections.closed
        assert (closed.reason, closed.facts.subscriptions) == ("Client Closed", 2)
        assert world.advisories[-1] == ClientDisconnected(1, "$G", "", "Client Closed")

    def test_disconnectedByServer(self) -> None:
        """
        A client that is closed for a violation is recorded with the reason and its subscriptions.
        """
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\nFOO\r\n")
        [closed] = world.context.connections.closed
        assert (closed.reason, closed.facts.subscriptions) == ("Protocol Violation", 1)
        assert world.advisories[-1] == ClientDisconnected(1, "$G", "", "Protocol Violation")

    def test_closedByTheServer(self) -> None:
        """The server may close a connection more than once, and the first reason counts."""
        wire = World().client()
        wire.session.close(errors.AUTH_REVOKED)
        wire.session.close(errors.STALE)
        assert wire.receive() == b"-ERR 'User Authentication Revoked'\r\n"
        assert wire.session.reason == "Credentials Revoked"

    def test_subscriberOfAnotherKindFails(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """
        A service that raises an exception while it gets a message does not affect the publisher.
        """
        world = World()

        def fail(message: Message) -> None:
            raise ZeroDivisionError("as expected")

        world.accounts["$G"].busFor(Kind.INTERNAL).subscribe(b"foo", Recorder(fail))
        wire = world.client()
        wire.ask(pub(b"foo", b"x"))
        assert len(flushLoggedErrors(ZeroDivisionError)) == 1

    def test_batchFails(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """
        A service that raises an exception at the end of a turn harms neither the client nor other
        services.
        """

        class Broken(BatchRecorder):
            def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
                raise ZeroDivisionError("as expected")

        world = World()
        bus = world.accounts["$G"].busFor(Kind.INTERNAL)
        after = BatchRecorder()
        for subject, service in [(b"foo", Broken()), (b"bar", after)]:
            bus.subscribe(subject, service)
        wire = world.client()
        wire.send(pub(b"foo", b"x") + pub(b"bar", b"y"))
        world.settle()
        assert after.batches == [[b"y"]]
        assert wire.ask(b"PING\r\n") == b"PONG\r\n"
        assert len(flushLoggedErrors(ZeroDivisionError)) == 1
