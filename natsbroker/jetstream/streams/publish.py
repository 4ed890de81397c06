"""
Publishing to a stream: the checks in nats-server's order, the append, the acknowledgements.

The messages of one turn are appended as one batch. A check that must read the log delays those
messages that must not overtake it (L{JudgementQueue}).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import hot
from natsbroker.interfaces import IRunSubscriber, ITracedSubscriber
from natsbroker.interfaces.records import Record, StoreError
from natsbroker.jetstream.batches.fastbatches import SUFFIX, FastBatches
from natsbroker.jetstream.batches.rollups import rollupsIn, rollupsOf
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.sourceconsumers import OriginDelivery
from natsbroker.jetstream.model.streamconfig import RetentionPolicy
from natsbroker.jetstream.streams.atomicbatches import AtomicBatches
from natsbroker.jetstream.streams.duplicates import DuplicateWindow
from natsbroker.jetstream.streams.lookups import JudgementQueue
from natsbroker.jetstream.streams.msgheaders import MessageHeaders, storable
from natsbroker.jetstream.streams.publishanswers import (
    DUPLICATE,
    NAMES_LAST,
    OR_FAILURE,
    Arrived,
    PublishAnswers,
    ReadMessage,
    StreamBatch,
    answersOfFailed,
    refusalPlace,
    refuseAll,
    storeFailed,
    tracedIn,
)
from natsbroker.jetstream.streams.publishchecks import (
    NO_HEADERS,
    Candidate,
    PublishChecks,
    StoredBefore,
)
from natsbroker.jetstream.streams.publishkeys import Way, wayOf
from natsbroker.jetstream.streams.publishsteps import PublishSteps
from natsbroker.jetstream.streams.republish import republisherOf
from natsbroker.jetstream.streams.storageuse import StreamAppends
from natsbroker.jetstream.streams.storedsubjects import StoredSubjects
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.subjectstates import SubjectStates
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Message, Run

_log = Logger(namespace="natsbroker.jetstream")


@implementer(IRunSubscriber, ITracedSubscriber)
class StreamPublisher:
    """
    The subscriber to a stream's subjects.

    @ivar duplicates: the message ids of the duplicate window.
    @ivar subjects: the last sequences of subjects.
    @ivar steps: takes runs of simple messages.
    """

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._account = stream.account
        self._publisher = hot.InternalPublisher(stream.account.bus.matcher)
        self.duplicates = DuplicateWindow(stream.config.duplicate_window)
        self.subjects = SubjectStates()
        self.steps = PublishSteps(stream, self.duplicates, self.subjects)
        self._renamed = StoredSubjects()
        self._checks = checks = PublishChecks(stream, self.duplicates, self.subjects, self._usage)
        self._atomic = AtomicBatches(stream, checks)
        self._fast = FastBatches(stream, self, checks, self._prepared, self._nextSequence)
        self._use = checks.room
        self._batch: StreamBatch | None = None
        self._judging = JudgementQueue(
            stream,
            self.subjects,
            self._judge,
            lambda message: self._renamed.ofAll(self._atomic.stagedWith(message)),
            self._refuse,
            self.flush,
        )
        self._appends = StreamAppends(stream)
        self._isClosed = False
        self.applyConfig()

    def applyConfig(self) -> None:
        """Use the configuration that the stream has now."""
        config = self._stream.config
        self.duplicates.window = config.duplicate_window
        self._answers = PublishAnswers(config.name, self._account.domain)
        self._renamed.applyConfig(config)
        self._republisher = republisherOf(self._stream, self.subjects)
        if not config.allow_batched:
            self._fast.close()
        self._keepsNothing = config.retention is RetentionPolicy.INTEREST
        way = wayOf(config)
        self._isVerbatim = way is Way.ANY
        self.steps.applyConfig(way)
        self._checks.applyConfig()

    def close(self) -> None:
        """Stop taking messages."""
        self._isClosed = True
        self._judging.close()
        self._atomic.close()
        self._fast.close()

    def forget(self) -> None:
        """Forget the states of subjects, because messages are being deleted."""
        self.subjects.clear()
        self._checks.counters.clear()

    @property
    def isBusy(self) -> bool:
        """Whether a judged message, or one that the stream has made or read, is not durable yet."""
        return self._appends.count > 0 or self._judging.isOwnWaiting

    def barrier(self) -> Deferred[Any]:
        """
        Wait until all messages are durable that were judged, or that the stream has made or read.
        Messages that wait for a look-up are not included.
        """
        if self._judging.isOwnWaiting:
            # The barrier is not used again, because two of them would wait for each other without
            # end.
            return self._judging.whenOwnJudged().addCallback(lambda _: self._appended())
        return self._appended()

    def _appended(self) -> Deferred[Any]:
        return self._stream.written() if self._appends.count else succeed(None)

    def deliver(self, message: Message, tag: Any) -> None:
        content = message.headers, message.payload
        self.take(message.subject, message.reply, *content, message.origin)
        self.flush()

    def deliverTraced(self, message: Message) -> None:
        """Deliver without a trace. The trace of a message ends where it is stored."""
        if not self._isClosed:
            self._judging.take(tracedIn(self._stream.name, message))
            self.flush()

    def deliverRuns(self, runs: list[tuple[Run, Any]]) -> None:
        run = place = 0
        isNear = self._use.isNear()
        while run < len(runs):
            if not (isNear or self._judging.isWaiting or self._isClosed):
                run, place, self._batch = self.steps.take(runs, run, place, self._batch)
            if run < len(runs):
                head = runs[run][0]
                body, skip = head.bodies[place], head.headerLength
                self.take(head.subject, head.reply, body[:skip], body[skip:], head.origin)
                place += 1
                if place == len(head.bodies):
                    run, place = run + 1, 0
        self.flush()

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""

    def take(
        self, subject: bytes, reply: bytes, headers: bytes, payload: bytes, publisher: object = None
    ) -> None:
        """Take a message; L{flush} stores it with the others."""
        if not self._isClosed:
            headers = storable(headers)
            self._judging.take(Arrived(subject, reply, headers, payload, publisher=publisher))

    def takeFrom(self, origin: ReadMessage, subject: bytes, headers: bytes, payload: bytes) -> None:
        """Take a message that was read from another stream."""
        if not self._isClosed:
            self._judging.take(Arrived(subject, b"", headers, payload, True, origin=origin))

    def isVerbatim(self) -> bool:
        """Whether a mirror can append the messages that it reads, without checks or changes."""
        return self._isVerbatim and not (self._judging.isWaiting or self._use.isNear())

    def takeIf(
        self, subject: bytes, headers: bytes, payload: bytes, place: bytes, last: int
    ) -> None:
        """
        Take a message that the stream makes itself. A message that stands for the last one of its
        subject is not transformed.

        @param place: a subject. The message is stored only if the last sequence of this subject is
            C{last}.
        """
        if not self._isClosed:
            self._judging.take(Arrived(subject, b"", headers, payload, True, place, last))

    def _judge(self, arrived: Arrived) -> None:
        """
        Check a message, and put it into the batch.

        @raise JetStreamError: if it is refused.
        """
        origin, isSourced = arrived.origin, arrived.isSourced
        if arrived.place and self._checks.lastOf(arrived.place) != arrived.last:
            return
        delivery = None if origin is None else origin.delivery
        if origin is not None and delivery is not None and not self._reach(origin, delivery):
            return
        if arrived.reply.endswith(SUFFIX) and not isSourced:
            self._fast.take(arrived)
            return
        headers = arrived.headers
        known = MessageHeaders(headers) if headers and b"Nats-" in headers else NO_HEADERS
        if known is not NO_HEADERS and not isSourced and known.get(b"Nats-Batch-Id"):
            self._judgeAtomic(arrived, known)
            return
        now = self._account.now() if delivery is None else delivery.timestamp
        subject = self._renamed.of(arrived)
        following = 0 if known is NO_HEADERS else self._nextSequence()
        message = Candidate(arrived, subject, known, following, now)
        try:
            self._checks.checkMessage(message)
        except StoredBefore as before:
            self._passOver(arrived, before.sequence)
            return
        isKept = self._isKept(subject)
        trace = arrived.trace
        if trace is not None:
            trace.judged(subject, isKept)
            if trace.isOnly:
                return
        if isKept:
            self._store(arrived, message)
        else:
            self.flush()
            if origin is None or not origin.isWithdrawn:
                self._skip(arrived.reply, message)
                self._stream.sources.passed(origin)

    def _passOver(self, arrived: Arrived, sequence: int) -> None:
        """Take a message that was stored before. It counts with its sequence."""
        if arrived.trace is not None:
            arrived.trace.repeated()
        self._answerDuplicate(arrived.reply, sequence)
        self._opened().passedBy(arrived.origin)

    def _store(self, arrived: Arrived, message: Candidate) -> None:
        tail = b""
        self._checks.checkStored(message)
        if self._republisher is not None:
            self._republisher.prepare(message.subject)
        if message.increment is not None:
            self._checks.count(message)
            tail = b"," + message.payload[1:-1]
        self.put(message, arrived.reply, tail)
        if arrived.origin is not None:
            self._opened().sourced(arrived.origin)

    def _prepared(self, subject: bytes) -> bytes:
        subject = self._renamed.transformed(subject)
        if self._republisher is not None:
            self._republisher.prepare(subject)
        return subject

    def _judgeAtomic(self, published: Arrived, known: MessageHeaders) -> None:
        """
        Take a message of an atomic batch. A commit puts all of them into the batch that is
        appended.
        """
        messages = self._atomic.take(published, known, self._prepared, self._nextSequence())
        if not messages:
            self.answer(published.reply, b"")
            return
        last = len(messages) - 1
        name = json.dumps(decoded(known.get(b"Nats-Batch-Id")))
        tail = f',"batch":{name},"count":{last + 1}'.encode()
        for place, message in enumerate(messages):
            self.put(message, published.reply if place == last else b"", tail)
            if self._batch is not None and not self._isKept(message.subject):
                self._batch.unwanted.append(len(self._batch.entries) - 1)

    def putFast(self, message: Candidate, failed: Callable[[], object], reply: bytes) -> int:
        """
        Put a message of a fast batch into the batch to append.

        @param failed: called if it cannot be stored; the publisher receives the error then.
        @return: its sequence.
        """
        sequence = self._nextSequence()
        self.put(message, b"")
        if self._batch is not None:
            self._batch.failures.append((reply, failed))
            if not self._isKept(message.subject):
                self._batch.unwanted.append(len(self._batch.entries) - 1)
        return sequence

    def _nextSequence(self) -> int:
        if self._batch is not None:
            return self._batch.first + len(self._batch.entries)
        return int(self._stream.log.nextSequence)

    def _isKept(self, subject: bytes) -> bool:
        return not self._keepsNothing or self._stream.consumers.isWanted(subject)

    def _usage(self) -> tuple[int, int]:
        return self._appends.usage(self._batch)

    def put(self, message: Candidate, reply: bytes, tail: bytes = b"") -> None:
        """
        Put a message that passed the checks into the batch.

        @param tail: the part of the answer after the sequence.
        """
        batch = self._opened()
        place = len(batch.entries)
        sequence = batch.first + place
        subject, headers, now = message.subject, message.headers, message.now
        batch.size += self._stream.sizeOf(subject, headers, message.payload)
        stored = headers
        if headers and self._stream.isInFile:
            stored = len(headers).to_bytes(4, "big") + headers
        batch.entries.append((subject, stored, message.payload, now))
        if reply:
            batch.answers.append((reply, None, place, tail, 1))
        if message.messageId:
            self.duplicates.add(message.messageId, sequence, now)
        self.duplicates.last = message.messageId
        if message.known is not NO_HEADERS:
            config = self._stream.config
            batch.rollups += rollupsOf(config, subject, headers, message.rollup, place)
        if self._republisher is not None:
            self._republisher.add(batch, subject)
        self.subjects.stored(subject, sequence)

    def _skip(self, reply: bytes, message: Candidate) -> None:
        """
        Skip the sequence of a message that no consumer wants. The message is acknowledged but not
        stored.
        """
        sequence = self._nextSequence()
        if message.messageId:
            self.duplicates.add(message.messageId, sequence, message.now)
        self.duplicates.last = message.messageId
        self._stream.skippedAt = self._account.now()
        self._appends.skipTo(sequence + 1).addCallbacks(
            lambda _: self._answer(reply, self._answers.stored(sequence)),
            lambda failure: self._refuse(reply, storeFailed(failure)),
        )
        rollups = rollupsOf(
            self._stream.config, message.subject, message.headers, message.rollup, 0
        )
        if rollups:
            self._stream.upkeep.keepTrying(self._stream.rollUp, sequence, rollups)

    def _reach(self, origin: ReadMessage, delivery: OriginDelivery) -> bool:
        """
        Skip the sequences before a message that a mirror has read.

        @return: whether the message is still to be stored.
        """
        sequence = delivery.sequence
        if sequence > self._nextSequence():
            self.flush()
            self._appends.skipFor(origin, sequence)
        return sequence >= self._nextSequence() and not origin.isWithdrawn

    def flush(self) -> Deferred[Any]:
        """
        Append all messages that were taken.

        @return: fires when they are durable and the messages that they replace are removed, or when
            this has failed.
        """
        batch, self._batch = self._batch, None
        self._use.forget()
        if batch is None:
            return succeed(None)
        if not batch.entries and not self._appends.count:
            self._stream.sources.appended(batch)
            self._answerAll(batch, batch.first)
            return succeed(None)
        storing = self._appends.append(batch)
        storing.addCallbacks(self._stored, self._failed, (batch,), errbackArgs=(batch,))
        return storing.addErrback(
            lambda failure: _log.failure("A step after storing failed", failure)
        )

    def learn(self, lasts: Callable[[], Mapping[bytes, int]]) -> Deferred[None]:
        """Save messages of L{takeIf} a look-up each: see L{JudgementQueue.learn}."""
        return self._judging.learn(lasts)

    def _stored(self, sequences: range, batch: StreamBatch) -> Deferred[Any] | None:
        stream, rolling = self._stream, None
        self._appends.settled(batch)
        if stream.isDeleted:
            return None
        for place, publishCopy in batch.copies:
            publishCopy(batch.first + place, batch.entries[place])
        if not batch.rollups:
            self._answerAll(batch, batch.first)
        if batch.entries:
            isWatched = bool(stream.consumers) or bool(stream.watchers)
            records = batch.records(4 if stream.isInFile else 0) if isWatched else []
            stream.stored(records, isWatched)
        # Some of the messages to remove may have been stored just now.
        if batch.rollups:
            rolling = stream.upkeep.carryOut(stream.rollUp, batch.first, batch.rollups)
            self._account.run(rolling.addCallback(lambda _: self._answerAll(batch, batch.first)))
        if batch.unwanted:
            stream.drop([batch.first + place for place in batch.unwanted])
        return rolling

    def rollUpAgain(self, records: Sequence[Record]) -> None:
        """Remove the messages that rollups replace, and may not have removed yet."""
        if rollups := rollupsIn(self._stream.config, records):
            self._stream.upkeep.keepTrying(self._stream.rollUp, 0, rollups)

    def _answerAll(self, batch: StreamBatch, first: int) -> None:
        if not self._stream.config.no_ack:
            bus, bounds = self._account.bus, self._stream.log.bounds
            self._answers.send(bus, self._publisher, batch, first, bounds)

    def _failed(self, failure: Failure, batch: StreamBatch) -> None:
        """Fail the batch: nothing of it is stored."""
        self._appends.settled(batch)
        error = storeFailed(failure)
        if not failure.check(StoreError):
            _log.failure("Storing messages of {name} failed", failure, name=self._stream.name)
        self._stream.upkeep.outcome.failed(batch.first, failure)
        self.forget()
        refuseAll(batch.origins, error)
        text = self._answers.error(error)
        for reply, answer in answersOfFailed(batch, text):
            self._answer(reply, answer)
        for reply, failed in batch.failures:
            failed()
            self._answer(reply, text)

    def _refuse(self, reply: bytes, error: JetStreamError) -> None:
        self.answer(reply, self._answers.error(error), refusalPlace(error))

    def answer(self, reply: bytes, answer: bytes, place: int = 0) -> None:
        """
        Answer when everything before is durable.

        @param place: L{ONLY_STORED}, L{OR_FAILURE}, or 0 to answer also if that cannot be stored.
        """
        if reply:
            batch, tail = self._opened(), b""
            if place == OR_FAILURE:
                place, tail = len(batch.entries) - 1, NAMES_LAST
            batch.answers.append((reply, answer, place, tail, 1))

    def _answerDuplicate(self, reply: bytes, sequence: int) -> None:
        """
        Acknowledge a message that was taken before, once that one is durable: it may still fail.
        """
        if reply:
            batch = self._opened()
            batch.answers.append((reply, None, sequence - batch.first, DUPLICATE, 1))

    def _opened(self) -> StreamBatch:
        if self._batch is None:
            self._batch = StreamBatch(self._stream.log.nextSequence)
        return self._batch

    def _answer(self, reply: bytes, answer: bytes) -> None:
        if reply and not self._stream.config.no_ack:
            self._account.bus.publishInternal(reply, answer)
