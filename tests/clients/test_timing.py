"""
Deadlines of connections, and slow receivers.
"""

from __future__ import annotations

import pytest

from natsbroker.advisories import SlowConsumer
from natsbroker.config.model import Settings
from natsbroker.connections.peersession import PATIENCE
from natsbroker.wire.grants import Grant
from tests.clients.lines import MIB, msg, pub
from tests.server.support import logLines
from tests.support import QUIET, Doorkeeper, Wire, World, onEach

pytestmark = pytest.mark.usefixtures("implementation")


@onEach
class TestDeadlines:
    """Deadlines of clients."""

    def test_pings(self) -> None:
        """A silent client gets PINGs, and is stale when too many are unanswered."""
        world = World(Settings(ping_interval=10.0, ping_max=2))
        wire = world.client()
        world.advance(2.5)
        assert wire.receive() == b"PING\r\n"
        world.advance(10)
        assert wire.receive() == b"PING\r\n"
        world.advance(9.5)
        assert (wire.receive(), wire.closed) == (b"", "")
        world.advance(0.6)
        assert wire.receive() == b"-ERR 'Stale Connection'\r\n"
        assert wire.closed == "lost"

    def test_pongs(self) -> None:
        """A client that answers PINGs stays connected, and its round trip is measured."""
        world = World(Settings(ping_interval=10.0, ping_max=2))
        wire = world.client()
        for _ in range(6):
            world.advance(10)
            if wire.receive():
                world.advance(0.2)
                wire.send(b"PONG\r\n")
        assert wire.closed == ""
        assert 0.15 < wire.session.roundTrip < 10

    @pytest.mark.parametrize("data", [pub(b"foo", b"x"), b"PING\r\n", b"SUB foo 1\r\n"])
    def test_trafficIsEnough(self, data: bytes) -> None:
        """After the first PING, a client that sends any operation but PONG gets no further PING."""
        world = World(Settings(ping_interval=10.0))
        wire = world.client()
        world.advance(3)
        assert wire.ask(b"PONG\r\n") == b"PING\r\n"
        for _ in range(10):
            world.advance(5)
            assert b"PING" not in wire.ask(data)

    def test_beforeLogin(self) -> None:
        """A client that never sends CONNECT gets a PING too."""
        world = World(Settings(ping_interval=1.0, ping_max=1))
        wire = world.dial()
        wire.receive()
        world.advance(5)
        assert wire.receive() == b"PING\r\n-ERR 'Stale Connection'\r\n"

    def test_expires(self) -> None:
        """A connection is closed when its grant expires."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant(expires=50.0)))
        wire = world.client()
        world.advance(49.9)
        wire.receive()
        assert wire.closed == ""
        world.advance(0.2)
        assert wire.receive() == b"-ERR 'User Authentication Expired'\r\n"

    def test_expiredAlready(self) -> None:
        """A connection whose grant has already expired is closed."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant(expires=50.0)))
        world.clock.advance(100)
        wire = world.dial()
        wire.receive()
        with logLines() as lines:
            wire.send(QUIET)
        assert any("grant has expired already: its expires is in seconds" in line for line in lines)
        world.advance(0.1)
        assert wire.receive() == b"-ERR 'User Authentication Expired'\r\n"

    def test_writeDeadline(self) -> None:
        """
        A client that does not read within the write deadline is disconnected without an error.
        """
        world = World(Settings(write_deadline=3.0))
        wire, other = world.client(), world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.taking = False
        other.ask(pub(b"foo", b"x" * 200_000))
        world.advance(2.9)
        assert wire.closed == ""
        world.advance(0.2)
        assert (wire.receive(), wire.closed) == (b"", "aborted")
        assert wire.session.reason == "Slow Consumer (Write Deadline)"
        assert world.context.connections.slow == {"Slow Consumer (Write Deadline)": 1}

    def test_writeDeadlineAtTheBeginningOfTime(self) -> None:
        """The write deadline applies also if the clock begins at zero."""
        world = World(Settings(write_deadline=3.0))
        wire = world.dial()
        wire.session.writeBlocked()
        world.advance(3.1)
        assert wire.closed == "aborted"

    def test_takesInTime(self) -> None:
        """A client that reads within the write deadline stays connected."""
        world = World(Settings(write_deadline=3.0))
        wire, other = world.client(), world.client()
        wire.ask(b"SUB foo 1\r\n")
        for _ in range(3):
            wire.transport.taking = False
            other.ask(pub(b"foo", b"x" * 200_000))
            world.advance(2)
            wire.transport.taking = True
            assert len(wire.receive()) > 200_000
            world.advance(2)
        assert wire.closed == ""

    def test_nothingIsLeft(self) -> None:
        """When all connections have gone there are no timers."""
        world = World()
        for number in range(5):
            wire = world.client()
            wire.ask(b"SUB foo 1\r\n") if number % 2 else wire.ask(b"FOO\r\n")
            wire.transport.hangUp()
        world.advance(2)
        assert len(world.context.connections) == 0
        assert world.clock.getDelayedCalls() == []


def lagging(world: World, messages: int = 0) -> tuple[Wire, Wire]:
    """
    @return: a receiver that has stopped reading, and a publisher that has sent it some messages of
        600 kB.
    """
    slow, publisher = world.client(), world.client()
    slow.ask(b"SUB foo 1\r\n")
    slow.transport.taking = False
    for _ in range(messages):
        publisher.ask(pub(b"foo", b"x" * 600_000))
    return slow, publisher


