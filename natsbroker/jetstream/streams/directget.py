"""
Direct get: messages of a stream, answered as messages with headers instead of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import hot
from natsbroker.interfaces import IBatchSubscriber, IShortcutLog, ISubscription
from natsbroker.interfaces.records import Record, StoreError, SubjectTallies
from natsbroker.jetstream.model.bodies import MessageGetRequest
from natsbroker.jetstream.model.statusrequests import (
    StatusRefusal,
    parseDirect,
    parseDirectLast,
)
from natsbroker.jetstream.streams.msgheaders import needsNewerApi
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.streamrecords import SEARCH
from natsbroker.subjects.grammar import hasWildcard, isValidSubject
from natsbroker.wire.timestamps import formatTime
from natsbroker.wire.values import Message

MOST_SUBJECTS = 1024
"""The most subjects whose last messages one request reads."""

MOST_BYTES = 64 << 20
"""The bytes of an answer to a request that does not limit them: nats-server's C{max_pending}."""

SENT = 600
"""The cost of a message that is sent by itself, over a link or without headers, in the units of
L{natsbroker.pure.backlog}."""

TOGETHER = 16
"""The messages that are sent so in one slice."""

_PIECE = 256
_BY_SEQUENCE = re.compile(rb'\{"seq": ?([1-9][0-9]{0,17})\}')
_QUEUE = b"_sys_"
_NOT_FOUND = "404 Message Not Found"


