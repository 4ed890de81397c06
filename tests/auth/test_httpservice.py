"""
Tests of L{natsbroker.auth.httpservice}.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError
from twisted.internet.task import Clock
from twisted.python.failure import Failure as UntypedFailure
from twisted.web.client import ResponseNeverReceived

from natsbroker.auth.fields import FieldError
from natsbroker.auth.httpservice import (
    HTTPAuthorizer,
    HTTPServiceSettings,
    RateLimitedLog,
    grantFromAnswer,
    question,
    reasonOf,
)
from natsbroker.errors import Unauthorized
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.testing.contracts import authorizerTests
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.agents import FakeAgent
from tests.auth.certificates import certificate
from tests.server.support import logLines

Failure: Any = UntypedFailure


def test_nowAndThen() -> None:
    """The first failure is logged at once. Later ones are counted, and logged after an interval."""
    clock = Clock()
    complaints = RateLimitedLog(clock, "It failed")
    with logLines() as lines:
        for _ in range(3):
            complaints.log(Failure(ValueError("x")))
        clock.advance(complaints.INTERVAL)
        complaints.log(Failure(KeyError("y")))
        clock.advance(complaints.INTERVAL)
        complaints.log(Failure(KeyError("z")))
    assert lines == [
        "[ERR] It failed: ValueError x",
        "[ERR] It failed: KeyError 'y' (and 2 times more before)",
        "[ERR] It failed: KeyError 'z'",
    ]


def test_reasons() -> None:
    """A request that failed for several reasons is logged with all of them."""
    both = [Failure(OSError("one")), Failure(ValueError("two"))]
    failure = Failure(ResponseNeverReceived(both))
    assert reasonOf(failure) == "OSError one; ValueError two"


def test_shortReason() -> None:
    """A reason in the log is cut to 300 characters."""
    assert len(reasonOf(Failure(ValueError("x" * 10_000)))) == 300


def answered(answer: Any) -> Grant:
    """The grant for an answer."""
    return grantFromAnswer(json.dumps(answer).encode())


class TestQuestion:
    """The request to the service."""

    def test_question(self) -> None:
        """A request has the client's credentials and address, and no other data."""
        options = {
            "user": "anna",
            "pass": "\u00e4pfel",
            "name": "app",
            "lang": "go",
            "version": "1",
            "verbose": True,
            "echo": False,
            "jwt": "",
            "sig": 7,
            "something": "else",
        }
        asked = question(ConnectRequest(options=options, host="1.2.3.4", nonce="n0nce"))
        assert json.loads(asked) == {
            "host": "1.2.3.4",
            "connection_type": "STANDARD",
            "connect": {
                "user": "anna",
                "pass": "\u00e4pfel",
                "name": "app",
                "lang": "go",
                "version": "1",
            },
        }

    def test_nonce(self) -> None:
        """A service that checks signatures receives the nonce."""
        hello = ConnectRequest(options={"nkey": "UKEY", "sig": "s"}, nonce="n0nce")
        asked = json.loads(question(hello, nonce=True))
        assert (asked["nonce"], asked["connect"]) == ("n0nce", {"nkey": "UKEY", "sig": "s"})

    def test_certificate(self) -> None:
        """A certificate is in the request as PEM."""
        made = certificate("CN=anna")
        asked = json.loads(question(ConnectRequest(certificate=made)))
        assert asked["certificate"].encode() == made.public_bytes(Encoding.PEM)

    def test_sameQuestion(self) -> None:
        """Equal connections make the same request, whatever the order of their options."""
        one = ConnectRequest(options={"user": "a", "pass": "b"})
        other = ConnectRequest(options={"pass": "b", "user": "a"})
        assert question(one) == question(other)


