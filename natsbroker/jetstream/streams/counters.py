"""
Counters: streams whose messages are increments, and whose stored payloads are totals.

Totals have any number of digits. They are decimal numbers, because Python refuses to turn long
texts into integers, and needs time that is quadratic in their length for it.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import partial
from typing import NamedTuple

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.streams.msgheaders import MessageHeaders, withHeader
from natsbroker.jetstream.streams.subjectstates import KNOWN, SubjectUnknown
from natsbroker.wire.text import decoded

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_NUMBER = re.compile(rb"[+-]?[0-9]+")
_CONFLICTS = (
    b"Nats-Rollup",
    b"Nats-Expected-Stream",
    b"Nats-Expected-Last-Msg-Id",
    b"Nats-Expected-Last-Subject-Sequence-Subject",
    b"Nats-Expected-Last-Sequence",
    b"Nats-Expected-Last-Subject-Sequence",
)
"""The headers that a message with an increment must not have."""


def incrementOf(
    known: MessageHeaders, payload: bytes, isCounter: bool, isSourced: bool = False
) -> Decimal | None:
    """
    The increment that a message asks for; C{None} for none.

    @param isCounter: whether the stream has counters.
    @param isSourced: whether the message comes from a source, with the total of the counter there.
    @raise errors.JetStreamError: if the increment is refused.
    """
    text = known.get(b"Nats-Incr")
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise errors.MESSAGE_INCR_INVALID()
    if isSourced:
        return Decimal(text.decode()) if isCounter else None
    if not isCounter:
        raise errors.MESSAGE_INCR_DISABLED()
    if payload:
        raise errors.MESSAGE_INCR_PAYLOAD()
    if any(known.get(key) for key in _CONFLICTS):
        raise errors.MESSAGE_INCR_INVALID()
    return Decimal(text.decode())


class CounterState(NamedTuple):
    """
    The last message of a counter.

    @ivar total: C{None} if the message cannot be read.
    @ivar sources: the header with the totals of the counter's sources; empty for none.
    """

    total: Decimal | None
    sources: bytes
    sequence: int

    def plus(self, increment: Decimal, sequence: int) -> CounterState:
        """
        The counter after an increment. L{errors.JetStreamError} if the counter's message is
        unreadable.
        """
        if self.total is None:
            raise errors.MESSAGE_COUNTER_BROKEN()
        return CounterState(_EXACT.add(self.total, increment), self.sources, sequence)

    def merged(
        self, known: MessageHeaders, subject: bytes, payload: bytes, sequence: int
    ) -> tuple[CounterState, Decimal]:
        """
        The counter after a message of a source. The message has the total of the counter in its
        origin. The increment is the growth of that total since the last message of that counter.

        @param known: the headers, one of which names the origin of the message.
        @param subject: the counter's in this stream.
        @raise errors.JetStreamError: if one of the two cannot be read.
        """
        total = _totalOf(payload)
        words = known.get(b"Nats-Stream-Source").split(b" ")
        if self.total is None or total is None:
            raise errors.MESSAGE_COUNTER_BROKEN()
        stream = decoded(words[0])
        place = decoded(words[4] if len(words) > 4 else subject)
        sources = json.loads(self.sources) if self.sources else {}
        before = Decimal(sources.get(stream, {}).get(place) or 0)
        sources.setdefault(stream, {})[place] = str(total)
        increment = _EXACT.subtract(total, before)
        state = CounterState(_EXACT.add(self.total, increment), _sourcesHeader(sources), sequence)
        return state, increment

    def stored(self, headers: bytes) -> tuple[bytes, bytes]:
        """The headers and the payload to store for the increment of a message with headers."""
        if self.sources:
            headers = withHeader(headers, b"Nats-Counter-Sources", self.sources)
        return headers, b'{"val":"%b"}' % str(self.total).encode()


class CounterTotals:
    """The counters that were incremented last, including appends that are under way."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, CounterState] = OrderedDict()

    def find(self, subject: bytes, first: int) -> CounterState:
        """
        The last state of a counter; L{SubjectUnknown} if the log must be asked first.

        @param first: the first sequence of the stream. A counter without a message from there on
            begins with 0.
        """
        state = self._known.get(subject)
        if state is None:
            raise SubjectUnknown(subject, partial(self.found, subject))
        return state if state.sequence >= first else CounterState(Decimal(0), b"", 0)

    def found(self, subject: bytes, record: Record | None) -> None:
        state = CounterState(Decimal(0), b"", 0) if record is None else _stateOf(record)
        self.stored(subject, state)

    def stored(self, subject: bytes, state: CounterState, headers: bytes = b"") -> None:
        """
        Note an increment that is being appended. A counter whose sources are in its headers has to
        be looked up.
        """
        if not state.sources and b"Nats-Counter-Sources:" in headers:
            self._known.pop(subject, None)
            return
        self._known[subject] = state
        self._known.move_to_end(subject)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)

    def clear(self) -> None:
        self._known.clear()


def _stateOf(record: Record) -> CounterState:
    broken = CounterState(None, b"", record.sequence)
    text = MessageHeaders(record.headers).get(b"Nats-Counter-Sources")
    total = _totalOf(record.payload)
    try:
        sources = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return broken
    if total is None or not _areSources(sources):
        return broken
    return CounterState(total, _sourcesHeader(sources) if sources else b"", record.sequence)


def _totalOf(payload: bytes) -> Decimal | None:
    """The total in the payload of a counter's message; C{None} if it cannot be read."""
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    total = value.get("val", "0") if isinstance(value, dict) else None
    if not isinstance(total, str) or not _NUMBER.fullmatch(total.encode()):
        return None
    return Decimal(total)


def _sourcesHeader(sources: dict[str, dict[str, str]]) -> bytes:
    header = json.dumps(sources, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return header.encode()


def _areSources(value: object) -> bool:
    """Whether a header has totals by stream and subject."""
    return isinstance(value, dict) and all(
        isinstance(totals, dict) and all(_isTotal(total) for total in totals.values())
        for totals in value.values()
    )


def _isTotal(value: object) -> bool:
    return isinstance(value, str) and _NUMBER.fullmatch(value.encode()) is not None
