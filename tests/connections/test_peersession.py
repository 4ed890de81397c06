"""
The effects of a peer's input within one turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock

from natsbroker import errors, hot
from natsbroker.config.model import Settings
from natsbroker.connections.peersession import PATIENCE, PeerSession, Stall
from natsbroker.pure.backlog import SHARE
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from tests.conftest import FlushLoggedErrors
from tests.server.support import logLines
from tests.support import QUIET, Doorkeeper, Names, World, onEach, using

#: Says hello without wanting its own messages back.
SILENT = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'

#: How many shares a turn may use: it ends with its last operation, which may look for the receivers
#: of one subject.
SLACK = 4


class Owner:
    """The owner of an outbox."""

    def outboxOverflowed(self) -> None:
        """Unused by these tests."""

    def outboxFailed(self) -> None:
        """Unused by these tests."""


class Taker(PeerSession):
    """
    A session without a protocol.

    @ivar closed: the reasons for which it was closed.
    @ivar waited: the outboxes that it had to wait for.
    @ivar written: the output that was sent.
    """

    def __init__(self) -> None:
        self._useBatch(hot.FlushBatch(lambda call: None))
        self.closed: list[str] = []
        self.waited: list[Any] = []
        self.written: list[bytes] = []
        self.outbox = hot.Outbox(self._batch, Owner(), self.written.append, 64 << 20)

    def proceed(self) -> None:
        pass

    def inputEnded(self) -> None:
        pass

    def say(self, line: bytes) -> None:
        pass

    def _handshakeLate(self) -> None:
        pass

    def _closing(self, error: errors.WireError) -> None:
        pass

    def _gone(self) -> None:
        pass

    def _setReading(self, isWanted: bool) -> None:
        pass

    def close(self, error: errors.WireError, *arguments: str, abort: bool = False) -> None:
        self.closed.append(error.reason)

    def _waitFor(self, outbox: hot.Outbox) -> None:
        self.waited.append(outbox)

    def take(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call a function as input of the session."""
        self._inBatch(call, *arguments)

    def atEnd(self, call: Callable[[], None]) -> None:
        """Call a function at the end of the turn."""
        self._batch.atEnd(call)

    def __str__(self) -> str:
        return "somebody"


def fail() -> None:
    """Raise an exception."""
    raise RuntimeError("a test")


def test_turn() -> None:
    """The output of a turn is sent together, at the end of the turn."""
    taker = Taker()

    def call(*words: bytes) -> None:
        for word in words:
            taker.outbox.write(word)
        assert taker.written == []

    taker.take(call, b"a", b"b")
    assert b"".join(taker.written) == b"ab"
    assert (taker.closed, taker.waited) == ([], [])


def test_congested() -> None:
    """
    A session that writes to an outbox with much waiting output must wait for the outbox, once.
    """
    taker = Taker()
    taker.outbox.pause()
    taker.take(taker.outbox.write, b"x" * (2 << 20))
    taker.take(lambda: None)
    assert taker.waited == [taker.outbox]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_exits(error: type[BaseException], flushLoggedErrors: FlushLoggedErrors) -> None:
    """An exception that is meant to end the process ends only the connection and the turn."""
    taker = Taker()

    def call() -> None:
        raise error

    taker.take(call)
    assert taker.closed == ["Internal Client"]
    assert len(flushLoggedErrors(error)) == 1
    taker.take(taker.outbox.write, b"a")
    assert taker.written == [b"a"]


def test_outboxFailed() -> None:
    """A connection whose outbox raises an exception while it sends is closed."""
    taker = Taker()
    taker.outboxFailed()
    assert taker.closed == ["Internal Client"]


def test_failure(flushLoggedErrors: FlushLoggedErrors) -> None:
    """An exception closes the session, and earlier output is sent."""
    taker = Taker()

    def call() -> None:
        taker.outbox.write(b"a")
        fail()

    with logLines() as lines:
        taker.take(call)
    assert (taker.closed, taker.written) == (["Internal Client"], [b"a"])
    assert lines[0] == "[FTL] somebody - Internal failure"
    assert len(flushLoggedErrors(RuntimeError)) == 1


def test_failureAtEnd(flushLoggedErrors: FlushLoggedErrors) -> None:
    """An exception at the end of a turn is logged."""
    taker = Taker()
    with logLines() as lines:
        taker.take(taker.atEnd, fail)
    assert taker.closed == []
    assert lines[0] == "[FTL] somebody - Cannot finish the work of its input"
    assert len(flushLoggedErrors(RuntimeError)) == 1


def publishes(count: int, subject: bytes = b"e") -> bytes:
    """That many messages without a payload."""
    return b"PUB %b 0\r\n\r\n" % subject * count


def subscriptions(count: int, form: bytes) -> bytes:
    """That many lines of the same form, in which C{#} stands for the number."""
    return b"".join(form.replace(b"#", b"%d" % number) for number in range(count))


