"""Questions to all workers."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock

from natsbroker.clients.info import ServerInfo
from natsbroker.workers.channel import PageShown, ShowPage
from natsbroker.workers.questions import PATIENCE, PageQuestions


class Slot:
    """A worker that is there, or not."""

    def __init__(self, number: int, isThere: bool = True) -> None:
        self.number = number
        self.info = ServerInfo("ID", "name", "2.15.1", "0.1.0") if isThere else None
        self.sent: list[Any] = []

    def send(self, message: object) -> None:
        self.sent.append(message)


def asked(*slots: Slot) -> tuple[Clock, Any, Any]:
    """A clock, the questions, and one that was asked."""
    clock = Clock()
    given: Any = slots
    questions = PageQuestions(clock, given)
    return clock, questions, questions.ask("/varz", {"a": "1"})


def page(number: int, body: bytes) -> PageShown:
    return PageShown(number, 200, "text/plain", body)


def test_answered() -> None:
    """Answers come together, in the workers' order, when the last one has come."""
    one, two, gone = Slot(1), Slot(2), Slot(3, False)
    clock, questions, asking = asked(one, two, gone)
    assert one.sent == two.sent == [ShowPage(1, "/varz", {"a": "1"})]
    assert gone.sent == []
    questions.pageCame(two, page(1, b"2"))
    assert not asking.called
    questions.pageCame(one, page(1, b"1"))
    assert [(number, answer.body) for number, answer in asking.result.items()] == [
        (1, b"1"),
        (2, b"2"),
    ]
    assert clock.getDelayedCalls() == []


def test_late() -> None:
    """A worker that does not answer is waited for a while; its answer then is for nobody."""
    one, two = Slot(1), Slot(2)
    clock, questions, asking = asked(one, two)
    questions.pageCame(one, page(1, b"1"))
    clock.advance(PATIENCE)
    assert list(asking.result) == [1]
    questions.pageCame(two, page(1, b"2"))
    assert list(asking.result) == [1]


def test_ended() -> None:
    """A worker that ends is not waited for."""
    one, two = Slot(1), Slot(2)
    clock, questions, asking = asked(one, two)
    questions.pageCame(two, page(1, b"2"))
    questions.ended(one)
    assert list(asking.result) == [2]
    assert clock.getDelayedCalls() == []


def test_nobody() -> None:
    """Without a worker there is an answer at once."""
    clock, _, asking = asked(Slot(1, False))
    assert asking.result == {}
    assert clock.getDelayedCalls() == []


def test_several() -> None:
    """Questions do not mix."""
    one = Slot(1)
    _, questions, asking = asked(one)
    other = questions.ask("/connz", {})
    questions.pageCame(one, page(2, b"connz"))
    assert not asking.called
    assert other.result[1].body == b"connz"
    questions.pageCame(one, page(1, b"varz"))
    assert asking.result[1].body == b"varz"