@onEach
class TestSlowReceivers:
    """Slow receivers, and their publishers."""

    def test_cut(self) -> None:
        """
        A receiver with too much waiting output is disconnected without an error, and others notice
        nothing.
        """
        world = World(Settings(max_pending=300_000, no_fast_producer_stall=True))
        slow, good, publisher = (world.client() for _ in range(3))
        for client in (slow, good):
            client.ask(b"SUB foo 1\r\n")
        slow.transport.taking = False
        for _ in range(10):
            publisher.ask(pub(b"foo", b"x" * 100_000))
            assert len(good.receive()) > 100_000
        assert (slow.receive(), slow.closed) == (b"", "aborted")
        assert slow.session.reason == "Slow Consumer (Pending Bytes)"
        assert world.context.connections.slow == {"Slow Consumer (Pending Bytes)": 1}
        assert [
            advisory for advisory in world.advisories if isinstance(advisory, SlowConsumer)
        ] == [SlowConsumer(slow.session.cid, 300_000, "Slow Consumer (Pending Bytes)")]
        assert len(world.accounts["$G"]) == 1

    def test_memoryIsBounded(self) -> None:
        """The output that waits for a receiver is at most the limit and the transport's buffer."""
        world = World(Settings(max_pending=300_000, no_fast_producer_stall=True))
        slow, publisher = lagging(world)
        for _ in range(200):
            publisher.ask(pub(b"foo", b"x" * 5000))
            assert slow.session.outbox.pending <= 300_000
            assert slow.transport.waiting <= 80_000

    def test_publisherWaits(self) -> None:
        """
        A publisher is not read from while a receiver of its messages has more than 1 MiB waiting.
        """
        world = World()
        slow, publisher, other = (world.client() for _ in range(3))
        slow.ask(b"SUB foo 1\r\n")
        slow.transport.taking = False
        for _ in range(3):
            publisher.ask(pub(b"foo", b"x" * 600_000))
        assert not publisher.reads()
        assert other.ask(b"PING\r\n" + pub(b"bar", b"x")) == b"PONG\r\n"
        assert other.reads()
        slow.transport.taking = True
        assert len(slow.receive()) > 1_800_000
        assert publisher.reads()
        assert publisher.ask(b"PING\r\n") == b"PONG\r\n"

    def test_patienceEnds(self) -> None:
        """
        A publisher is read from again after a while, and does not wait for the same receiver again.
        """
        world = World()
        slow, publisher = lagging(world, 3)
        world.advance(PATIENCE + 0.05)
        assert publisher.reads()
        assert slow.session.outbox.lagging
        publisher.ask(pub(b"foo", b"x" * 600_000))
        assert publisher.reads()
        assert slow.closed == ""

    def test_waitsAgainForOneThatCaughtUp(self) -> None:
        """A publisher waits again for a receiver that had caught up."""
        world = World()
        slow, publisher = world.client(), world.client()
        slow.ask(b"SUB foo 1\r\n")
        for _ in range(2):
            slow.transport.taking = False
            for _ in range(3):
                publisher.ask(pub(b"foo", b"x" * 600_000))
            assert not publisher.reads()
            world.advance(PATIENCE + 0.05)
            slow.transport.taking = True
            slow.receive()
            assert publisher.reads()

    def test_receiverGoes(self) -> None:
        """A publisher that waits is read from again when the receiver disconnects."""
        world = World()
        slow, publisher = lagging(world, 3)
        slow.transport.hangUp()
        world.settle()
        assert publisher.reads()

    def test_publisherGoes(self) -> None:
        """A publisher that waits may disconnect. The wait then leaves nothing behind."""
        world = World()
        slow, publisher = lagging(world, 3)
        publisher.transport.hangUp()
        world.advance(1)
        assert world.accounts.counts["$G"] == 1
        slow.transport.taking = True
        assert len(slow.receive()) > 1_800_000

    def test_switchedOff(self) -> None:
        """No publisher waits if the settings disable that."""
        world = World(Settings(no_fast_producer_stall=True))
        _, publisher = lagging(world, 4)
        assert publisher.reads()

    def test_nothingIsLost(self) -> None:
        """A receiver that stops reading and resumes gets all messages in order."""
        world = World()
        slow, publisher = world.client(), world.client()
        slow.ask(b"SUB foo 1\r\n")
        got = b""
        for number in range(60):
            slow.transport.taking = number % 3 == 0
            publisher.ask(pub(b"foo", b"%06d" % number * 5000))
            got += slow.receive()
            world.advance(0.2)
        slow.transport.taking = True
        got += slow.receive()
        assert got.replace(b"PING\r\n", b"") == b"".join(
            msg(b"foo", b"1", b"%06d" % number * 5000) for number in range(60)
        )

    def test_itsOwnMessages(self) -> None:
        """A client that reads none of its own messages is made to wait, and later disconnected."""
        world = World(Settings(max_pending=4 * MIB))
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.taking = False
        for _ in range(20):
            wire.ask(pub(b"foo", b"x" * 600_000))
            world.advance(PATIENCE + 0.05)
        assert wire.closed == "aborted"
