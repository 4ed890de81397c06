"""
Request and reply on a message bus.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.requests import ProgramOrigin, newInbox, request
from natsbroker.errors import BrokerError, NoResponders, RequestTimeout
from natsbroker.interfaces import IOrigin
from natsbroker.wire.grants import Grant
from natsbroker.wire.headers import Headers
from natsbroker.wire.values import ClientInfo, Kind, Message
from tests.support import Recorder, Router


class Desk:
    """A bus, a clock, and the outcomes of requests."""

    def __init__(self) -> None:
        self.clock = Clock()
        batch = hot.FlushBatch(lambda call: self.clock.callLater(0, call))
        self.account = Account("A", Router(), AccountDependencies(batch, Random(1)))
        self.bus = self.account.busFor(Kind.INTERNAL)
        self.outcomes: list[Any] = []

    def ask(self, subject: bytes = b"ask", **more: Any) -> Deferred[Message]:
        """Send a request, and add its outcome to C{outcomes}."""
        asking = request(self.bus, self.clock, subject, **more)
        asking.addBoth(self.outcomes.append)
        return asking

    def answer(self, *answers: Message) -> Recorder:
        """Have requests answered at once."""

        def respond(message: Message) -> None:
            for answer in answers:
                copy = Message(message.reply, answer.body, headerLength=answer.headerLength)
                self.bus.publish(copy)

        recorder = Recorder(respond)
        self.bus.subscribe(b"ask", recorder)
        return recorder

    @property
    def failure(self) -> Any:
        """The exception of the only outcome."""
        [outcome] = self.outcomes
        return outcome.value

    def isClean(self, subscriptions: int) -> bool:
        """Whether nothing is left of a request."""
        return len(self.account) == subscriptions and not self.clock.getDelayedCalls()


class TestAnswers:
    """Requests that are answered."""

    def test_atOnce(self) -> None:
        """An answer may come while the request is being published. The first answer counts."""
        desk = Desk()
        service = desk.answer(Message(b"", b"first"), Message(b"", b"second"))
        desk.ask(payload=b"question")
        assert [message.payload for message in desk.outcomes] == [b"first"]
        assert service.bodies == [b"question"]
        assert desk.isClean(1)

    def test_lateAnswer(self) -> None:
        """An answer may come until the timeout."""
        desk = Desk()
        service = Recorder()
        desk.bus.subscribe(b"ask", service)
        desk.ask(timeout=5.0)
        desk.clock.advance(4.9)
        assert desk.outcomes == []
        desk.bus.publish(Message(service.got[0][0].reply, b"answer"))
        assert desk.outcomes[0].payload == b"answer"
        assert desk.isClean(1)

    def test_headers(self) -> None:
        """A request may have headers, and so may its answer."""
        desk = Desk()
        block = Headers({"b": "2"}).block()
        service = desk.answer(Message(b"", block + b"answer", headerLength=len(block)))
        desk.ask(payload=b"question", headers=Headers({"a": "1"}))
        [(question, _)] = service.got
        assert Headers.fromBlock(question.headers).get("a") == "1"
        assert question.payload == b"question"
        assert Headers.fromBlock(desk.outcomes[0].headers).items() == [("b", "2")]

    def test_emptyHeaders(self) -> None:
        """Empty headers count as no headers."""
        desk = Desk()
        service = desk.answer(Message(b"", b""))
        desk.ask(headers=Headers())
        assert service.got[0][0].headerLength == 0

    def test_inbox(self) -> None:
        """Each request has a subject of its own for the answer, which can be chosen."""
        desk = Desk()
        service = desk.answer(Message(b"", b""))
        desk.ask()
        desk.ask()
        desk.ask(makeInbox=lambda: b"here")
        replies = [message.reply for message, _ in service.got]
        assert len(set(replies)) == 3
        assert replies[2] == b"here"
        assert all(reply.startswith(b"_INBOX.") for reply in replies[:2])
        assert len({newInbox() for _ in range(100)}) == 100


class TestFailures:
    """Requests that fail."""

    def test_noResponders(self) -> None:
        """A request without responders fails at once."""
        desk = Desk()
        desk.ask(b"no.one")
        assert isinstance(desk.failure, NoResponders)
        assert desk.failure.subject == b"no.one"
        assert isinstance(desk.failure, BrokerError)
        assert desk.isClean(0)

    def test_nobodyBeyond(self) -> None:
        """A request fails at once also if a link passed it to a broker without responders."""
        desk = Desk()
        desk.answer(Message(b"", b"NATS/1.0 503\r\n\r\n", headerLength=16))
        desk.ask()
        assert isinstance(desk.failure, NoResponders)
        assert desk.failure.subject == b"ask"

    def test_timeout(self) -> None:
        """A request without an answer fails at the timeout. Later answers are dropped."""
        desk = Desk()
        service = Recorder()
        desk.bus.subscribe(b"ask", service)
        desk.ask(timeout=2.0)
        desk.clock.advance(2.0)
        assert isinstance(desk.failure, RequestTimeout)
        assert isinstance(desk.failure, TimeoutError)
        assert str(desk.failure) == "no answer within 2s"
        assert desk.isClean(1)
        assert desk.bus.publish(Message(service.got[0][0].reply)) == 0

    def test_cancelled(self) -> None:
        """A request that is cancelled leaves nothing."""
        desk = Desk()
        desk.bus.subscribe(b"ask", Recorder())
        asking = desk.ask()
        asking.cancel()
        assert isinstance(desk.failure, CancelledError)
        assert desk.isClean(1)

    def test_badInbox(self) -> None:
        """An invalid subject for answers is refused, and leaves no timer."""
        desk = Desk()
        with pytest.raises(ValueError, match="not a valid subject"):
            desk.ask(makeInbox=lambda: b"not one")
        assert desk.isClean(0)


def test_services() -> None:
    """
    A service answers a program that gives its name. A program without a name has no responders.
    """
    desk = Desk()
    service = Recorder(lambda message: desk.bus.publish(Message(message.reply, b"answer")))
    desk.bus.serve(b"ask", service)
    desk.ask()
    desk.ask(origin=ProgramOrigin("A"))
    refused, answer = desk.outcomes
    assert refused.check(NoResponders)
    assert answer.payload == b"answer"
    ((message, _),) = service.got
    asked: Any = message
    assert verifyObject(IOrigin, asked.origin)
    assert asked.origin.clientInfo(True) == ClientInfo(acc="A")
    assert asked.origin.grant == Grant("A")
