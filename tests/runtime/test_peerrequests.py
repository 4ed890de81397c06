"""
Requests to all other servers.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from natsbroker.runtime.peerrequests import PeerEnding, PeerRequests
from natsbroker.runtime.responder import RequestResponder
from natsbroker.wire.values import Message
from tests.auth.buses import busOf

SUBJECT = b"$SYS.REQ.X"


def _say(body: bytes, message: Message) -> bytes:
    return body


class Asking:
    """
    A server that sends requests to others.

    @ivar asked: the requests that reached others.
    @ivar taken: the answers that were taken.
    """

    def __init__(self, others: int, count: float = 0) -> None:
        self.bus = busOf()
        self.clock = Clock()
        self.asked: list[Message] = []
        self.taken: list[bytes] = []
        for _ in range(others):
            RequestResponder(self.bus).on(SUBJECT, self.asked.append)
        responder = RequestResponder(self.bus)
        responder.on(SUBJECT, lambda message: pytest.fail("it asks itself"))
        self.requests = PeerRequests(self.bus, responder, self.clock, lambda: count, 2.0)

    def ask(self) -> list[Any]:
        """Send a request to which C{yes} is a sufficient answer; return how it ends."""
        endings: list[Any] = []
        self.asking().addBoth(endings.append)
        return endings

    def asking(self) -> Deferred[PeerEnding]:
        """The same as a Deferred."""
        return self.requests.ask(SUBJECT, b"", self._take)

    def _take(self, message: Message) -> bool:
        self.taken.append(message.payload)
        return message.payload == b"yes"

    def answer(self, body: bytes, request: int = 0) -> int:
        """
        Answer a request.

        @return: the number of receivers.
        """
        return self.bus.publish(Message(self.asked[request].reply, body))


@pytest.mark.parametrize(("others", "count"), [(2, 0), (2, 1), (1, 2)])
def test_lastAnswer(others: int, count: int) -> None:
    """A request ends when all servers that it reached, or all known ones, have answered."""
    asking = Asking(others, count)
    endings = asking.ask()
    asking.answer(b"a")
    assert endings == []
    asking.answer(b"b")
    assert (endings, asking.taken) == ([PeerEnding.ANSWERED], [b"a", b"b"])
    assert (asking.answer(b"c"), asking.clock.getDelayedCalls()) == (0, [])


def test_sufficientAnswer() -> None:
    """A sufficient answer ends its own request only."""
    asking = Asking(1, math.inf)
    first, second = asking.ask(), asking.ask()
    asking.answer(b"no", 1)
    asking.answer(b"yes", 1)
    assert (first, second) == ([], [PeerEnding.ENOUGH])
    assert asking.answer(b"yes", 1) == 0


def test_timeout() -> None:
    """
    A request whose answers are missing, or whose number of servers is unknown, ends after a
    timeout.
    """
    for count in (0, math.inf):
        asking = Asking(2, count)
        endings = asking.ask()
        asking.answer(b"no")
        asking.clock.advance(1.9)
        assert endings == []
        asking.clock.advance(0.2)
        assert (endings, asking.answer(b"no")) == ([PeerEnding.LATE], 0)


def test_noServers() -> None:
    """A request that reaches no server does not wait."""
    assert Asking(0, 3).ask() == [PeerEnding.ALONE]


def test_atOnce() -> None:
    """Answers that arrive while the request is being sent are taken."""
    for body, expected in ((b"yes", PeerEnding.ENOUGH), (b"no", PeerEnding.ANSWERED)):
        asking = Asking(0)
        RequestResponder(asking.bus).on(SUBJECT, partial(_say, body))
        assert (asking.ask(), asking.taken) == ([expected], [body])


def test_ended() -> None:
    """A request that is cancelled or closed leaves no timer and no subscription."""
    asking = Asking(1)
    cancelled = asking.asking()
    cancelled.addErrback(lambda why: None)
    cancelled.cancel()
    endings = asking.ask()
    asking.requests.close()
    assert endings == [PeerEnding.CLOSED]
    assert [asking.answer(b"yes", number) for number in (0, 1)] == [0, 0]
    assert (asking.taken, asking.clock.getDelayedCalls()) == ([], [])


def test_inboxes() -> None:
    """Each inbox is a subject of its own, without wildcards."""
    asking = Asking(1)
    heard: list[bytes] = []
    subject, subscription = asking.requests.openInbox(lambda message: heard.append(message.payload))
    other, _ = asking.requests.openInbox(lambda message: pytest.fail("it is another one's"))
    assert subject.startswith(b"$SYS._INBOX.") and subject != other
    asking.bus.publish(Message(subject, b"x"))
    subscription.cancel()
    assert (asking.bus.publish(Message(subject, b"y")), heard) == (0, [b"x"])
