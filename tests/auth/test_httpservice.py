"""
Tests of L{natsbroker.auth.httpservice}.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError
from twisted.internet.task import Clock

from natsbroker.auth.httpservice import HTTPAuthorizer, HTTPServiceSettings
from natsbroker.errors import Unauthorized
from natsbroker.testing.contracts import authorizerTests
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.agents import FakeAgent
from tests.server.support import logLines

URL = "https://auth.example/ask"
ANNA = ConnectRequest(options={"user": "anna", "pass": "apple"})


class World:
    """
    An authorizer whose service the test plays.
    """

    def __init__(self, **terms: Any) -> None:
        self.agent, self.clock = FakeAgent(), Clock()
        self.authorizer = HTTPAuthorizer(HTTPServiceSettings(URL, **terms), self.agent, self.clock)

    def ask(self, hello: ConnectRequest = ANNA) -> list[Any]:
        """Where the grant will be, or the type of the failure."""
        found: list[Any] = []
        try:
            answer = self.authorizer.grantFor(hello)
        except Unauthorized:
            return [Unauthorized]
        if isinstance(answer, Deferred):
            answer.addCallbacks(found.append, lambda why: found.append(type(why.value)))
        else:
            found.append(answer)
        return found


def told(world: World, happens: Callable[[], object]) -> str:
    """Ask, let something happen that denies, and give what the log says went wrong."""
    found = world.ask()
    with logLines() as lines:
        happens()
    assert found == [Unauthorized]
    [line] = lines
    start = "[ERR] The authorization service failed, logins are denied: "
    assert line.startswith(start)
    return line[len(start) :]


def service(agent: FakeAgent) -> None:
    """Let in Anna, and nobody else."""
    while agent.requests:
        connect = json.loads(agent.requests.pop(0)[2])["connect"]
        if (connect.get("user"), connect.get("pass")) == ("anna", "apple"):
            agent.answer(200, b'{"user":"anna"}')
        else:
            agent.answer(403, b"")


class Contract:
    """
    Makes authorizers whose service answers when it is its time.
    """

    def __init__(self) -> None:
        self.worlds: list[World] = []

    def make(self) -> HTTPAuthorizer:
        """One authorizer."""
        self.worlds.append(World())
        return self.worlds[-1].authorizer

    def settle(self) -> None:
        """The services answer."""
        for world in self.worlds:
            service(world.agent)


_CONTRACT = Contract()

TestContract = authorizerTests(
    _CONTRACT.make,
    ANNA,
    ConnectRequest(options={"user": "anna", "pass": "banana"}),
    lambda authorizer: authorizer.revoke(),
    _CONTRACT.settle,
)


class TestAsking:
    """One question."""

    def test_request(self) -> None:
        """It is posted as JSON, with the headers that were given."""
        world = World(headers={"Authorization": "Bearer x", "Accept": "application/x+json"})
        world.ask()
        [(method, url, body, headers)] = world.agent.requests
        assert (method, url) == ("POST", URL)
        assert json.loads(body)["connect"] == {"user": "anna", "pass": "apple"}
        assert headers == {
            "Accept": "application/x+json",
            "Content-Type": "application/json",
            "Authorization": "Bearer x",
        }

    def test_nonce(self) -> None:
        """The nonce is asked for and told where the service wants it."""
        world = World()
        assert world.authorizer.required and not world.authorizer.nonce
        world = World(nonce=True)
        assert world.authorizer.nonce
        world.ask(ConnectRequest(nonce="n0nce"))
        assert json.loads(world.agent.requests[0][2])["nonce"] == "n0nce"

    def test_grant(self) -> None:
        """What it answers is the grant."""
        world = World()
        found = world.ask()
        assert found == []
        world.agent.answer(200, b'{"user":"a","account":"A","max_payload":5}')
        assert found == [Grant("A", "a", maxPayload=5)]

    @pytest.mark.parametrize("status", [401, 403])
    def test_denial(self, status: int) -> None:
        """401 and 403 deny, whatever else is said."""
        world = World()
        found = world.ask()
        world.agent.answer(status, b'{"user":"anna"}')
        assert found == [Unauthorized]

    @pytest.mark.parametrize("status", [201, 204, 301, 302, 307, 400, 404, 429, 500, 503])
    def test_outOfOrder(self, status: int) -> None:
        """Any other status lets nobody in, and is a failure to be logged."""
        world = World()
        assert told(world, lambda: world.agent.answer(status, b'{"user":"anna"}')) == (
            f"AuthorizationServiceError the authorization service answers {status}"
        )

    @pytest.mark.parametrize("body", [b"", b"OK", b"true", b"{}", b'{"user":"a","admin":true}'])
    def test_nonsense(self, body: bytes) -> None:
        """An answer of no sense lets nobody in."""
        world = World()
        assert told(world, lambda: world.agent.answer(200, body)).startswith("FieldError ")

    def test_tooLong(self) -> None:
        """Nor does one that does not end."""
        world = World(longest=10)
        answer = b'{"user":"anna"}'
        assert told(world, lambda: world.agent.answer(200, answer)).startswith("AnswerTooLong ")

    def test_slow(self) -> None:
        """Nor one that comes too late."""
        world = World(timeout=1.5)
        found = world.ask()
        world.clock.advance(1.4)
        assert found == []
        world.agent.answer(403, b"")
        assert told(world, lambda: world.clock.advance(1.5)).startswith("TimeoutError ")
        assert world.agent.cancelled == 1
        assert world.clock.getDelayedCalls() == []

    def test_gone(self) -> None:
        """Nor a service that is not there."""
        world = World()
        assert told(world, lambda: world.agent.fail(ConnectError())).startswith("ConnectError ")

    def test_failsOften(self) -> None:
        """A service that fails for everybody fills no disk."""
        world = World()
        with logLines() as lines:
            for _ in range(100):
                world.ask()
                world.agent.fail(ConnectError())
            world.clock.advance(10)
            world.ask()
            world.agent.fail(ConnectError())
        lines = [line for line in lines if "authorization service" in line]
        assert len(lines) == 2
        assert lines[1].endswith("(and 99 times more before)")

    def test_cancel(self) -> None:
        """Who waits no more gives the question up."""
        world = World()
        asking: Any = world.authorizer.grantFor(ANNA)
        asking.addErrback(lambda _: None)
        with logLines() as lines:
            asking.cancel()
        assert lines == []
        assert (world.agent.cancelled, world.clock.getDelayedCalls()) == (1, [])


class TestFlood:
    """Many questions."""

    def test_bounded(self) -> None:
        """A few are open at a time, some wait, and the rest are denied at once."""
        world = World(atATime=2, waiting=3)
        outcomes = [world.ask() for _ in range(6)]
        assert len(world.agent.requests) == 2
        assert outcomes[5] == [Unauthorized]
        for _ in range(5):
            world.agent.answer(200, b'{"user":"a"}')
        assert outcomes[:5] == [[Grant(user="a")]] * 5

    def test_timeOfThoseWhoWait(self) -> None:
        """Each has its own time, which begins when the service is asked."""
        world = World(atATime=1, waiting=1, timeout=1.0)
        first, second = world.ask(), world.ask()
        world.clock.advance(1.0)
        assert (first, second) == ([Unauthorized], [])
        world.clock.advance(0.9)
        world.agent.answer(200, b'{"user":"a"}')
        assert second == [Grant(user="a")]


class TestRemembering:
    """The same question again."""

    def again(self, world: World, hello: ConnectRequest = ANNA) -> int:
        """Ask, and count the questions that come through."""
        before = len(world.agent.requests)
        world.ask(hello)
        return len(world.agent.requests) - before

    def known(self, status: int = 200, **terms: Any) -> World:
        """A service that has answered once."""
        world = World(**terms)
        world.ask()
        world.agent.answer(status, b'{"user":"anna"}')
        return world

    def test_off(self) -> None:
        """Unless asked to, nothing is remembered."""
        assert self.again(self.known()) == 1

    def test_grant(self) -> None:
        """A grant is remembered for a while."""
        world = self.known(cacheFor=10.0)
        assert world.ask() == [Grant(user="anna")]
        world.clock.advance(9.9)
        assert self.again(world) == 0
        world.clock.advance(0.1)
        assert self.again(world) == 1

    def test_denial(self) -> None:
        """So is a denial."""
        world = self.known(403, cacheFor=10.0)
        assert world.ask() == [Unauthorized]
        assert self.again(world) == 0

    @pytest.mark.parametrize("status", [500, 302])
    def test_failure(self, status: int) -> None:
        """A failure is not."""
        assert self.again(self.known(status, cacheFor=10.0)) == 1

    @pytest.mark.parametrize(
        "hello",
        [
            ConnectRequest(options={"user": "anna", "pass": "apple2"}),
            ConnectRequest(options={"user": "anna"}),
            ConnectRequest(options={"user": "anna", "pass": "apple"}, host="::1"),
            ConnectRequest(options={"user": "anna", "pass": "apple"}, connectionType="WEBSOCKET"),
            ConnectRequest(options={"user": "anna", "pass": "apple", "auth_token": "x"}),
        ],
    )
    def test_others(self, hello: ConnectRequest) -> None:
        """Another password, host or kind of connection is another question."""
        assert self.again(self.known(cacheFor=10.0), hello) == 1

    def test_bounded(self) -> None:
        """Not more is remembered than may; the oldest is forgotten first."""
        world = self.known(cacheFor=10.0, cacheSize=2)
        for user in ("b", "c"):
            world.ask(ConnectRequest(options={"user": user}))
            world.agent.answer(403, b"")
        assert self.again(world, ConnectRequest(options={"user": "c"})) == 0
        assert self.again(world) == 1

    def test_secrets(self) -> None:
        """What is remembered has no secret in it."""
        world = self.known(cacheFor=10.0)
        assert b"apple" not in repr(world.authorizer.__dict__).encode()
        assert "Bearer" not in repr(HTTPServiceSettings(URL, headers={"Authorization": "Bearer x"}))

    def test_revoke(self) -> None:
        """Revoking forgets everything, also what was asked before and is answered after."""
        world = self.known(cacheFor=10.0)
        world.ask(ConnectRequest(options={"user": "b"}))
        world.authorizer.revoke()
        world.agent.answer(200, b'{"user":"b"}')
        assert self.again(world) == 1
        assert self.again(world, ConnectRequest(options={"user": "b"})) == 1

    def test_use(self) -> None:
        """So does another service, which is asked from then on."""
        world = self.known(cacheFor=10.0)
        other = FakeAgent()
        world.authorizer.use(HTTPServiceSettings("https://other.example/"), other)
        world.ask()
        assert other.requests[0][1] == "https://other.example/"
