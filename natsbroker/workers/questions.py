"""Questions of the parent to all workers, for pages that show one server."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from natsbroker.monitoring.queries import Query
from natsbroker.workers.channel import PageShown, ShowPage
from natsbroker.workers.pages import Answers, WorkerAnswer
from natsbroker.workers.slots import WorkerSlot

PATIENCE = 2.0
"""The seconds after which a page is shown without the workers that have not answered."""


class _PageQuestion:
    def __init__(self, waiting: set[WorkerSlot]) -> None:
        self.waiting = waiting
        self.answers: dict[int, WorkerAnswer] = {}
        self.answered: Deferred[Answers] = Deferred()
        self.timer: Any = None


class PageQuestions:
    def __init__(self, reactor: Any, slots: Sequence[WorkerSlot]) -> None:
        self._reactor = reactor
        self._slots = slots
        self._numbers = itertools.count(1)
        self._questions: dict[int, _PageQuestion] = {}

    def ask(self, path: str, query: Query) -> Deferred[Answers]:
        """
        Ask all workers that are there for a page.

        @return: the answers by the workers' numbers; without those that end or answer too late.
        """
        number = next(self._numbers)
        question = _PageQuestion({slot for slot in self._slots if slot.info is not None})
        self._questions[number] = question
        question.timer = self._reactor.callLater(PATIENCE, partial(self._end, number))
        for slot in list(question.waiting):
            slot.send(ShowPage(number, path, dict(query)))
        self._settle(number)
        return question.answered

    def pageCame(self, slot: WorkerSlot, page: PageShown) -> None:
        question = self._questions.get(page.number)
        if question is not None:
            answer = WorkerAnswer(page.status, page.contentType, page.body)
            question.answers[slot.number] = answer
            question.waiting.discard(slot)
            self._settle(page.number)

    def ended(self, slot: WorkerSlot) -> None:
        """Wait no more for a worker that has ended."""
        for number, question in list(self._questions.items()):
            question.waiting.discard(slot)
            self._settle(number)

    def _settle(self, number: int) -> None:
        if not self._questions[number].waiting:
            self._end(number)

    def _end(self, number: int) -> None:
        question = self._questions.pop(number)
        if question.timer.active():
            question.timer.cancel()
        question.answered.callback(dict(sorted(question.answers.items())))