class TestAnswer:
    """The answer of the service."""

    def test_nameAlone(self) -> None:
        """A name alone allows everything in the global account."""
        assert answered({"user": "anna"}) == Grant(user="anna")

    def test_allFields(self) -> None:
        """An answer with every field of a grant is read."""
        answer = {
            "user": "anna",
            "account": "SHOP",
            "permissions": {
                "publish": {"allow": ["a.>", "b"], "deny": ["a.secret"]},
                "subscribe": {"allow": ["c.*", "d workers"], "deny": ["c.no"]},
                "allow_responses": {"max": 3, "expires": 5},
            },
            "max_payload": 100,
            "max_subscriptions": 7,
            "expires": 2_000_000_000,
        }
        assert answered(answer) == Grant(
            account="SHOP",
            user="anna",
            publish=PermissionSet([b"a.>", b"b"], [b"a.secret"]),
            subscribe=SubscribePermissions([b"c.*", b"d workers"], [b"c.no"]),
            responses=ResponsePermission(3, 5.0),
            maxPayload=100,
            maxSubscriptions=7,
            expires=2_000_000_000.0,
        )

    @pytest.mark.parametrize(
        ("permissions", "publish", "subscribe"),
        [
            ({}, None, None),
            ({"publish": {}, "subscribe": {}}, None, None),
            ({"publish": {"allow": []}}, PermissionSet([]), None),
            ({"subscribe": {"allow": []}}, None, SubscribePermissions([])),
            ({"publish": {"deny": ["a"]}}, PermissionSet(None, [b"a"]), None),
            ({"allow_responses": {}}, PermissionSet([]), None),
            (
                {"allow_responses": {}, "publish": {"deny": ["a"]}},
                PermissionSet([], [b"a"]),
                None,
            ),
        ],
    )
    def test_permissions(self, permissions: Any, publish: Any, subscribe: Any) -> None:
        """
        A missing list allows everything, and an empty one nothing. A user who may only answer has
        no other permissions.
        """
        grant = answered({"user": "x", "permissions": permissions})
        assert (grant.publish, grant.subscribe) == (publish, subscribe)
        assert (grant.responses is not None) == ("allow_responses" in permissions)

    def test_noLimit(self) -> None:
        """A limit of -1 means unlimited, and a missing limit is the server's."""
        grant = answered({"user": "x", "max_payload": 0, "max_subscriptions": -1})
        assert (grant.maxPayload, grant.maxSubscriptions, grant.expires) == (0, -1, None)
        assert answered({"user": "x", "expires": 0}).expires == 0.0

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"x",
            b"true",
            b"null",
            b'"anna"',
            b"[]",
            b'{"user":"a"',
            b'{"user":"a"}x',
            b'{"user":"a","user":"b"}',
            b'{"user":"\\ud800"}',
            b"\xff",
            b"[" * 100_000,
        ],
    )
    def test_noAnswer(self, data: bytes) -> None:
        """An answer that is not a JSON object denies the login."""
        with pytest.raises(FieldError):
            grantFromAnswer(data)

    @pytest.mark.parametrize(
        "answer",
        [
            {},
            {"user": ""},
            {"user": None},
            {"user": True},
            {"user": 7},
            {"user": ["a"]},
            {"ok": True},
            {"user": "a", "ok": True},
            {"user": "a", "account": 1},
            {"user": "a", "permissions": []},
            {"user": "a", "permissions": {"publish": ["a"]}},
            {"user": "a", "permissions": {"pub": {"allow": ["a"]}}},
            {"user": "a", "permissions": {"publish": {"allowed": ["a"]}}},
            {"user": "a", "permissions": {"publish": {"allow": "a"}}},
            {"user": "a", "permissions": {"publish": {"allow": [1]}}},
            {"user": "a", "permissions": {"publish": {"allow": ["a..b"]}}},
            {"user": "a", "permissions": {"publish": {"deny": [""]}}},
            {"user": "a", "permissions": {"publish": {"allow": ["a queue"]}}},
            {"user": "a", "permissions": {"subscribe": {"allow": ["a b c"]}}},
            {"user": "a", "permissions": {"allow_responses": True}},
            {"user": "a", "permissions": {"allow_responses": {"ttl": 1}}},
            {"user": "a", "max_payload": -2},
            {"user": "a", "max_payload": "1"},
            {"user": "a", "max_subscriptions": 1.5},
            {"user": "a", "max_subscriptions": 0},
            {"user": "a", "max_subscriptions": -2},
            {"user": "a", "max_subscriptions": True},
            {"user": "a", "expires": "2030-01-01"},
            {"user": "a", "expires": 1 << 64},
        ],
    )
    def test_invalidAnswer(self, answer: Any) -> None:
        """An invalid answer denies the login. It never grants less or more than it says."""
        with pytest.raises(FieldError):
            answered(answer)

    def test_manyShapes(self) -> None:
        """
        An answer whose permissions have too many combinations of wildcard positions is refused.
        """
        subjects = [
            ".".join("*" if bits >> n & 1 else "x" for n in range(12)) for bits in range(4000)
        ]
        with pytest.raises(FieldError):
            answered({"user": "a", "permissions": {"publish": {"allow": subjects}}})


URL = "https://auth.example/ask"
ANNA = ConnectRequest(options={"user": "anna", "pass": "apple"})


