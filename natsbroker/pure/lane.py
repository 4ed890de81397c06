"""
The lane in pure Python: a step in front of the readable path for runs of alike publishes.

Publishers mostly repeat themselves: the same line, then a payload of the same size. The meaning of
a line is remembered. Each message of a run with that line then costs a few slices, and the run one
join for each receiver. The lane takes only publishes that it fully understands, in order. It puts
the same bytes into outboxes as the readable path. It stops before everything else. Without it, only
speed changes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from random import Random

from natsbroker.interfaces.records import Record, RecordRun
from natsbroker.pure.backlog import BYTES, DIVISIBLE, FRAME
from natsbroker.pure.outbox import Outbox
from natsbroker.subjects.matcher import Matcher, Matches, TrafficCounter
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.subjects.subscription import Shadow, Subscription
from natsbroker.wire.decoder import Decoder
from natsbroker.wire.lines import HEAD, readLine
from natsbroker.wire.reach import MASKS
from natsbroker.wire.reserved import CLUSTER_SUBJECTS, isReserved, isReservedReply
from natsbroker.wire.schedules import mayNameSubjects
from natsbroker.wire.tracing import asksForTrace
from natsbroker.wire.values import Kind

#: The work of a message, and of each copy, while it is part of a run.
_MESSAGE = 4
_COPY = 4

#: The lines that are remembered, and the longest of them.
_LINES = 8192
_LONGEST = 512


class _Target:
    """
    A receiver of a run.

    @ivar prefix: its line in front of each payload.
    @ivar skip: the bytes of headers that it does not get.
    """

    __slots__ = ("outbox", "prefix", "skip", "subscription")

    def __init__(self, subscription: Subscription, prefix: bytes, skip: int) -> None:
        self.subscription = subscription
        self.outbox: Outbox = subscription.outbox
        self.prefix = prefix
        self.skip = skip

    def give(self, bodies: list[bytes], size: int) -> None:
        """
        @param bodies: headers and payload with their CRLF, of each message.
        @param size: the size of each, without the CRLF.
        """
        outbox = self.outbox
        if outbox.closed:
            return
        skip = self.skip
        if skip:
            bodies = [body[skip:] for body in bodies]
        count = len(bodies)
        data = self.prefix + self.prefix.join(bodies)
        if outbox.pending + len(data) > outbox.limit:
            self._giveSingly(bodies, size - skip)
            return
        outbox.putRun(data, count, count * (size - skip))
        self.subscription.delivered += count

    def _giveSingly(self, bodies: list[bytes], size: int) -> None:
        """Put messages into the outbox until it overflows, so that just these are counted."""
        for body in bodies:
            if self.outbox.closed:
                return
            self.outbox.putRun(self.prefix + body, 1, size)
            self.subscription.delivered += 1


@dataclass(eq=False, slots=True)
class _Plan:
    """
    The meaning of a line, while the subscriptions stay as they are.

    @ivar mustReach: whether the publisher wants to know if nobody gets it.
    @ivar longest: the number of messages that may be delivered together. It is one if receivers
        share an outbox, whose output must be in the order of the messages.
    @ivar cost: the work of each message.
    """

    size: int
    plain: list[_Target]
    groups: list[list[_Target]]
    mustReach: bool
    counter: TrafficCounter | None
    copies: int
    header: int
    longest: int = field(init=False)
    cost: int = field(init=False)

    def __post_init__(self) -> None:
        targets = [*self.plain, *(target for group in self.groups for target in group)]
        shared = len({id(target.outbox) for target in targets}) < len(targets)
        self.longest = 1 if shared else sys.maxsize
        count = len(self.plain) + len(self.groups)
        self.cost = _MESSAGE + count * (_COPY + (self.size >> BYTES))

    def isRunnable(self) -> bool:
        """
        Whether a run cannot be interrupted: no receiver counts its messages, and there is a
        receiver if that matters.
        """
        reached = not self.mustReach
        for target in self.plain:
            if target.subscription.maximum:
                return False
            reached = reached or not target.outbox.closed
        for group in self.groups:
            for target in group:
                if target.subscription.maximum or target.outbox.closed:
                    return False
                reached = True
        return reached


class _RulesOf:
    """The rules of a decoder for a line that is only examined: its input stays."""

    __slots__ = ("authorized", "headers", "maxControlLine", "maxPayload")

    def __init__(self, decoder: Decoder) -> None:
        self.authorized: bool = decoder.authorized
        self.headers: bool = decoder.headers
        self.maxControlLine: int = decoder.maxControlLine
        self.maxPayload: int = decoder.maxPayload

    def take(self) -> bytes:
        return b""


@dataclass(eq=False, slots=True)
class Lane:
    """
    @cvar isShort: whether the last run ended before an incomplete publish, so that the decoder need
        not be called. Only the compiled lane sets it.
    """

    isShort = False

    decoder: Decoder
    outbox: Outbox
    matcher: Matcher
    permissions: PermissionSet | None
    noResponders: bool
    origin: object = None
    _known: dict[bytes, _Plan | None] = field(default_factory=dict, init=False)
    _generation: int = field(init=False)
    _random: Random = field(default_factory=Random, init=False)

    def __post_init__(self) -> None:
        self._generation = self.matcher.generation

    def complete(self) -> None:
        """
        Deliver the rest of a message before the lane is given up. This lane leaves a message that
        may take several batches to the readable path.
        """

    def forward(self) -> int:
        """
        Forward the longest run of publishes that is fully understood, within the batch's share of
        work.
        """
        decoder, matcher = self.decoder, self.matcher
        if matcher.needsSlowPath or not decoder.isBetweenLines:
            return 0
        if matcher.generation != self._generation:
            self._known.clear()
            self._generation = matcher.generation
        buffer, position = decoder.window
        known = self._known
        batch = self.outbox.batch
        total = 0
        while not batch.isSpent:
            end = buffer.find(b"\n", position) + 1
            if not end:
                break
            line = buffer[position:end]
            plan = known[line] if line in known else self._understand(line)
            if plan is None or not plan.isRunnable():
                break
            bodies = _bodies(
                buffer, position, line, plan, 1 + (batch.until - batch.work) // plan.cost
            )
            if plan.header:
                bodies = list(takewhile(partial(self._isSimple, plan.header), bodies))
            if not bodies:
                break
            count = len(bodies)
            batch.work += count * plan.cost
            self._deliver(plan, bodies)
            if plan.counter is not None:
                plan.counter.add(count, count * plan.size, plan.copies)
            position += count * (len(line) + plan.size + 2)
            decoder.took(position, count, count * plan.size)
            total += count
        return total

    def _isSimple(self, header: int, body: bytes) -> bool:
        isTraced = asksForTrace(body, header, self.matcher.tracesParents)
        return not (isTraced or mayNameSubjects(body, header))

    def _understand(self, line: bytes) -> _Plan | None:
        plan = self._plan(line)
        if len(line) <= _LONGEST:
            if len(self._known) >= _LINES:
                self._known.clear()
            self._known[line] = plan
        return plan

    def _plan(self, line: bytes) -> _Plan | None:
        if line[:1] not in _PUBLISHING:
            return None
        frame = readLine(line[:-1], _RulesOf(self.decoder))
        if frame[0] != HEAD:
            return None
        _, _, subject, reply, headerLength, size, sizeText, headerText = frame
        matcher = self.matcher
        if matcher.mapSubject is not None:
            mapped = matcher.mapSubject(subject)
            if mapped is None:
                return None
            subject = mapped
        if isReserved(subject) or subject.startswith(CLUSTER_SUBJECTS) or isReservedReply(reply):
            return None
        if self.permissions is not None and not self.permissions.allows(subject):
            return None
        matches = matcher.match(subject)
        receivers = len(matches.plain) + sum(len(here) for _, here, _ in matches.groups)
        self.outbox.batch.work += FRAME + matcher.takeCost()
        if receivers >= DIVISIBLE or not _isDirect(matches):
            return None
        tail = b"%b %b" % (reply, sizeText) if reply else sizeText
        if headerLength:
            tail = b"%b%b %b" % (reply + b" " if reply else b"", headerText, sizeText)
        head = (subject, reply, headerLength, size, tail)
        return _Plan(
            size,
            self._targets(matches.plain, head),
            [targets for _, here, _ in matches.groups if (targets := self._targets(here, head))],
            bool(reply) and self.noResponders,
            matches.counter,
            matches.copies,
            headerLength,
        )

    def _targets(
        self, subscriptions: tuple[Subscription, ...], head: tuple[bytes, bytes, int, int, bytes]
    ) -> list[_Target]:
        published, reply, headerLength, size, tail = head
        targets = []
        for subscription in subscriptions:
            subject = published
            if isinstance(subscription, Shadow):
                if subscription.rename is not None:
                    subject = subscription.rename(published)
                subscription = subscription.original
            outbox = subscription.outbox
            permissions = subscription.permissions
            if outbox is self.outbox and not outbox.echo:
                continue
            if permissions and not permissions.mayDeliver(subject, subscription.queue):
                continue
            skip = 0
            if headerLength and not outbox.headers:
                skip = headerLength
                text = b"%b %d" % (reply, size - skip) if reply else b"%d" % (size - skip)
                prefix = b"MSG %b %b %b\r\n" % (subject, subscription.tag, text)
            else:
                kind = b"HMSG" if headerLength else b"MSG"
                prefix = b"%b %b %b %b\r\n" % (kind, subject, subscription.tag, tail)
            targets.append(_Target(subscription, prefix, skip))
        return targets

    def _deliver(self, plan: _Plan, bodies: list[bytes]) -> None:
        for target in plan.plain:
            target.give(bodies, plan.size)
        for group in plan.groups:
            if len(group) == 1:
                group[0].give(bodies, plan.size)
                continue
            shares: dict[_Target, list[bytes]] = {}
            for target, body in zip(
                self._random.choices(group, k=len(bodies)), bodies, strict=True
            ):
                shares.setdefault(target, []).append(body)
            for target, share in shares.items():
                target.give(share, plan.size)


class InternalPublisher:
    """
    A fast way for short messages from services to connections. In pure Python it is the readable
    path.
    """

    __slots__ = ()

    def __init__(self, matcher: Matcher) -> None:
        pass

    def publishInternal(self, subject: bytes, payload: bytes) -> int:
        """
        Put a message without reply subject and headers into its receivers' outboxes.

        @return: the number of receivers; 0 leaves the message to the readable path.
        """
        return 0

    def publishBatch(self, subject: bytes, payloads: list[bytes]) -> int:
        return 0

    def publishEmpty(self, subjects: list[bytes], place: int) -> int:
        """
        Put empty messages into their receivers' outboxes.

        @param subjects: one for each message.
        @param place: of the subject to begin with.
        @return: the place of the subject that is left to the readable path, or behind the last.
        """
        return place

    def publishAcks(
        self,
        answers: Sequence[tuple[bytes, bytes | None, int, bytes, int]],
        place: int,
        prefix: bytes,
        first: int,
    ) -> int:
        """
        Put acknowledgements of a stream's batch into their receivers' outboxes, up to the first one
        with more text after the sequence.

        @param answers: see L{natsbroker.jetstream.streams.publishanswers.StreamBatch}.
        @param place: the place of the answer to begin with.
        @param prefix: the text before the sequence.
        @param first: the sequence of the entry with place 0.
        @return: the place of the answer that is left to the readable path, or behind the last.
        """
        return place

    def publishRecords(self, run: RecordRun) -> tuple[int, int]:
        """
        Put stored messages into their receivers' outboxes.

        @return: the number of messages, and their size; zeros leave them to the readable path.
        """
        return 0, 0

    def publishAnswers(
        self,
        subject: bytes,
        records: Sequence[Record],
        stream: bytes,
        pending: int,
        last: int,
        most: int,
    ) -> tuple[int, int]:
        """
        Put stored messages into their receivers' outboxes as answers of a direct get.

        @param pending: the messages that the request selects and that are not sent.
        @param last: the sequence of the message before.
        @param most: stop behind the message with which subjects, headers and payloads reach this
            size.
        @return: the number of messages, and the bytes of their subjects, headers and payloads;
            zeros leave them to the readable path.
        """
        return 0, 0


_PUBLISHING = (b"P", b"p", b"H", b"h")


def _bodies(buffer: bytes, position: int, line: bytes, plan: _Plan, longest: int) -> list[bytes]:
    bodies: list[bytes] = []
    start = len(line)
    step = start + plan.size + 2
    last = min(len(buffer) - step, position + step * (min(plan.longest, longest) - 1))
    while position <= last and buffer.startswith(line, position):
        body = buffer[position + start : position + step]
        if not body.endswith(b"\r\n"):
            break
        bodies.append(body)
        position += step
    return bodies


def _isDirect(matches: Matches) -> bool:
    if matches.links or not all(map(_mayBeWrittenTo, matches.plain)):
        return False
    return all(not there and all(map(_mayBeWrittenTo, here)) for _, here, there in matches.groups)


def _mayBeWrittenTo(subscription: Subscription) -> bool:
    if not MASKS[Kind.CLIENT] >> subscription.kind & 1:
        return False
    if isinstance(subscription, Shadow):
        subscription = subscription.original
    outbox = subscription.outbox
    return outbox is not None and bool(outbox.direct)
