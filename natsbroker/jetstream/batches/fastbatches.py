"""
Fast batches: messages that are stored as they arrive, and acknowledged now and then.

The reply subject of each message says which batch it belongs to, and its place there. The answers
tell the publisher how many messages it may send until the next one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from natsbroker.jetstream.batches.openbatches import LONGEST_ID, OpenBatch, OpenBatches
from natsbroker.jetstream.batches.staging import StagedChecks
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.streams.publishanswers import (
    ONLY_STORED,
    Arrived,
    PublishAnswers,
    refusalPlace,
)
from natsbroker.jetstream.streams.publishchecks import Candidate, PublishChecks, StoredBefore
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.wire.text import decoded

SUFFIX = b".$FI"

WINDOW = 500
"""The most messages between two answers, of all batches of a stream together."""

_START, _APPEND, _COMMIT, _END, _PING = range(5)


class FastPlace(NamedTuple):
    """
    The fields in the reply subject of a message.

    @ivar flow: the most messages between two answers that the publisher wants.
    @ivar goesOn: whether the batch continues after missing or refused messages.
    @ivar number: the number of the message in its batch, from 1.
    @ivar operation: 0 starts a batch, 1 appends to it, 2 commits it with this message, 3 without,
        4 asks for the last answer.
    """

    batchId: bytes
    flow: int
    goesOn: bool
    number: int
    operation: int

    @property
    def isCommit(self) -> bool:
        return self.operation in (_COMMIT, _END)


def placeOf(reply: bytes) -> FastPlace | None:
    """Read a reply subject that ends with L{SUFFIX}; C{None} if it is invalid."""
    words = reply[: -len(SUFFIX)].rsplit(b".", 5)
    if len(words) != 6:
        return None
    _, batchId, flow, gaps, number, operation = words
    if gaps not in (b"ok", b"fail") or not _isNumber(operation) or not _isNumber(number):
        return None
    place = FastPlace(batchId, _flowOf(flow), gaps == b"ok", int(number), int(operation))
    if place.operation > _PING or not 0 < place.number < (1 << 64) - 1:
        return None
    isFirst = place.number == 1
    if (place.operation == _START) != isFirst and place.operation in (_START, _APPEND):
        return None
    return None if isFirst and place.operation == _END else place


def _isNumber(word: bytes) -> bool:
    return word.isdigit() and len(word) <= 20


def _flowOf(word: bytes) -> int:
    flow = int(word) if _isNumber(word) else 0
    return min(flow, 0xFFFF) or 10


class FastOutput(Protocol):
    """The destination of messages and answers, in order."""

    def putFast(self, message: Candidate, failed: Callable[[], object], reply: bytes) -> int:
        """
        Have a message stored.

        @param failed: called if it cannot be stored.
        @param reply: the subject that then gets the error.
        @return: its sequence.
        """

    def answer(self, reply: bytes, answer: bytes, place: int = 0) -> None:
        """
        Answer when everything before is durable.

        @param place: L{ONLY_STORED}, L{OR_FAILURE<natsbroker.jetstream.streams.publishanswers>},
            or 0 to answer also if that cannot be stored.
        """


class _FastBatch(OpenBatch):
    """
    A batch under way.

    @ivar window: the messages between two answers.
    @ivar last: the number of the last message.
    @ivar answered: the number up to which an answer was sent.
    @ivar sequence: of the last message that was stored.
    """

    def __init__(self, goesOn: bool, flow: int, window: int) -> None:
        self.goesOn = goesOn
        self.flow = flow
        self.window = window
        self.last = self.answered = self.sequence = 0

    def advance(self, batches: int) -> bool:
        """
        Send the answer that is due, if one is. The window then grows or shrinks towards this
        batch's share of L{WINDOW}.

        @param batches: the number of batches that share L{WINDOW}.
        """
        due = (self.last - self.answered) // self.window
        if due < 1:
            return False
        self.answered += due * self.window
        part = min(max(WINDOW // batches, 1), self.flow)
        if self.window < part:
            self.window = min(self.window * 2, part)
        elif self.window > part:
            self.window = max(self.window // 2, part)
        return True


class FastBatches(OpenBatches[_FastBatch]):
    """The batches of one stream."""

    def __init__(
        self,
        stream: StreamCore,
        output: FastOutput,
        checks: PublishChecks,
        prepared: Callable[[bytes], bytes],
        following: Callable[[], int],
    ) -> None:
        """
        @param prepared: returns the stored subject for a published one.
        @param following: returns the next sequence of the stream.
        """
        super().__init__(stream, stream.account.batches.fast)
        self._output = output
        self._checks = checks
        self._prepared = prepared
        self._following = following
        self._answers = PublishAnswers(stream.name, stream.account.domain)

    def take(self, message: Arrived) -> None:
        """
        Take a message of a batch.

        @raise JetStreamError: if it is refused like any other message.
        @raise natsbroker.jetstream.streams.subjectstates.SubjectUnknown: if a check needs the log
            first. The message can be taken again then.
        """
        place = self._placeOf(message)
        batch = self._batches.get(place.batchId) or self._start(place)
        message = self._withoutLevel(place.batchId, message)
        self._restartTimer(place.batchId, batch)
        if place.operation == _PING:
            self._ping(place, batch, message.reply)
            return
        outcome = None if place.operation == _END else self._check(message)
        if not self._follows(place, batch, message.reply):
            return
        if place.operation == _END:
            batch.last -= 1
            self._commit(place.batchId, batch, message.reply)
            return
        if place.number == 1 and not place.isCommit:
            self._acknowledge(batch, 0, message.reply)
        if isinstance(outcome, Candidate):
            self._store(place, batch, outcome, message.reply)
        elif isinstance(outcome, StoredBefore):
            self._skip(place, batch, outcome.sequence, message.reply)
        elif outcome is not None:
            self._refuse(place, batch, outcome, message.reply)

    def _placeOf(self, message: Arrived) -> FastPlace:
        self._checks.checkArrived(message)
        if not self._stream.config.allow_batched:
            raise errors.BATCH_PUBLISH_DISABLED()
        place = placeOf(message.reply)
        if place is None:
            raise errors.BATCH_PUBLISH_INVALID_PATTERN()
        if len(place.batchId) > LONGEST_ID:
            raise errors.BATCH_PUBLISH_INVALID_BATCH_ID()
        return place

    def _start(self, place: FastPlace) -> _FastBatch:
        if place.number != 1:
            raise errors.BATCH_PUBLISH_UNKNOWN_BATCH_ID()
        if self.isFull:
            raise errors.BATCH_PUBLISH_TOO_MANY_INFLIGHT()
        window = 1 if self._batches else min(WINDOW, place.flow)
        return self._begin(place.batchId, _FastBatch(place.goesOn, place.flow, window))

    def _check(self, message: Arrived) -> Candidate | StoredBefore | JetStreamError:
        staged = StagedChecks(self._checks, isAtomic=False)
        try:
            (checked,) = staged.checkAll([message], self._prepared, self._following())
        except (StoredBefore, JetStreamError) as verdict:
            return verdict
        finally:
            staged.forgetPatterns()
        return checked

    def _ping(self, place: FastPlace, batch: _FastBatch, reply: bytes) -> None:
        if place.number > batch.last:
            self._reportGap(batch.last + 1, place.number + 1, reply)
            if not batch.goesOn:
                self._commit(place.batchId, batch, reply)
                return
            batch.last = place.number
            if self._advance(batch, reply):
                return
        self._acknowledge(batch, batch.answered, reply)

    def _follows(self, place: FastPlace, batch: _FastBatch, reply: bytes) -> bool:
        """
        Count a message in its batch. If an earlier message is missing, end the batch and return
        false.
        """
        batch.last += 1
        if place.number == batch.last:
            return True
        if place.number > batch.last:
            self._reportGap(batch.last, place.number, reply)
            if batch.goesOn:
                batch.last = place.number
                return True
        batch.last -= 1
        self._commit(place.batchId, batch, reply)
        return False

    def _store(self, place: FastPlace, batch: _FastBatch, checked: Candidate, reply: bytes) -> None:
        batchId = place.batchId
        batch.sequence = self._output.putFast(checked, partial(self._forget, batchId), reply)
        if place.isCommit:
            self._commit(batchId, batch, reply)
        else:
            self._advance(batch, reply)

    def _skip(self, place: FastPlace, batch: _FastBatch, sequence: int, reply: bytes) -> None:
        """Pass over a message that was stored before."""
        self._advance(batch, reply)
        if not place.isCommit:
            return
        if batch.goesOn or batch.last != 1:
            self._commit(place.batchId, batch, reply)
            return
        self._forget(place.batchId)
        tail = b',"duplicate": true' + _tailOf(place.batchId, place.number)
        self._output.answer(reply, self._answers.stored(sequence, tail), ONLY_STORED)

    def _refuse(
        self, place: FastPlace, batch: _FastBatch, error: JetStreamError, reply: bytes
    ) -> None:
        if not batch.goesOn and batch.last == 1:
            self._forget(place.batchId)
            raise error
        shown = {"type": "err", "seq": place.number, "error": error.toJSON()}
        self._output.answer(reply, _json(shown), refusalPlace(error))
        if place.goesOn and not place.isCommit:
            return
        batch.last -= 1
        self._commit(place.batchId, batch, reply)

    # Answers.

    def _commit(self, batchId: bytes, batch: _FastBatch, reply: bytes) -> None:
        """End a batch, with its stored messages."""
        self._forget(batchId)
        answer = self._answers.stored(batch.sequence, _tailOf(batchId, batch.last))
        self._output.answer(reply, answer, ONLY_STORED)

    def _advance(self, batch: _FastBatch, reply: bytes) -> bool:
        isDue = batch.advance(max(len(self._batches), 1))
        if isDue:
            self._acknowledge(batch, batch.answered, reply)
        return isDue

    def _acknowledge(self, batch: _FastBatch, number: int, reply: bytes) -> None:
        shown = {"type": "ack", "seq": number, "msgs": batch.window}
        self._output.answer(reply, _json(shown), ONLY_STORED if number else 0)

    def _reportGap(self, expected: int, number: int, reply: bytes) -> None:
        self._output.answer(reply, _json({"type": "gap", "last_seq": expected, "seq": number}))


def _tailOf(batchId: bytes, count: int) -> bytes:
    name = json.dumps(decoded(batchId))
    return f',"batch":{name},"count":{count}'.encode()


def _json(value: dict[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
