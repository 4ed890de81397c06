"""
Tests of L{natsbroker.auth.operator.peers}.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.peers import PeerLookup
from natsbroker.runtime.responder import RequestResponder
from natsbroker.wire.values import Message
from tests.auth.buses import busOf
from tests.conftest import FlushLoggedErrors

ACCOUNT = "ACCOUNT"


class World:
    """
    A broker that looks up JWTs, and other servers that may answer.

    @ivar asked: the requests that reached other servers.
    """

    def __init__(self, others: int = 1, count: float = 0, listening: bool = True) -> None:
        self.bus = busOf()
        self.clock = Clock()
        self.asker = RequestResponder(self.bus)
        self.asked: list[Message] = []
        if listening:
            for _ in range(others):
                RequestResponder(self.bus).on(b"$SYS.REQ.>", self.asked.append)
        self.asker.on(b"$SYS.REQ.>", self._answeredOurselves)
        self.neighbours = PeerLookup(
            self.bus, self.asker, self.clock, self._check, lambda: count, 2.0
        )

    def _check(self, account: str, text: str) -> None:
        if text != f"jwt of {account}":
            raise FieldError("not true")

    def _answeredOurselves(self, message: Message) -> None:
        raise AssertionError("asked itself")

    def lookUp(self) -> list[Any]:
        """
        Look up an account.

        @return: a list for the result.
        """
        outcome: list[Any] = []
        self.neighbours.lookUp(ACCOUNT).addBoth(outcome.append)
        return outcome

    def say(self, answer: bytes, question: int = 0) -> None:
        """Answer a request."""
        self.bus.publish(Message(self.asked[question].reply, answer))


def reason(outcome: list[Any]) -> str:
    """The text of the C{LookupError} in a result."""
    (failure,) = outcome
    failure.trap(LookupError)
    return str(failure.value)


def _say(answer: bytes, message: Message) -> bytes:
    return answer


class TestLookUp:
    """One account."""

    def test_found(self) -> None:
        """The first valid JWT is taken. No subscription is left afterwards."""
        world = World()
        outcome = world.lookUp()
        assert world.asked[0].subject == b"$SYS.REQ.ACCOUNT.ACCOUNT.CLAIMS.LOOKUP"
        assert world.asked[0].reply.startswith(b"$SYS._INBOX.")
        world.say(b"jwt of ACCOUNT\n")
        assert outcome == ["jwt of ACCOUNT"]
        world.say(b"")
        assert (outcome, world.clock.getDelayedCalls()) == (["jwt of ACCOUNT"], [])

    @pytest.mark.parametrize(("others", "count"), [(2, 0), (1, 2), (2, 1)])
    def test_allSayNo(self, others: int, count: int) -> None:
        """A look-up fails when every server, known or reached, has answered that it has no JWT."""
        world = World(others, count)
        outcome = world.lookUp()
        world.say(b"")
        assert outcome == []
        world.say(b"")
        assert reason(outcome) == "no server has it"
        assert world.clock.getDelayedCalls() == []

    def test_nobodyKnowsHowMany(self) -> None:
        """A look-up waits for its timeout if the number of other servers is unknown."""
        world = World(count=math.inf)
        outcome = world.lookUp()
        world.say(b"")
        world.say(b"")
        assert outcome == []
        world.clock.advance(2.1)
        assert reason(outcome) == "no server had it in time"

    def test_oneSaysNo(self) -> None:
        """A JWT is accepted although another server has answered that it has none."""
        world = World(2)
        outcome = world.lookUp()
        world.say(b"")
        world.say(b"jwt of ACCOUNT")
        assert outcome == ["jwt of ACCOUNT"]

    def test_invalidJWT(self) -> None:
        """An answer with an invalid JWT is ignored."""
        world = World()
        outcome = world.lookUp()
        world.say(b"jwt of OTHER")
        assert reason(outcome) == "no server has it"

    def test_noOtherServer(self) -> None:
        """A look-up fails at once if there is no other server."""
        assert reason(World(listening=False).lookUp()) == "there is no other server"

    def test_silentServer(self) -> None:
        """A look-up fails at its timeout if a server does not answer."""
        world = World()
        outcome = world.lookUp()
        world.clock.advance(1.9)
        assert outcome == []
        world.clock.advance(0.2)
        assert reason(outcome) == "no server had it in time"
        world.say(b"jwt of ACCOUNT")

    def test_atOnce(self) -> None:
        """Answers that come while the request is being sent count, also empty ones."""
        for answer, expected in ((b"jwt of ACCOUNT", "jwt of ACCOUNT"), (b"", "no server has it")):
            world = World(listening=False)
            RequestResponder(world.bus).on(b"$SYS.REQ.>", partial(_say, answer))
            (resolution,) = world.lookUp()
            assert expected in str(resolution)

    def test_concurrentQuestions(self) -> None:
        """Each of several look-ups gets its own answers."""
        world = World()
        one, two = world.lookUp(), world.lookUp()
        world.say(b"jwt of ACCOUNT", 1)
        assert (one, two) == ([], ["jwt of ACCOUNT"])

    def test_cancelled(self) -> None:
        """A cancelled request leaves nothing behind."""
        world = World()
        asking = world.neighbours.lookUp(ACCOUNT)
        asking.addErrback(lambda why: None)
        asking.cancel()
        world.say(b"jwt of ACCOUNT")
        assert world.clock.getDelayedCalls() == []

    def test_close(self) -> None:
        """A look-up ends when the broker stops."""
        world = World()
        outcome = world.lookUp()
        world.neighbours.close()
        assert reason(outcome) == "the broker is stopping"


class TestKeepingUp:
    """The exchange of all JWTs with other servers."""

    def test_asks(self) -> None:
        """
        At intervals other servers are asked for JWTs that differ from those of the request's
        digest.
        """
        world = World()
        world.neighbours.keepUp(60.0, lambda: b"digest", lambda account, text: succeed(None))
        assert world.asked == []
        world.clock.pump([60.0, 60.0])
        assert [(request.subject, request.body) for request in world.asked] == [
            (b"$SYS.REQ.CLAIMS.PACK", b"digest")
        ] * 2
        world.neighbours.close()
        assert world.clock.getDelayedCalls() == []

    def test_merges(self) -> None:
        """
        Valid JWTs of an answer are stored, from one message or several; invalid ones are ignored.
        """
        world = World()
        merged: list[tuple[str, str]] = []

        def merge(account: str, text: str) -> Deferred[None]:
            merged.append((account, text))
            return succeed(None)

        world.neighbours.keepUp(60.0, lambda: b"", merge)
        world.clock.advance(60)
        world.say(b"A|jwt of A\nB|jwt of A\n\nnonsense\n\xff|\xff")
        world.say(b"C|jwt of C")
        world.say(b"")
        assert merged == [("A", "jwt of A"), ("C", "jwt of C")]

    def test_storeFails(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A JWT that cannot be stored is logged, and the others are stored."""
        world = World()
        world.neighbours.keepUp(60.0, lambda: b"", lambda *_: fail(OSError("full")))
        world.clock.advance(60)
        world.say(b"A|jwt of A")
        assert len(flushLoggedErrors(OSError)) == 1