class World:
    """An authorizer whose HTTP service is played by the test."""

    def __init__(self, **terms: Any) -> None:
        self.agent, self.clock = FakeAgent(), Clock()
        self.authorizer = HTTPAuthorizer(HTTPServiceSettings(URL, **terms), self.agent, self.clock)

    def ask(self, hello: ConnectRequest = ANNA) -> list[Any]:
        """A list for the grant, or the type of the error."""
        results: list[Any] = []
        try:
            answer = self.authorizer.grantFor(hello)
        except Unauthorized:
            return [Unauthorized]
        if isinstance(answer, Deferred):
            answer.addCallbacks(results.append, lambda why: results.append(type(why.value)))
        else:
            results.append(answer)
        return results


def told(world: World, happens: Callable[[], object]) -> str:
    """Send a request, make it fail, and return the reason in the log."""
    answer = world.ask()
    with logLines() as lines:
        happens()
    assert answer == [Unauthorized]
    [line] = lines
    start = "[ERR] The authorization service failed, logins are denied: "
    assert line.startswith(start)
    return line[len(start) :]


def service(agent: FakeAgent) -> None:
    """Answer all requests: accept Anna, and deny others."""
    while agent.requests:
        connect = json.loads(agent.requests.pop(0)[2])["connect"]
        if (connect.get("user"), connect.get("pass")) == ("anna", "apple"):
            agent.answer(200, b'{"user":"anna"}')
        else:
            agent.answer(403, b"")


class Contract:
    """Makes authorizers whose service answers when the contract asks for it."""

    def __init__(self) -> None:
        self.worlds: list[World] = []

    def make(self) -> HTTPAuthorizer:
        """Make an authorizer."""
        self.worlds.append(World())
        return self.worlds[-1].authorizer

    def settle(self) -> None:
        """Let the services answer."""
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
    """A single request."""

    def test_request(self) -> None:
        """A request is posted as JSON, with the configured headers."""
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
        """The nonce is requested and sent if the service requires it."""
        world = World()
        assert world.authorizer.required and not world.authorizer.nonce
        world = World(nonce=True)
        assert world.authorizer.nonce
        world.ask(ConnectRequest(nonce="n0nce"))
        assert json.loads(world.agent.requests[0][2])["nonce"] == "n0nce"

    def test_grant(self) -> None:
        """The answer of the service gives the grant."""
        world = World()
        answer = world.ask()
        assert answer == []
        world.agent.answer(200, b'{"user":"a","account":"A","max_payload":5}')
        assert answer == [Grant("A", "a", maxPayload=5)]

    @pytest.mark.parametrize("status", [401, 403])
    def test_denial(self, status: int) -> None:
        """The statuses 401 and 403 deny the login, with any body."""
        world = World()
        answer = world.ask()
        world.agent.answer(status, b'{"user":"anna"}')
        assert answer == [Unauthorized]

    @pytest.mark.parametrize("status", [201, 204, 301, 302, 307, 400, 404, 429, 500, 503])
    def test_outOfOrder(self, status: int) -> None:
        """Any other status denies the login, and is logged as a failure."""
        world = World()
        assert told(world, lambda: world.agent.answer(status, b'{"user":"anna"}')) == (
            f"AuthorizationServiceError the authorization service answers {status}"
        )

    @pytest.mark.parametrize("body", [b"", b"OK", b"true", b"{}", b'{"user":"a","admin":true}'])
    def test_unreadableAnswer(self, body: bytes) -> None:
        """An unreadable answer denies the login."""
        world = World()
        assert told(world, lambda: world.agent.answer(200, body)).startswith("FieldError ")

    def test_tooLong(self) -> None:
        """An answer longer than the limit denies the login."""
        world = World(longest=10)
        answer = b'{"user":"anna"}'
        assert told(world, lambda: world.agent.answer(200, answer)).startswith("AnswerTooLong ")

    def test_slow(self) -> None:
        """An answer that comes too late denies the login."""
        world = World(timeout=1.5)
        answer = world.ask()
        world.clock.advance(1.4)
        assert answer == []
        world.agent.answer(403, b"")
        assert told(world, lambda: world.clock.advance(1.5)).startswith("TimeoutError ")
        assert world.agent.cancelled == 1
        assert world.clock.getDelayedCalls() == []

    def test_serviceIsDown(self) -> None:
        """A service that cannot be reached denies the login."""
        world = World()
        assert told(world, lambda: world.agent.fail(ConnectError())).startswith("ConnectError ")

    def test_failsOften(self) -> None:
        """A service that always fails does not fill the log."""
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
        """A request is cancelled when its client disconnects."""
        world = World()
        asking: Any = world.authorizer.grantFor(ANNA)
        asking.addErrback(lambda _: None)
        with logLines() as lines:
            asking.cancel()
        assert lines == []
        assert (world.agent.cancelled, world.clock.getDelayedCalls()) == (1, [])


