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
    Somebody who asks, and others who may answer.

    @ivar asked: the questions that reached others.
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
        Ask for the account.

        @return: what came of it, as soon as anything does.
        """
        outcome: list[Any] = []
        self.neighbours.lookUp(ACCOUNT).addBoth(outcome.append)
        return outcome

    def say(self, answer: bytes, question: int = 0) -> None:
        """Answer a question."""
        self.bus.publish(Message(self.asked[question].reply, answer))


def reason(outcome: list[Any]) -> str:
    """
    The text of the C{LookupError} that came.
    """
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
        """A lookup fails when all servers that were reached, or are known, have answered so."""
        world = World(others, count)
        outcome = world.lookUp()
        world.say(b"")
        assert outcome == []
        world.say(b"")
        assert reason(outcome) == "no server has it"
        assert world.clock.getDelayedCalls() == []

    def test_nobodyKnowsHowMany(self) -> None:
        """A look-up waits for its timeout if it does not know how many servers can answer."""
        world = World(count=math.inf)
        outcome = world.lookUp()
        world.say(b"")
        world.say(b"")
        assert outcome == []
        world.clock.advance(2.1)
        assert reason(outcome) == "no server had it in time"

    def test_oneSaysNo(self) -> None:
        """A peer without the JWT does not keep another peer's JWT from being taken."""
        world = World(2)
        outcome = world.lookUp()
        world.say(b"")
        world.say(b"jwt of ACCOUNT")
        assert outcome == ["jwt of ACCOUNT"]

    def test_invalidJWT(self) -> None:
        """An answer with an invalid JWT counts as no answer."""
        world = World()
        outcome = world.lookUp()
        world.say(b"jwt of OTHER")
        assert reason(outcome) == "no server has it"

    def test_noOtherServer(self) -> None:
        """Without another server, the answer does not wait."""
        assert reason(World(listening=False).lookUp()) == "there is no other server"

    def test_silentServer(self) -> None:
        """A silent server is not waited for longer than the timeout."""
        world = World()
        outcome = world.lookUp()
        world.clock.advance(1.9)
        assert outcome == []
        world.clock.advance(0.2)
        assert reason(outcome) == "no server had it in time"
        world.say(b"jwt of ACCOUNT")

    def test_atOnce(self) -> None:
        """Answers that come while the request is being sent are taken, empty ones too."""
        for answer, expected in ((b"jwt of ACCOUNT", "jwt of ACCOUNT"), (b"", "no server has it")):
            world = World(listening=False)
            RequestResponder(world.bus).on(b"$SYS.REQ.>", partial(_say, answer))
            (resolution,) = world.lookUp()
            assert expected in str(resolution)

    def test_concurrentQuestions(self) -> None:
        """Answers belong to their questions."""
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
        """Questions end when the broker does."""
        world = World()
        outcome = world.lookUp()
        world.neighbours.close()
        assert reason(outcome) == "the broker is stopping"


class TestKeepingUp:
    """All accounts."""

    def test_asks(self) -> None:
        """
        At intervals another server is asked for JWTs. The request has the digest of the own ones.
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
        """The valid part of the answers is stored, from one message or many."""
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
