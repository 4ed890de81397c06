"""
Requests of the parent to all workers, for pages that show one server.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from natsbroker.monitoring.queries import Query
from natsbroker.workers.messages import (
    ShowPage,
    ShowPart,
)
from natsbroker.workers.pages import Answers
from natsbroker.workers.slots import WorkerSlot

PATIENCE = 2.0
"""The seconds after which a page is shown without the workers that have not answered."""


class _WorkerQuestion:
    def __init__(self, waiting: set[WorkerSlot]) -> None:
        self.waiting = waiting
        self.answers: dict[int, Any] = {}
        self.answered: Deferred[dict[int, Any]] = Deferred()
        self.timer: Any = None


class WorkerQuestions:
    def __init__(self, reactor: Any, slots: Sequence[WorkerSlot]) -> None:
        self._reactor = reactor
        self._slots = slots
        self._numbers = itertools.count(1)
        self._questions: dict[int, _WorkerQuestion] = {}

    def pages(self, path: str, queryFor: Callable[[int], Query | None]) -> Deferred[Answers]:
        """
        Request a page from the workers that run and do not hang.

        @param queryFor: gives the parameters by the worker's number, or C{None} to skip the worker.
        @return: the answers by the workers' numbers, without those of workers that end or answer
            too late.
        """
        queries = {slot: queryFor(slot.number) for slot in self._slots}
        return self._ask(
            [slot for slot, query in queries.items() if query is not None],
            lambda number, slot: ShowPage(number, path, dict(queries[slot] or {})),
        )

    def parts(
        self, name: str, *arguments: Any, of: Iterable[WorkerSlot] | None = None
    ) -> Deferred[dict[int, Any]]:
        """
        Request a part from the workers that run and do not hang.

        @param of: the workers, by default all.
        """
        slots = self._slots if of is None else of
        return self._ask(slots, lambda number, slot: ShowPart(number, name, arguments))

    def _ask(
        self, slots: Iterable[WorkerSlot], message: Callable[[int, WorkerSlot], object]
    ) -> Deferred[dict[int, Any]]:
        number = next(self._numbers)
        asked = {slot for slot in slots if slot.info is not None and not slot.isHung}
        question = _WorkerQuestion(asked)
        self._questions[number] = question
        question.timer = self._reactor.callLater(PATIENCE, partial(self._end, number))
        for slot in list(question.waiting):
            slot.send(message(number, slot))
        self._settle(number)
        return question.answered

    def answered(self, slot: WorkerSlot, number: int, answer: Any) -> None:
        question = self._questions.get(number)
        if question is not None:
            question.answers[slot.number] = answer
            question.waiting.discard(slot)
            self._settle(number)

    def ended(self, slot: WorkerSlot) -> None:
        """Stop waiting for a worker that has ended."""
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
