"""
Counters.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.streams.counters import (
    CounterState,
    CounterTotals,
    incrementOf,
)
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.publishanswers import ReadMessage
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.jetstream.streams.subjectstates import SubjectUnknown
from tests.jetstream.support import Stage

_INVALID = (10171, "message counter increment is invalid")
_BROKEN = (10172, "message counter is broken")


def _known(*lines: str) -> MessageHeaders:
    return MessageHeaders("\r\n".join(("NATS/1.0", *lines, "", "")).encode())


class TestIncrements:
    """The header with the increment."""

    @pytest.mark.parametrize("text", ["1", "+5", "-10", "0", "-0", "01", " 3", "9" * 40_000])
    def test_number(self, text: str) -> None:
        """An increment is an integer of any size, with or without a sign."""
        assert incrementOf(_known(f"Nats-Incr: {text}"), b"", True) == Decimal(text.strip())

    @pytest.mark.parametrize("text", ["1.5", "+", "+ 1", "abc", "1_000", "0x10", "3 ", "\u0661"])
    def test_noNumber(self, text: str) -> None:
        """Anything else is refused."""
        with pytest.raises(JetStreamError) as caught:
            incrementOf(_known(f"Nats-Incr: {text}"), b"", True)
        assert caught.value.toJSON() == errors.MESSAGE_INCR_INVALID().toJSON()

    def test_absent(self) -> None:
        """A message without the header, or with an empty one, has no increment."""
        assert incrementOf(_known("A: b"), b"", True) is None
        assert incrementOf(_known("Nats-Incr:"), b"", True) is None


class TestTotals:
    """The known totals of counters."""

    def test_unknown(self) -> None:
        """An unknown total is looked up in the stream, and increments are added to it."""
        totals = CounterTotals()
        with pytest.raises(SubjectUnknown):
            totals.find(b"a", 1)
        totals.found(b"a", Record(3, 0, b"a", b"", b'{"val":"-7"}'))
        state = totals.find(b"a", 1).plus(Decimal(10), 4)
        assert state == CounterState(Decimal(3), b"", 4)
        assert state.stored(b"") == (b"", b'{"val":"3"}')
        assert totals.find(b"a", 4).plus(Decimal(1), 9).stored(b"") == (b"", b'{"val":"1"}')

    @pytest.mark.parametrize(
        ("headers", "payload"),
        [
            (b"", b"x"),
            (b"", b"[]"),
            (b"", b'{"val":1}'),
            (b"", b'{"val":"1.5"}'),
            (b"", b"[" * 2000 + b"]" * 2000),
            (b"NATS/1.0\r\nNats-Counter-Sources: %b\r\n\r\n" % (b"[" * 2000), b'{"val":"1"}'),
            (b"NATS/1.0\r\nNats-Counter-Sources: 1\r\n\r\n", b'{"val":"1"}'),
            (b'NATS/1.0\r\nNats-Counter-Sources: {"a":{"b":1}}\r\n\r\n', b'{"val":"1"}'),
        ],
    )
    def test_broken(self, headers: bytes, payload: bytes) -> None:
        """A counter whose last message is damaged refuses increments."""
        totals = CounterTotals()
        totals.found(b"a", Record(3, 0, b"a", headers, payload))
        with pytest.raises(JetStreamError) as caught:
            totals.find(b"a", 1).plus(Decimal(1), 4)
        assert caught.value.toJSON() == errors.MESSAGE_COUNTER_BROKEN().toJSON()


class TestPublishing:
    """Publishing to a stream of counters."""

    def test_sum(self) -> None:
        """The acknowledgement and the stored payload have the total of the subject."""
        stage = Stage()
        stream = stage.stream(allow_msg_counter=True)
        assert stage.publish(b"s.a", Nats_Incr="5") == b'{"stream":"S","seq":1,"val":"5"}'
        assert stage.publish(b"s.b", Nats_Incr="1") == b'{"stream":"S","seq":2,"val":"1"}'
        assert stage.publish(b"s.a", Nats_Incr="-7") == b'{"stream":"S","seq":3,"val":"-2"}'
        assert stage.stored(stream) == [
            (1, b"s.a", b'{"val":"5"}'),
            (2, b"s.b", b'{"val":"1"}'),
            (3, b"s.a", b'{"val":"-2"}'),
        ]

    def test_manyAtOnce(self) -> None:
        """Increments of one turn add up in their order."""
        stage = Stage()
        stage.stream(allow_msg_counter=True)
        inbox = stage.inbox(b"_INBOX.x")
        for _ in range(3):
            stage.send(b"s.a", b"", b"_INBOX.x", Nats_Incr="2")
        stage.settle()
        assert [payload.partition(b'"val":')[2] for payload in inbox.payloads] == [
            b'"2"}',
            b'"4"}',
            b'"6"}',
        ]

    def test_deleted(self) -> None:
        """A counter continues from the last message that is left."""
        stage = Stage()
        stream = stage.stream(allow_msg_counter=True)
        for text in ("1", "10", "100"):
            stage.publish(b"s.a", Nats_Incr=text)
        stage.wait(stream.remove([3]))
        assert stage.publish(b"s.a", Nats_Incr="1") == b'{"stream":"S","seq":4,"val":"12"}'
        stage.wait(stream.purge())
        assert stage.publish(b"s.a", Nats_Incr="1") == b'{"stream":"S","seq":5,"val":"1"}'

    def test_duplicate(self) -> None:
        """The acknowledgement of a duplicate has no total."""
        stage = Stage()
        stage.stream(allow_msg_counter=True)
        stage.publish(b"s.a", Nats_Incr="1", Nats_Msg_Id="i")
        again = stage.publish(b"s.a", Nats_Incr="1", Nats_Msg_Id="i")
        assert again == b'{"stream":"S","seq":1,"duplicate": true}'

    def test_sources(self) -> None:
        """Each new message of a counter keeps the totals of its sources in a header."""
        stage = Stage()
        stream = stage.stream(allow_msg_counter=True)
        sources = '{"B":{"b":"2"},"A":{"a":"1"}}'
        stage.publish(b"s.a", Nats_Incr="1", Nats_Counter_Sources=sources)
        stage.publish(b"s.a", Nats_Incr="1")
        record = stage.wait(stream.get(2))
        assert record is not None
        assert record.headers == (
            b"NATS/1.0\r\nNats-Incr: 1\r\n"
            b'Nats-Counter-Sources: {"A":{"a":"1"},"B":{"b":"2"}}\r\n\r\n'
        )

    @pytest.mark.parametrize(
        ("payload", "headers", "error"),
        [
            (b"", {}, (10169, "message counter increment is missing")),
            (b"x", {"Nats_Incr": "1"}, (10170, "message counter has payload")),
            (b"x", {"Nats_Incr": "z"}, _INVALID),
            (b"", {"Nats_Incr": "1", "Nats_Rollup": "sub"}, _INVALID),
            (b"", {"Nats_Incr": "1", "Nats_Expected_Stream": "S"}, _INVALID),
            (b"", {"Nats_Incr": "1", "Nats_Expected_Last_Msg_Id": "x"}, _INVALID),
        ],
    )
    def test_refusedIncrement(
        self, payload: bytes, headers: dict[str, str], error: tuple[int, str]
    ) -> None:
        """Increments have no payload, no rollup and no expectations."""
        stage = Stage()
        stage.stream(allow_msg_counter=True, allow_rollup_hdrs=True)
        assert stage.errorOf(stage.publish(b"s.a", payload, **headers)) == error

    def test_otherStream(self) -> None:
        """A stream without counters refuses increments."""
        stage = Stage()
        stage.stream()
        error = (10168, "message counters is disabled")
        assert stage.errorOf(stage.publish(b"s.a", b"x", Nats_Incr="1")) == error

    def test_tooLong(self) -> None:
        """A total that exceeds the size of messages is refused."""
        stage = Stage()
        stage.stream(allow_msg_counter=True, max_msg_size=45)
        assert b'"val":"1"' in stage.publish(b"s.a", Nats_Incr="1")
        answer = stage.publish(b"s.a", Nats_Incr="9" * 15)
        assert stage.errorOf(answer) == (10054, "message size exceeds maximum allowed")

    def test_brokenCounter(self) -> None:
        """A counter whose last message cannot be read takes no increments."""
        stage = Stage()
        stage.stream(allow_msg_counter=True)
        stage.publish(b"s.a", Nats_Incr="1", Nats_Counter_Sources="1")
        assert stage.errorOf(stage.publish(b"s.a", Nats_Incr="1")) == _BROKEN


class Reader:
    """A reader of a source that ignores refusals."""

    refusals = 0

    def goBack(self, sequence: int, error: JetStreamError) -> None:
        pass


class TestSources:
    """Counters that sources count too."""

    def _take(self, stage: Stage, stream: Stream, source: str, total: str) -> None:
        block = f"NATS/1.0\r\nNats-Incr: 1\r\nNats-Stream-Source: {source}\r\n\r\n".encode()
        payload = f'{{"val":"{total}"}}'.encode()
        stream.publisher.takeFrom(ReadMessage(Reader(), 0, 1, 0), b"s.a", block, payload)
        stream.publisher.flush()
        stage.settle()

    def test_merged(self) -> None:
        """
        A counter adds the growth of each source's total, also if messages are missing in between.
        """
        stage = Stage()
        stream = stage.stream(allow_msg_counter=True)
        stage.publish(b"s.a", Nats_Incr="10")
        self._take(stage, stream, "E 1 > > e.a x", "5")
        self._take(stage, stream, "W 7 > > w.a y", "100")
        self._take(stage, stream, "E 9 > > e.a x", "3")
        stream.publisher.forget()
        self._take(stage, stream, "E 10", "1")
        assert stage.publish(b"s.a", Nats_Incr="1").endswith(b'"seq":6,"val":"115"}')
        payloads = [entry[2] for entry in stage.stored(stream)]
        assert payloads == [b'{"val":"%d"}' % number for number in (10, 15, 115, 113, 114, 115)]
        record = stage.wait(stream.get(4))
        assert record is not None
        known = MessageHeaders(record.headers)
        assert known.get(b"Nats-Incr") == b"-2"
        assert known.get(b"Nats-Counter-Sources") == b'{"E":{"e.a":"3"},"W":{"w.a":"100"}}'

    @pytest.mark.parametrize("total", ["", "x", "1.5"])
    def test_broken(self, total: str) -> None:
        """A message whose total cannot be read is left out."""
        stage = Stage()
        stream = stage.stream(allow_msg_counter=True)
        self._take(stage, stream, "E 1 > > e.a x", total)
        assert stream.messages == 0

    def test_noCounter(self) -> None:
        """A stream without counters stores a source's message unchanged."""
        stage = Stage()
        stream = stage.stream()
        self._take(stage, stream, "E 1 > > e.a x", "5")
        assert stage.stored(stream) == [(1, b"s.a", b'{"val":"5"}')]