@implementer(IBatchSubscriber)
class DirectGetResponder:
    """
    Answers the direct get requests for one stream, while its configuration permits them.

    A mirror may answer requests for its origin too, once it has caught up and so has all messages.
    It shares these requests with the origin by a queue group.
    """

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._names: list[str] = []
        self._subscriptions: list[ISubscription] = []
        self._hasCaughtUp = False
        self._step = self._compiledStep()

    def _compiledStep(self) -> Any:
        """The compiled step for messages in memory; C{None} without the lane."""
        stream = self._stream
        log = getattr(stream, "log", None)
        if hot.DirectGetStep is None or not IShortcutLog.providedBy(log):
            return None
        publisher = stream.account.records.publisher
        return hot.DirectGetStep(publisher, stream.name.encode(), stream.isInFile, log)

    def applyConfig(self) -> None:
        """Subscribe as the configuration of the stream asks."""
        config = self._stream.config
        names = [config.name] if config.allow_direct else []
        if config.mirror is not None and config.mirror_direct and self._hasCaughtUp:
            names.append(config.mirror.name)
        if names == self._names:
            return
        self.close()
        self._names = names
        account = self._stream.account
        prefixes = ["$JS.API"]
        if account.domain:
            prefixes.append(f"$JS.{account.domain}.API")
        for subject in (
            f"{prefix}.DIRECT.GET.{name}".encode() for name in names for prefix in prefixes
        ):
            self._subscriptions += [
                account.bus.serve(subject, self, 0, _QUEUE),
                account.bus.serve(subject + b".>", self, len(subject) + 1, _QUEUE),
            ]

    def caughtUp(self) -> None:
        """Answer for the origin too, because the mirror has caught up with it."""
        self._hasCaughtUp = True
        self.applyConfig()

    def close(self) -> None:
        """Answer no more requests."""
        subscriptions, self._subscriptions = self._subscriptions, []
        self._names = []
        for subscription in subscriptions:
            subscription.cancel()

    # Requests.

    def deliver(self, message: Message, tag: Any) -> None:
        self.deliverMany([(message, tag)])

    def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
        """
        Answer requests at the end of a turn, as streams take messages then.

        @param messages: with the length of the subject before that of the wanted message; 0 if
            the body names the message.
        """
        if not self._subscriptions:
            return
        if self._step is not None and self._stream.isSettled:
            messages = self._step.take(messages)
        for message, skip in messages:
            if message.reply:
                account = self._stream.account
                looking = self._lookUp(message, skip)
                if looking is not None:
                    account.run(looking)
                else:
                    account.serve(self._answer, message, skip, True, SEARCH)

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscriptions have no maximum."""

    # A single message, requested in the usual form.

    def _lookUp(self, message: Message, skip: int) -> Deferred[None] | None:
        """
        Answer a request directly, without the cost of a coroutine.

        @return: C{None} if the request is another one, or has to wait.
        """
        stream, body = self._stream, message.body
        if message.headerLength or not stream.isSettled:
            return None
        if skip:
            subject = message.subject[skip:]
            if body or not isValidSubject(subject) or hasWildcard(subject):
                return None
            looking = stream.lastMatching(subject)
        else:
            wanted = _BY_SEQUENCE.fullmatch(body)
            if wanted is None:
                return None
            looking = stream.get(int(wanted[1]))
        answering = looking.addCallback(self._verify).addCallback(self._sendFound, message.reply)
        return answering.addErrback(self._lookUpFailed, message.reply)

    def _verify(self, record: Record | None) -> Any:
        asking = self._stream.verify()
        return record if asking is None else asking.addCallback(lambda _: record)

    def _sendFound(self, record: Record | None, reply: bytes) -> None:
        if record is None:
            self._status(reply, _NOT_FOUND)
        else:
            self._send(reply, record, b"", False)

    def _lookUpFailed(self, failure: Failure, reply: bytes) -> None:
        failure.trap(StoreError)
        self._status(reply, f"500 {failure.value}")

    # All requests.

    async def _answer(self, message: Message, skip: int) -> None:
        try:
            if needsNewerApi(message.headers):
                raise StatusRefusal("412 Required Api Level")
            if self._stream.isDeleted:
                raise StatusRefusal(_NOT_FOUND)
            if skip:
                subject = message.subject[skip:].decode("utf-8", "surrogateescape")
                parsing = parseDirectLast(message.payload, subject)
            else:
                parsing = parseDirect(message.payload)
            request = await self._stream.account.inSteps(parsing)
            await self._stream.settle()
            if request.multi_last:
                await self._sendLast(message.reply, request)
            elif request.batch:
                await self._sendBatch(message.reply, request)
            else:
                await self._sendOne(message.reply, request)
        except StatusRefusal as refusal:
            self._status(message.reply, str(refusal))
        except StoreError as error:
            self._status(message.reply, f"500 {error}")

    async def _sendOne(self, reply: bytes, request: MessageGetRequest) -> None:
        stream = self._stream
        record: Record | None
        if request.last_by_subj:
            pattern = _pattern(request.last_by_subj)
            record = await stream.lastMatching(pattern)
        elif request.next_by_subj or request.start_time is not None:
            pattern = _pattern(request.next_by_subj or ">")
            record = await stream.nextMatching(pattern, await self._start(request))
        else:
            record = await stream.get(request.seq)
        await self._verified()
        if record is None:
            raise StatusRefusal(_NOT_FOUND)
        self._send(reply, record, b"", request.no_hdr)

    async def _verified(self) -> None:
        asking = self._stream.verify()
        if asking is not None:
            await asking

    async def _start(self, request: MessageGetRequest) -> int:
        """The sequence at which a request begins."""
        if request.start_time is not None:
            return await self._stream.sequenceAt(int(request.start_time))
        return max(request.seq, 1)

    # Many messages.

    async def _sendBatch(self, reply: bytes, request: MessageGetRequest) -> None:
        stream = self._stream
        filters = (_pattern(request.next_by_subj),) if request.next_by_subj else ()
        sequence = max(await self._start(request), stream.first)
        pending = await stream.count(filters, sequence)
        await self._verified()
        if request.batch > 0 and not pending:
            raise StatusRefusal(_NOT_FOUND)
        answer = _BatchAnswer(pending, request)
        while not answer.isFull and sequence <= stream.last:
            page = await stream.read(filters, sequence, min(_PIECE, answer.room))
            await self._verified()
            await self._sendPart(reply, answer, page.records, request.no_hdr)
            sequence = page.next
        self._status(reply, "204 EOB", answer.lines())

    async def _sendLast(self, reply: bytes, request: MessageGetRequest) -> None:
        stream = self._stream
        filters = tuple(pattern.encode() for pattern in request.multi_last)
        filters = tuple(pattern for pattern in filters if isValidSubject(pattern))
        lasts = await self._lastOfEach(filters, request)
        await self._verified()
        if not lasts.messages:
            raise StatusRefusal("404 No Results")
        start = await self._start(request)
        messages = [message for message in lasts.messages if message[0] >= start]
        answer = _BatchAnswer(len(messages), request)
        for sequence, known in messages:
            if answer.isFull:
                break
            await stream.account.turns.take(SEARCH)
            record = known or await stream.get(sequence)
            await self._sendPart(reply, answer, [] if record is None else [record], False)
        upTo = b"Nats-UpTo-Sequence: %d\r\n" % lasts.end
        self._status(reply, "204 EOB", answer.lines() + upTo)

    async def _lastOfEach(
        self, filters: tuple[bytes, ...], request: MessageGetRequest
    ) -> LastOfEach:
        stream = self._stream
        lasts: LastOfEach | None = LastOfEach(0, [])
        if request.up_to_seq or request.up_to_time is not None:
            end = request.up_to_seq
            if request.up_to_time is not None:
                end = await stream.sequenceAt(int(request.up_to_time)) - 1
            sequences = await _lastBefore(stream, filters, end)
            lasts = LastOfEach(end, [(sequence, None) for sequence in sequences])
        elif filters:
            most = request.max_bytes if request.max_bytes > 0 else MOST_BYTES
            lasts = await _lastOfEach(stream, filters, most)
        if lasts is None or len(lasts.messages) > MOST_SUBJECTS:
            raise StatusRefusal("413 Too Many Results")
        return lasts

    async def _sendPart(
        self, reply: bytes, answer: _BatchAnswer, records: Sequence[Record], isPlain: bool
    ) -> None:
        sent = 0
        if len(records) > 1 and not isPlain and not answer.isFull:
            stream, some = self._stream, list(records[: answer.room])
            state = (answer.pending, answer.last, answer.left)
            publisher = stream.account.records.publisher
            sent, size = publisher.publishAnswers(reply, some, stream.name.encode(), *state)
            if sent:
                answer.addMany(sent, size, some[sent - 1].sequence)
        for place, record in enumerate(records[sent:], sent):
            if answer.isFull:
                return
            if (place - sent) % TOGETHER == 0:
                count = min(TOGETHER, answer.room, len(records) - place)
                await self._stream.account.turns.take(SENT * count)
            self._send(reply, record, answer.add(record), isPlain)

    # Sending.

    def _send(self, reply: bytes, record: Record, lines: bytes, isPlain: bool) -> None:
        stream = self._stream
        headers = b""
        if not isPlain:
            headers = (
                b"%bNats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
                b"Nats-Time-Stamp: %b\r\n%b\r\n"
            ) % (
                record.headers[:-2] or b"NATS/1.0\r\n",
                stream.name.encode(),
                record.subject,
                record.sequence,
                formatTime(record.timestamp).encode(),
                lines,
            )
        stream.account.send(reply, record.payload, headers)

    def _status(self, reply: bytes, status: str, lines: bytes = b"") -> None:
        block = b"NATS/1.0 %b\r\n%b\r\n" % (status.encode(), lines)
        self._stream.account.send(reply, b"", block)


class _BatchAnswer:
    """
    The state of an answer of several messages.

    @ivar pending: the messages that the request selects and that are not sent.
    @ivar last: the sequence of the last message.
    @ivar left: the bytes that it may still have.
    @ivar room: the messages that it may still have.
    """

    def __init__(self, pending: int, request: MessageGetRequest) -> None:
        """The answer; the request selects C{pending} messages."""
        self.pending = pending
        self._isPlain = request.no_hdr and not request.multi_last
        self.last = 0
        self.left = request.max_bytes if request.max_bytes > 0 else MOST_BYTES
        self.room = request.batch
        if request.multi_last and request.batch <= 0:
            self.room = MOST_SUBJECTS

    @property
    def isFull(self) -> bool:
        return self.room <= 0 or self.left <= 0

    def add(self, record: Record) -> bytes:
        """
        Add a message. As in nats-server, a message without headers is not subtracted from the
        pending ones.

        @return: the headers that are added for the answer.
        """
        left = max(self.pending - 1, 0) if not self._isPlain else self.pending
        lines = _progress(left, self.last)
        size = len(record.subject) + len(record.headers) + len(record.payload)
        self.addMany(1, size, record.sequence)
        return lines

    def addMany(self, count: int, size: int, last: int) -> None:
        """
        Add messages.

        @param size: the bytes of their subjects, headers and payloads.
        @param last: the sequence of the last one.
        """
        if not self._isPlain:
            self.pending = max(self.pending - count, 0)
        self.last = last
        self.room -= count
        self.left -= size

    def lines(self) -> bytes:
        """The header lines that state the rest and the last message."""
        return _progress(self.pending, self.last)


def _progress(pending: int, last: int) -> bytes:
    return b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (pending, last)


def _pattern(subject: str) -> bytes:
    """Raise L{StatusRefusal} if the subject is invalid, so that no message has it."""
    pattern = subject.encode("utf-8", "surrogateescape")
    if not isValidSubject(pattern):
        raise StatusRefusal(_NOT_FOUND)
    return pattern


class LastOfEach(NamedTuple):
    """
    The last messages of subjects at one moment.

    @ivar end: the last sequence of the stream at that moment.
    @ivar messages: the sequences, rising, with the messages as far as they are read.
    """

    end: int
    messages: list[tuple[int, Record | None]]


async def _talliesOf(
    stream: StreamCore, filters: tuple[bytes, ...], end: int | None
) -> SubjectTallies:
    """
    The tallies of matching subjects that have a message at or before a sequence. With too many
    subjects, some more than L{MOST_SUBJECTS} are returned.

    @param end: C{None} for the tallies of every matching subject.
    """
    noted: SubjectTallies = {}

    def note(tallies: SubjectTallies) -> bool:
        noted.update(
            {key: tally for key, tally in tallies.items() if end is None or tally.first <= end}
        )
        return len(noted) > MOST_SUBJECTS

    await stream.eachTally(filters, note)
    return noted


async def _lastOfEach(
    stream: StreamCore, filters: tuple[bytes, ...], maxBytes: int
) -> LastOfEach | None:
    """
    The last message of each matching subject; C{None} for too many subjects.

    @param maxBytes: read no further messages after the one that reaches this size.
    """
    end = stream.last
    # All sequences are needed: every message of a subject may have been replaced behind C{end}.
    tallies = await _talliesOf(stream, filters, None)
    if len(tallies) > MOST_SUBJECTS:
        return None
    messages: dict[bytes, tuple[int, Record | None]] = {}
    isBehind = False
    for subject, tally in sorted(tallies.items(), key=lambda item: item[1].last):
        record = None
        if maxBytes > 0:
            await stream.account.turns.take(SEARCH)
            record = await stream.get(tally.last)
            if record is None:
                isBehind = True
                continue
            maxBytes -= len(record.subject) + len(record.headers) + len(record.payload)
        messages[subject] = tally.last, record
        isBehind = isBehind or tally.last > end
    # Messages stored meanwhile are behind C{end}, and replace those that were read. A view of
    # another broker's stream is not informed of them.
    known = stream.last
    while end < known or isBehind:
        page = await stream.read(filters, end + 1, _PIECE)
        messages.update((later.subject, (later.sequence, later)) for later in page.records)
        end, isBehind = page.next - 1, False
    return LastOfEach(end, sorted(messages.values(), key=itemgetter(0)))


async def _lastBefore(stream: StreamCore, filters: tuple[bytes, ...], end: int) -> list[int]:
    """
    The sorted sequences of the last message of each matching subject at or before a sequence. For
    subjects that have later messages, records are read.
    """
    tallies = await _talliesOf(stream, filters, end)
    sequences = [tally.last for tally in tallies.values() if tally.last <= end]
    open_ = {key: tally.first for key, tally in tallies.items() if tally.last > end}
    if len(tallies) > MOST_SUBJECTS or not open_:
        return sorted([*sequences, *open_.values()])
    last: dict[bytes, int] = {}
    sequence = min(open_.values())
    while sequence <= end:
        matching = await stream.read(tuple(open_), sequence, _PIECE)
        last.update(
            (record.subject, record.sequence)
            for record in matching.records
            if record.sequence <= end
        )
        sequence = matching.next
    return sorted([*sequences, *last.values()])