#: What costs far more than a share: what is subscribed to first, what is sent then, and whether
#: the sender has its own messages back.
FLOODS = [
    pytest.param(subscriptions(1500, b"SUB e #\r\n"), publishes(60), True, id="fan-out"),
    pytest.param(subscriptions(5000, b"SUB e #\r\n"), publishes(60), False, id="echo off"),
    pytest.param(subscriptions(800, b"SUB e g# #\r\n"), publishes(100), True, id="groups"),
    pytest.param(b"", b"SUB a..b 1\r\n" * 2000, True, id="errors"),
    pytest.param(b"", subscriptions(5000, b"SUB e.# #\r\n"), True, id="subscriptions"),
    pytest.param(
        subscriptions(5000, b"SUB e.# #\r\n"),
        subscriptions(5000, b"UNSUB #\r\n"),
        True,
        id="unsubscriptions",
    ),
]


class Room(World):
    """A world whose turns wait until the test starts them, one round at a time."""

    def __init__(
        self,
        fastLane: bool,
        limits: Settings | None = None,
        authorizer: Doorkeeper | None = None,
    ) -> None:
        self.soon: list[Callable[[], None]] = []
        super().__init__(limits, authorizer, fastLane=fastLane, schedule=self.soon.append)

    @property
    def work(self) -> int:
        """The counted work so far."""
        return int(self.context.batch.work)

    def round(self) -> None:
        """Run all waiting calls once."""
        before = self.work
        calls, self.soon[:] = list(self.soon), []
        for call in calls:
            call()
        assert self.work - before < SLACK * SHARE

    def finish(self) -> int:
        """
        Run rounds until no call waits.

        @return: the number of rounds.
        """
        rounds = 0
        while self.soon:
            self.round()
            rounds += 1
        return rounds


@pytest.mark.slow
@onEach
@pytest.mark.parametrize("fastLane", [True, False], ids=["lane", "readable"])
class TestShares:
    """A client's share of work in a turn, for which others do not wait."""

    @pytest.mark.parametrize(("first", "flood", "echo"), FLOODS)
    def test_otherClientsAreServedBetweenShares(
        self, names: Names, fastLane: bool, first: bytes, flood: bytes, echo: bool
    ) -> None:
        """
        A turn of one client ends with its share, another client is answered at once, and nothing is
        lost.
        """
        with using(names):
            room = Room(fastLane)
            noisy, other = room.client(QUIET if echo else SILENT), room.client()
            noisy.send(first)
            room.finish()
            before = room.work
            noisy.send(flood + b"PING\r\n")
            assert room.work - before < SLACK * SHARE
            assert not noisy.reads()
            got, rounds = b"", 0
            while room.soon:
                assert other.ask(b"PING\r\n") == b"PONG\r\n"
                room.round()
                got += noisy.receive()
                rounds += 1
            assert rounds > 1
            assert noisy.reads()
            lines = got.splitlines()
            assert lines.pop() == b"PONG"
            if b"PUB" in flood and echo:
                assert got.count(b"MSG e ") == first.count(b"\n") * flood.count(b"PUB")
            else:
                assert lines == [b"-ERR 'Invalid Subject'"] * flood.count(b"..")

    def test_oneMessage(self, names: Names, fastLane: bool) -> None:
        """
        A message to many receivers is delivered in several turns, and each receiver gets messages
        in order.
        """
        with using(names):
            room = Room(fastLane)
            noisy, other = room.client(), room.client()
            other.send(subscriptions(40000, b"SUB e #\r\n"))
            room.finish()
            noisy.send(b"PUB e 1\r\n1\r\nPUB e 1\r\n2\r\n")
            got = other.receive()
            assert got.count(b"MSG e ") < 40000
            other.send(b"UNSUB 39999\r\n")
            while room.soon:
                room.round()
                got += other.receive()
            assert (got.count(b" 1\r\n1\r\n"), got.count(b" 1\r\n2\r\n")) == (39999, 39999)
            assert got.rindex(b"\r\n1\r\n") < got.index(b"\r\n2\r\n")

    def test_laneIsLeft(self, names: Names, fastLane: bool) -> None:
        """
        A message that is being delivered reaches each receiver once if its publisher leaves the
        lane.
        """
        with using(names):
            room = Room(fastLane)
            noisy, other = room.client(), room.client()
            other.send(subscriptions(40000, b"SUB e #\r\n"))
            room.finish()
            noisy.send(b"PUB e 1\r\n1\r\n")
            noisy.session.limitsChanged()
            room.finish()
            assert other.receive().count(b"MSG e ") == 40000

    def test_requests(self, names: Names, fastLane: bool) -> None:
        """A request has no responders only after all of many receivers were tried."""
        with using(names):
            room = Room(fastLane)
            noisy = room.client(
                b'CONNECT {"verbose":false,"echo":false,"headers":true,"no_responders":true}\r\n'
            )
            noisy.send(b"SUB r 1\r\n" + subscriptions(40000, b"SUB e 2#\r\n"))
            room.finish()
            noisy.send(b"PUB e r 0\r\n\r\n")
            room.finish()
            assert noisy.receive().startswith(b"HMSG r 1 ")

    def test_theEnd(self, names: Names, fastLane: bool) -> None:
        """
        Input that was read before a client disconnected is published, and its subscriptions end in
        several turns.
        """
        with using(names):
            room = Room(fastLane)
            noisy, other = room.client(SILENT), room.client()
            other.send(b"SUB last 1\r\n")
            noisy.send(subscriptions(5000, b"SUB e #\r\n"))
            room.finish()
            noisy.send(publishes(60) + b"PUB last 0\r\n\r\n")
            noisy.protocol.connectionLost()
            assert len(room.context.connections) == 2
            assert room.finish() > 1
            assert other.receive() == b"MSG last 1 0\r\n\r\n"
            assert len(room.context.connections) == 1
            assert len(list(room.accounts["$G"].subscriptions())) == 1

    def test_permissions(self, names: Names, fastLane: bool) -> None:
        """
        New permissions are applied to many subscriptions in several turns, and the last permissions
        apply.
        """
        with using(names):
            allowed = [b">"]
            keeper = Doorkeeper(lambda hello: Grant(subscribe=SubscribePermissions(allowed)))
            room = Room(fastLane, authorizer=keeper)
            noisy, other = room.client(), room.client()
            noisy.send(
                subscriptions(4000, b"SUB a.# a#\r\n") + subscriptions(2000, b"SUB b.# b#\r\n")
            )
            room.finish()
            noisy.receive()
            for allowed[0] in (b"a.*", b">", b"b.*"):
                before = room.work
                noisy.session.reauthorize()
                assert room.work - before < SLACK * SHARE
            assert other.ask(b"PING\r\n") == b"PONG\r\n"
            assert room.finish() > 1
            left = {
                subscription.pattern[:2] for subscription in room.accounts["$G"].subscriptions()
            }
            assert left == {b"b."}
            assert (
                noisy.receive().count(b"-ERR 'Permissions Violation for Subscription to \"a.")
                == 4000
            )

    def test_closed(self, names: Names, fastLane: bool) -> None:
        """
        A connection whose outbox overflows gets no more messages before its subscriptions have
        ended.
        """
        with using(names):
            room = Room(fastLane, Settings(max_pending=2000))
            noisy, other = room.client(), room.client()
            noisy.send(subscriptions(5000, b"SUB e #\r\n"))
            room.finish()
            noisy.receive()
            noisy.transport.taking = False
            noisy.send(b"PING\r\n")
            other.send(publishes(1))
            room.finish()
            assert noisy.closed
            matches = room.accounts["$G"].matcher.match(b"e")
            assert matches.plain == ()