class TestFlood:
    """Many requests at the same time."""

    def test_bounded(self) -> None:
        """A few requests are sent at a time, some wait, and further logins are denied at once."""
        world = World(atATime=2, waiting=3)
        outcomes = [world.ask() for _ in range(6)]
        assert len(world.agent.requests) == 2
        assert outcomes[5] == [Unauthorized]
        for _ in range(5):
            world.agent.answer(200, b'{"user":"a"}')
        assert outcomes[:5] == [[Grant(user="a")]] * 5

    def test_cancelledWhileWaiting(self) -> None:
        """A waiting login that is cancelled makes room for another, and is not sent."""
        world = World(atATime=1, waiting=1)
        first = world.ask()
        waiting: Any = world.authorizer.grantFor(ANNA)
        waiting.addErrback(lambda _: None)
        waiting.cancel()
        third = world.ask()
        world.agent.answer(200, b'{"user":"a"}')
        world.agent.answer(200, b'{"user":"b"}')
        assert (first, third) == ([Grant(user="a")], [Grant(user="b")])

    def test_cancelledWhileRunning(self) -> None:
        """A request that is cancelled makes room for a waiting one."""
        world = World(atATime=1, waiting=1)
        running: Any = world.authorizer.grantFor(ANNA)
        running.addErrback(lambda _: None)
        second = world.ask()
        running.cancel()
        world.agent.answer(200, b'{"user":"b"}')
        assert second == [Grant(user="b")]

    def test_timeOfThoseWhoWait(self) -> None:
        """Each login has its own time limit, which begins when its request is sent."""
        world = World(atATime=1, waiting=1, timeout=1.0)
        first, second = world.ask(), world.ask()
        world.clock.advance(1.0)
        assert (first, second) == ([Unauthorized], [])
        world.clock.advance(0.9)
        world.agent.answer(200, b'{"user":"a"}')
        assert second == [Grant(user="a")]


class TestRemembering:
    """Answers that are remembered for later logins."""

    def again(self, world: World, hello: ConnectRequest = ANNA) -> int:
        """Send a login, and count the requests that reach the service."""
        before = len(world.agent.requests)
        world.ask(hello)
        return len(world.agent.requests) - before

    def known(self, status: int = 200, **terms: Any) -> World:
        """A service that has answered once."""
        world = World(**terms)
        world.ask()
        world.agent.answer(status, b'{"user":"anna"}')
        return world

    def test_noCacheByDefault(self) -> None:
        """Answers are not remembered by default."""
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
        """A denial is remembered as a grant is."""
        world = self.known(403, cacheFor=10.0)
        assert world.ask() == [Unauthorized]
        assert self.again(world) == 0

    @pytest.mark.parametrize("status", [500, 302])
    def test_failure(self, status: int) -> None:
        """A failure of the service is not remembered."""
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
    def test_otherLoginsAreAskedAbout(self, hello: ConnectRequest) -> None:
        """A login with another password, host or connection type makes a new request."""
        assert self.again(self.known(cacheFor=10.0), hello) == 1

    def test_bounded(self) -> None:
        """The number of remembered answers is limited, and the oldest is forgotten first."""
        world = self.known(cacheFor=10.0, cacheSize=2)
        for user in ("b", "c"):
            world.ask(ConnectRequest(options={"user": user}))
            world.agent.answer(403, b"")
        assert self.again(world, ConnectRequest(options={"user": "c"})) == 0
        assert self.again(world) == 1

    def test_secrets(self) -> None:
        """Remembered answers do not contain secrets."""
        world = self.known(cacheFor=10.0)
        assert b"apple" not in repr(world.authorizer.__dict__).encode()
        assert "Bearer" not in repr(HTTPServiceSettings(URL, headers={"Authorization": "Bearer x"}))

    def test_revoke(self) -> None:
        """A revocation forgets all answers, also those to requests that are still open."""
        world = self.known(cacheFor=10.0)
        world.ask(ConnectRequest(options={"user": "b"}))
        world.authorizer.revoke()
        world.agent.answer(200, b'{"user":"b"}')
        assert self.again(world) == 1
        assert self.again(world, ConnectRequest(options={"user": "b"})) == 1

    def test_newService(self) -> None:
        """A changed URL takes effect at once, and remembered answers are forgotten."""
        world = self.known(cacheFor=10.0)
        other = FakeAgent()
        world.authorizer.use(HTTPServiceSettings("https://other.example/"), other)
        world.ask()
        assert other.requests[0][1] == "https://other.example/"
