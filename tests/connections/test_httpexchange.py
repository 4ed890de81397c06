"""
Tests of L{natsbroker.connections.httpexchange}.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as Late
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure as UntypedFailure
from twisted.web.http import PotentialDataLoss

from natsbroker.connections.httpexchange import AnswerTooLong, exchange
from tests.auth.agents import FakeAgent

Failure: Any = UntypedFailure


class World:
    """
    A single request.

    @ivar outcome: its result.
    """

    def __init__(self, **arguments: Any) -> None:
        self.agent, self.clock = FakeAgent(), Clock()
        self.outcome: list[Any] = []
        given = {"timeout": 5.0, "longest": 10, **arguments}
        self.asking: Deferred[Any] = exchange(self.agent, self.clock, "http://x/y", **given)
        self.asking.addCallbacks(
            self.outcome.append, lambda why: self.outcome.append(type(why.value))
        )


def test_get() -> None:
    """A request without a body is a GET."""
    world = World(headers={"X-Name": "value"})
    assert world.agent.requests == [("GET", "http://x/y", b"", {"X-Name": "value"})]
    world.agent.answer(200, b"answer")
    assert world.outcome == [(200, b"answer")]
    assert not world.clock.getDelayedCalls()


def test_post() -> None:
    """A request with a body, even an empty one, is a POST."""
    for body in (b"hello", b""):
        world = World(body=body)
        assert world.agent.requests == [("POST", "http://x/y", body, {})]


@pytest.mark.parametrize("parts", [[b"x" * 11], [b"x" * 10, b"y"], [b"x"] * 12])
def test_tooLong(parts: list[bytes]) -> None:
    """An answer that is too long is aborted as soon as its length is known."""
    world = World()
    protocol = world.agent.begin(200)
    for part in parts:
        protocol.dataReceived(part)
    assert world.outcome == [AnswerTooLong]
    assert protocol.transport.disconnecting
    protocol.connectionLost(Failure(ConnectionLost()))
    assert world.outcome == [AnswerTooLong]


def test_longEnough() -> None:
    """An answer of exactly the permitted length is accepted."""
    world = World()
    world.agent.answer(200, b"x" * 10)
    assert world.outcome == [(200, b"x" * 10)]


def test_lateStatus() -> None:
    """A request to a server that sends nothing fails at the timeout."""
    world = World()
    world.clock.advance(5)
    assert (world.outcome, world.agent.cancelled) == ([Late], 1)


def test_lateBody() -> None:
    """An answer that does not end fails at the timeout, and its connection is closed."""
    world = World()
    protocol = world.agent.begin(200)
    protocol.dataReceived(b"x")
    world.clock.advance(5)
    assert world.outcome == [Late]
    assert protocol.transport.disconnecting
    protocol.dataReceived(b"y")
    protocol.connectionLost(Failure(ConnectionLost()))
    assert world.outcome == [Late]


def test_brokenOff() -> None:
    """A truncated answer is an error. An answer without a length ends with the connection."""
    for error, outcome in (
        (ConnectionLost(), ConnectionLost),
        (PotentialDataLoss(), (200, b"x")),
    ):
        world = World()
        protocol = world.agent.begin(200)
        protocol.dataReceived(b"x")
        protocol.connectionLost(Failure(error))
        assert world.outcome == [outcome]


def test_errorOfTheAgent() -> None:
    """An error of the agent is passed on."""
    world = World()
    world.agent.fail(ConnectionLost())
    assert world.outcome == [ConnectionLost]
    assert not world.clock.getDelayedCalls()
