"""Questions to all workers."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock

from natsbroker.clients.info import ServerInfo
from natsbroker.workers.messages import (
    ShowPage,
    ShowPart,
)
from natsbroker.workers.questions import PATIENCE, WorkerQuestions


class Slot:
    """The place of a worker, which may be empty."""

    def __init__(self, number: int, isThere: bool = True) -> None:
        self.number = number
        self.info = ServerInfo("ID", "name", "2.15.1", "0.1.0") if isThere else None
        self.isHung = False
        self.sent: list[Any] = []

    def send(self, message: object) -> None:
        self.sent.append(message)


def asked(*slots: Slot) -> tuple[Clock, Any, Any]:
    """A clock, the questions, and the results of one of them."""
    clock = Clock()
    given: Any = slots
    questions = WorkerQuestions(clock, given)
    return clock, questions, questions.pages("/varz", lambda worker: {"a": str(worker)})


def test_answered() -> None:
    """The answers are returned together, in the workers' order, when the last one has come."""
    one, two, gone, hung = Slot(1), Slot(2), Slot(3, False), Slot(4)
    hung.isHung = True
    clock, questions, asking = asked(one, two, gone, hung)
    assert one.sent == [ShowPage(1, "/varz", {"a": "1"})]
    assert two.sent == [ShowPage(1, "/varz", {"a": "2"})]
    assert gone.sent == []
    questions.answered(two, 1, "second")
    assert not asking.called
    questions.answered(one, 1, "first")
    assert list(asking.result.items()) == [(1, "first"), (2, "second")]
    assert clock.getDelayedCalls() == []


def test_chosen() -> None:
    """Only workers with parameters are asked."""
    one, two = Slot(1), Slot(2)
    questions = WorkerQuestions(Clock(), [one, two])  # type: ignore[list-item]
    asking: Any = questions.pages("/connz", lambda worker: {} if worker == 2 else None)
    assert (one.sent, len(two.sent)) == ([], 1)
    questions.answered(two, 1, "second")  # type: ignore[arg-type]
    assert asking.result == {2: "second"}


def test_parts() -> None:
    """A part of an answer can be asked of all workers, or of some."""
    one, two = Slot(1), Slot(2)
    questions: Any = WorkerQuestions(Clock(), [one, two])  # type: ignore[list-item]
    questions.parts("kick", 5)
    questions.parts("announce", "x", of=[two])
    assert one.sent == [ShowPart(1, "kick", (5,))]
    assert two.sent == [ShowPart(1, "kick", (5,)), ShowPart(2, "announce", ("x",))]


def test_late() -> None:
    """A worker that does not answer is waited for until a timeout; its late answer is ignored."""
    one, two = Slot(1), Slot(2)
    clock, questions, asking = asked(one, two)
    questions.answered(one, 1, "first")
    clock.advance(PATIENCE)
    assert list(asking.result) == [1]
    questions.answered(two, 1, "second")
    assert list(asking.result) == [1]


def test_ended() -> None:
    """A worker that ends is not waited for."""
    one, two = Slot(1), Slot(2)
    clock, questions, asking = asked(one, two)
    questions.answered(two, 1, "second")
    questions.ended(one)
    assert list(asking.result) == [2]
    assert clock.getDelayedCalls() == []


def test_nobody() -> None:
    """Without a worker, the result is there at once."""
    clock, _, asking = asked(Slot(1, False))
    assert asking.result == {}
    assert clock.getDelayedCalls() == []


def test_several() -> None:
    """Answers to several questions are not mixed up."""
    one = Slot(1)
    _, questions, asking = asked(one)
    other = questions.parts("connections")
    questions.answered(one, 2, "connections")
    assert not asking.called
    assert other.result == {1: "connections"}
    questions.answered(one, 1, "varz")
    assert asking.result == {1: "varz"}