class Slow:
    """A receiver that has stopped reading, and a publisher that waits for the receiver."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.events: list[str] = []
        batch = hot.FlushBatch(lambda call: self.clock.callLater(0, call))
        self.outbox: Any = hot.Outbox(batch, self, lambda data: None, 1 << 30)
        self.outbox.pause()
        self.outbox.write(b"x" * (hot.FlushBatch.HIGH + 1))
        self.clock.advance(0)
        self.stall = Stall(self.clock, self.outbox, lambda: self.events.append("resumed"))

    def outboxOverflowed(self) -> None:
        """Record the call."""
        self.events.append("overflowed")

    def outboxFailed(self) -> None:
        """Record the call."""
        self.events.append("failed")


@onEach
class TestStall:
    """A publisher that waits for a slow receiver."""

    def test_relief(self, names: Names) -> None:
        """The publisher resumes when the receiver has caught up."""
        with using(names):
            slow = Slow()
            slow.clock.advance(PATIENCE / 2)
            assert slow.events == []
            slow.outbox.resume()
            assert slow.events == ["resumed"]
            assert not slow.outbox.lagging
            assert slow.clock.getDelayedCalls() == []

    def test_patienceEnds(self, names: Names) -> None:
        """
        The publisher resumes after a while, and no publisher waits for that receiver any more.
        """
        with using(names):
            slow = Slow()
            slow.clock.advance(PATIENCE)
            assert slow.events == ["resumed"]
            assert slow.outbox.lagging

    def test_lateRelief(self, names: Names) -> None:
        """
        Publishers may wait again for a receiver that has caught up late, and the first publisher is
        not called again.
        """
        with using(names):
            slow = Slow()
            slow.clock.advance(PATIENCE)
            slow.outbox.resume()
            assert slow.events == ["resumed"]
            assert not slow.outbox.lagging

    def test_receiverGone(self, names: Names) -> None:
        """The publisher resumes when the receiver has disconnected."""
        with using(names):
            slow = Slow()
            slow.outbox.close()
            assert slow.events == ["resumed"]
            assert slow.clock.getDelayedCalls() == []

    def test_ended(self, names: Names) -> None:
        """A wait that is ended resumes the publisher once and leaves no timer."""
        with using(names):
            slow = Slow()
            slow.stall.end()
            slow.stall.end()
            assert slow.clock.getDelayedCalls() == []
            slow.outbox.resume()
            assert slow.events == ["resumed"]
