"""
A connection with another server.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker import errors
from natsbroker.links.link import traceCame, traceSaid
from natsbroker.wire import ops
from tests.conftest import FlushLoggedErrors
from tests.links.linkpeers import linked
from tests.routes.clusters import Node, everything
from tests.server.support import logLines


class TestKeepalive:
    """A peer that is silent."""

    def test_stale(self) -> None:
        """A silent peer gets PINGs and is then disconnected, and its interest is removed."""
        node = Node(limits=linked(ping_interval=1.0, ping_max=2))
        wire = node.joined()
        wire.send(b"RS+ A foo\r\n")
        node.settle(1.5)
        assert wire.lines() == [b"PING"]
        node.settle(1.0)
        assert wire.lines() == [b"PING"] and node.publish(b"foo") == 1
        node.settle(1.5)
        assert wire.closed == "Stale Connection" and node.publish(b"foo") == 0
        assert wire.lines()[-1] == b"-ERR 'Stale Connection'"

    def test_answers(self) -> None:
        """A peer that answers PINGs stays connected, and its round trip is measured."""
        node = Node(limits=linked(ping_interval=1.0))
        wire = node.joined()
        for _ in range(10):
            node.settle(1.0)
            if b"PING\r\n" in wire.take():
                wire.send(b"PONG\r\n")
        assert not wire.closed and wire.route.roundTrip > 0

    def test_busy(self) -> None:
        """A peer that sends data gets only the first PING, which measures the round trip."""
        node = Node(limits=linked(ping_interval=1.0))
        wire = node.joined()
        pings = 0
        for _ in range(12):
            node.settle(0.5)
            wire.send(b"RS+ A foo\r\nPONG\r\n")
            pings += wire.take().count(b"PING")
        assert pings == 1 and not wire.closed

    def test_halfOpen(self) -> None:
        """
        A peer that neither reads nor sends is disconnected in time, and its interest is removed at
        once.
        """
        node = Node(limits=linked(ping_interval=1.0, ping_max=2))
        wire = node.joined()
        wire.send(b"RS+ A foo\r\n")
        wire.transport.taking = False
        node.settle(4.0)
        assert wire.closed == "Stale Connection"
        assert len(node.buses.accounts["A"]) == 0
        node.settle(2.0)
        assert wire.transport.closed == "aborted" and len(node.cluster) == 0


class TestSlow:
    """A peer that does not read."""

    def test_pending(self) -> None:
        """A link with more pending output than its limit is closed, and its memory is freed."""
        node = Node(limits=linked(max_pending=100_000))
        wire = node.joined()
        wire.send(b"RS+ A foo\r\n")
        wire.transport.taking = False
        with logLines() as lines:
            for _ in range(300):
                node.publish(b"foo", b"x" * 1000)
        assert wire.closed == "Slow Consumer (Pending Bytes)"
        assert wire.route.outbox.pending == 0 and wire.transport.closed == "aborted"
        assert any(
            "Slow Consumer Detected: MaxPending of 100000 Exceeded" in line for line in lines
        )

    def test_deadline(self) -> None:
        """A peer that reads nothing within the write deadline is disconnected."""
        node = Node(limits=linked(write_deadline=2.0, ping_interval=100.0))
        wire = node.joined()
        wire.send(b"RS+ A foo\r\n")
        wire.transport.taking = False
        for _ in range(100):
            node.publish(b"foo", b"x" * 1000)
        node.settle(1.9)
        assert wire.transport.connected
        node.settle(0.3)
        assert wire.closed == "Slow Consumer (Write Deadline)"

    def test_takesSome(self) -> None:
        """
        A peer that reads some output within each write deadline stays connected, and one that reads
        nothing is disconnected.
        """
        node = Node(limits=linked(write_deadline=2.0, ping_interval=100.0))
        route = node.joined().route
        held = [1000]
        route.outbox.write(b"PING\r\n" * 1000)
        node.settle(0)
        route.outbox.pause(lambda: held[0])
        route.writeBlocked()
        for _ in range(5):
            held[0] -= 1
            node.settle(1.9)
        reasons = [route.reason]
        node.settle(4.2)
        assert [*reasons, route.reason] == ["", "Slow Consumer (Write Deadline)"]

    def test_catchesUp(self) -> None:
        """A peer that reads in time gets all output in order."""
        node = Node(limits=linked(write_deadline=2.0, ping_interval=100.0))
        wire = node.joined()
        wire.send(b"RS+ A foo\r\n")
        wire.transport.taking = False
        for number in range(100):
            node.publish(b"foo", b"%03d" % number * 500)
        node.settle(1.0)
        wire.transport.taking = True
        node.settle(3.0)
        assert not wire.closed
        bodies = [line[:3] for line in wire.lines() if line[:1].isdigit()]
        assert bodies == [b"%03d" % number for number in range(100)]

    def test_waits(self) -> None:
        """
        A link is not read from for a while if a receiver of its messages has too much output
        waiting.
        """
        node = Node()
        one, two = node.joined(), node.accepted()
        outbox = two.route.outbox
        outbox.pause()
        one.send(b"PING\r\n")
        outbox.write(b"x" * (2 << 20))
        one.send(b"PING\r\n")
        reading = [one.transport.isReading]
        node.settle(0.5)
        reading.append(one.transport.isReading)
        assert reading == [False, True] and not one.closed


class TestEnd:
    """The end of links."""

    def test_peerFailed(self) -> None:
        """A peer that sends an error is disconnected, and the error is logged on one line."""
        node = Node()
        wire = node.joined()
        with logLines() as lines:
            wire.send(b"-ERR 'what\x1b[2J\x07 ever'\r\n")
        assert wire.closed == "Parse Error"
        (error,) = [line for line in lines if "Route Error" in line]
        assert "\x1b" not in error

    def test_inputEnded(self) -> None:
        """A peer that closes its sending side is disconnected."""
        node = Node()
        wire = node.joined()
        wire.send(b"RS+ A foo\r\n")
        wire.protocol.readConnectionLost()
        assert node.publish(b"foo") == 0 and wire.closed == "Client Closed"

    def test_roll(self) -> None:
        """The registry lists a link until its transport is closed."""
        node = Node()
        wire = node.joined()
        assert node.cluster.everyone() == [wire.route] and "PEER" in node.cluster.members
        wire.route.close(errors.ROUTE_REMOVED)
        assert wire.route.traffic is None
        assert node.cluster.everyone() == [wire.route] and "PEER" not in node.cluster.members
        node.settle()
        assert node.cluster.everyone() == []

    def test_internalFailure(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """An internal error closes the link, and nothing else."""
        node = Node()
        wire, other = node.joined(), node.joined(server_id="P2", server_name="p2")

        def fail(*_: object) -> None:
            raise RuntimeError("a test")

        wire.route.handlers[7] = fail
        with everything() as lines:
            wire.send(b"PING\r\n")
        assert wire.closed == "Internal Client" and not other.closed
        assert any("Internal failure" in line for line in lines)
        assert len(flushLoggedErrors(RuntimeError)) == 1

    def test_inputAfterTheEnd(self) -> None:
        """Input after the end of a link is dropped."""
        node = Node()
        wire = node.joined()
        wire.send(b"FOO\r\nRS+ A foo\r\n")
        wire.send(b"RS+ A foo\r\n")
        assert node.publish(b"foo") == 0


def test_limitsChanged() -> None:
    """Changed limits apply to existing links."""
    node = Node()
    wire = node.joined()
    node.context.settings = linked(ping_interval=1.0, max_control_line=10, max_pending=5000)
    wire.route.limitsChanged()
    node.settle(1.5)
    assert wire.lines() == [b"PING"]
    wire.send(b"RS+ A " + b"x" * 20 + b"\r\n")
    assert wire.lines() == [b"-ERR 'maximum control line exceeded'"]
    assert wire.route.outbox.limit == 5000


def test_trace() -> None:
    """Lines are traced in both directions, as printable text."""
    node = Node()
    node.context.tracing = True
    node.context.maxTraced = 4
    with everything() as lines:
        wire = node.joined()
        wire.send(b"RS+ A foo\r\nRMSG A foo 9\r\n\x1bcanary!!\r\nPING\r\n")
    assert any("<<- [RS+ A foo]" in line for line in lines)
    assert any("->> [PONG]" in line for line in lines)
    assert any("<<- [RMSG foo" in line for line in lines)
    assert not any("canary" in line or "\x1b" in line for line in lines)


@pytest.mark.parametrize(
    ("frame", "longest", "line"),
    [
        ((ops.PING,), 0, "L - <<- [PING]"),
        ((ops.RS_PLUS, b"A foo"), 0, "L - <<- [RS+ A foo]"),
        ((ops.CONNECT, b'{"user":"u","pass":"secret"}'), 0, "[REDACTED]"),
        ((ops.RMSG, b"foo", b"", 0, b"payload"), 0, "L - <<- [RMSG foo payload]"),
        ((ops.RMSG, b"foo", b"", 0, b"payload"), 4, "L - <<- [RMSG foo payl]"),
        ((ops.INFO, b'{"server_id":"X"}'), 4, "server_id"),
    ],
)
def test_came(frame: tuple[Any, ...], longest: int, line: str) -> None:
    """
    A received frame is traced as on the wire, with its payload truncated and without passwords.
    """
    with everything() as said:
        traceCame("L", frame, longest)
    assert len(said) == 1 and line in said[0]
    assert "secret" not in said[0]


def test_noOperation() -> None:
    """A line without a known operation is not traced."""
    with everything() as said:
        traceCame("L", (ops.FAULT, b"x"), 0)
    assert said == []


def test_said() -> None:
    """A sent line is traced with the other arrow, and without its line end."""
    with everything() as said:
        traceSaid("L", b"RS+ A foo\r\n")
    assert said == ["L - ->> [RS+ A foo]"]
