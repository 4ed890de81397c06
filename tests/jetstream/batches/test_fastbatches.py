"""
Fast batches.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail

from natsbroker.interfaces.records import StoreFull
from natsbroker.jetstream.batches import fastbatches
from natsbroker.jetstream.batches.fastbatches import FastPlace, placeOf
from natsbroker.jetstream.model.streamconfig import RetentionPolicy
from natsbroker.jetstream.streams.stream import Stream
from tests.jetstream.support import SECOND, Stage


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        (b"_INBOX.a.u.7.ok.1.0.$FI", FastPlace(b"u", 7, True, 1, 0)),
        (b"p.u.0.fail.2.1.$FI", FastPlace(b"u", 10, False, 2, 1)),
        (b"p.u.-5.fail.2.1.$FI", FastPlace(b"u", 10, False, 2, 1)),
        (b"p.u.70000.fail.1.2.$FI", FastPlace(b"u", 65535, False, 1, 2)),
        (b"p.u.1.fail.1.4.$FI", FastPlace(b"u", 1, False, 1, 4)),
        (b"p.u.1.fail.2.0.$FI", None),
        (b"p.u.1.fail.1.1.$FI", None),
        (b"p.u.1.fail.1.3.$FI", None),
        (b"p.u.1.fail.0.0.$FI", None),
        (b"p.u.1.fail.18446744073709551615.1.$FI", None),
        (b"p.u.1.fail.1.5.$FI", None),
        (b"p.u.1.fail.1.x.$FI", None),
        (b"p.u.1.zork.1.0.$FI", None),
        (b"u.1.ok.1.0.$FI", None),
        (b".$FI", None),
    ],
)
def test_placeOf(reply: bytes, place: FastPlace | None) -> None:
    """The last tokens of the reply subject describe a message's place in its batch."""
    assert placeOf(reply) == place


class Publisher:
    """
    The publisher of one batch.
    """

    def __init__(self, stage: Stage, batch: str = "u", flow: int = 2, gaps: str = "fail") -> None:
        self._stage = stage
        self._prefix = f"_INBOX.{batch}"
        self._middle = f"{batch}.{flow}.{gaps}"
        self._inbox = stage.inbox(f"_INBOX.{batch}.>".encode())

    def send(self, number: int, operation: int, subject: bytes = b"s.a", **headers: str) -> None:
        reply = f"{self._prefix}.{self._middle}.{number}.{operation}.$FI"
        self._stage.send(subject, b"%d" % number, reply.encode(), **headers)

    def ask(self, number: int, operation: int, subject: bytes = b"s.a", **headers: str) -> Any:
        """The answer to a message."""
        self.send(number, operation, subject, **headers)
        self._stage.settle()
        return self.answers()

    def answers(self) -> list[Any]:
        """The answers so far."""
        answers = [json.loads(payload) for payload in self._inbox.payloads]
        return [
            answer.get("error", {}).get("err_code", answer)
            for answer in answers
            if answer is not None
        ]


def _ack(number: int, window: int) -> Any:
    return {"type": "ack", "seq": number, "msgs": window}


def _gap(expected: int, number: int) -> Any:
    return {"type": "gap", "last_seq": expected, "seq": number}


def _done(sequence: int, count: int, batch: str = "u") -> Any:
    return {"stream": "S", "seq": sequence, "batch": batch, "count": count}


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def stream(stage: Stage) -> Stream:
    return stage.stream(allow_batched=True)


class TestAnswers:
    """The answers to the publisher of a batch."""

    def test_commit(self, stage: Stage, stream: Stream) -> None:
        """
        Messages of a fast batch are acknowledged in groups, and the commit is acknowledged with the
        number of all messages.
        """
        publisher = Publisher(stage)
        assert publisher.ask(1, 0) == [_ack(0, 2)]
        assert publisher.ask(2, 1) == [_ack(2, 2)]
        assert publisher.ask(3, 1) == []
        assert publisher.ask(4, 2) == [_done(4, 4)]
        assert publisher.ask(5, 1) == [10208]
        assert stream.last == 4

    def test_end(self, stage: Stage, stream: Stream) -> None:
        """A batch can end by a message that is not part of the batch and is not stored."""
        publisher = Publisher(stage)
        publisher.ask(1, 0)
        assert publisher.ask(2, 3) == [_done(1, 1)]
        assert stream.last == 1

    def test_oneMessage(self, stage: Stage, stream: Stream) -> None:
        """A batch may have one message."""
        assert Publisher(stage).ask(1, 2) == [_done(1, 1)]

    def test_together(self, stage: Stage, stream: Stream) -> None:
        """Messages of one turn are answered in their order."""
        publisher = Publisher(stage, flow=3)
        publisher.send(1, 0)
        for number in range(2, 8):
            publisher.send(number, 1)
        stage.settle()
        assert publisher.answers() == [_ack(0, 3), _ack(3, 3), _ack(6, 3)]

    def test_gapFails(self, stage: Stage, stream: Stream) -> None:
        """
        With gaps refused, a missing message ends the batch, and the messages before the gap stay
        stored.
        """
        publisher = Publisher(stage)
        publisher.ask(1, 0)
        assert publisher.ask(3, 1) == [_gap(2, 3), _done(1, 1)]
        assert stream.last == 1

    def test_gapIsOk(self, stage: Stage, stream: Stream) -> None:
        """With gaps allowed, a batch continues after a gap, but ends when a number is repeated."""
        publisher = Publisher(stage, gaps="ok")
        publisher.ask(1, 0)
        assert publisher.ask(5, 1) == [_gap(2, 5), _ack(4, 2)]
        assert publisher.ask(5, 1) == [_done(2, 5)]

    def test_ping(self, stage: Stage, stream: Stream) -> None:
        """A ping gets the last acknowledgement again, and reports a gap before it."""
        publisher = Publisher(stage)
        publisher.ask(1, 0)
        assert publisher.ask(1, 4) == [_ack(0, 2)]
        assert publisher.ask(2, 1) == [_ack(2, 2)]
        assert publisher.ask(2, 4) == [_ack(2, 2)]
        assert publisher.ask(4, 4) == [_gap(3, 5), _done(2, 2)]
        publisher = Publisher(stage, "v", gaps="ok")
        publisher.ask(1, 0)
        assert publisher.ask(2, 4) == [_gap(2, 3), _ack(2, 2)]
        assert publisher.ask(3, 4) == [_gap(3, 4), _ack(2, 2)]

    def test_window(self, stage: Stage, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Open batches share the acknowledgement window. A batch's part starts at one message, and
        shrinks when another batch begins.
        """
        monkeypatch.setattr(fastbatches, "WINDOW", 8)
        first, second = Publisher(stage, "u", 100), Publisher(stage, "v", 100)
        assert first.ask(1, 0) == [_ack(0, 8)]
        assert second.ask(1, 0) == [_ack(0, 1), _ack(1, 2)]
        for number in range(2, 8):
            first.ask(number, 1)
        assert first.ask(8, 1) == [_ack(8, 4)]
        assert second.ask(2, 1) == []
        assert second.ask(3, 1) == [_ack(3, 4)]

    def test_idle(self, stage: Stage, stream: Stream) -> None:
        """A batch without messages is forgotten."""
        publisher = Publisher(stage)
        publisher.ask(1, 0)
        stage.clock.advance(9)
        publisher.ask(2, 1)
        stage.clock.advance(9)
        assert publisher.ask(2, 4) == [_ack(2, 2)]
        stage.clock.advance(10)
        assert publisher.ask(3, 1) == [10208]


class TestRefusals:
    """Messages that are refused."""

    @pytest.mark.parametrize(
        ("config", "reply", "code"),
        [
            ({"sealed": True}, b"_INBOX.r.u.1.ok.1.0.$FI", 10109),
            ({"max_msg_size": 1}, b"_INBOX.r.u.1.ok.1.0.$FI", 10054),
            ({"allow_batched": False}, b"_INBOX.r.u.1.ok.1.0.$FI", 10205),
            ({}, b"_INBOX.r.u.1.zork.1.0.$FI", 10206),
            ({}, b"_INBOX.r." + b"u" * 65 + b".1.ok.1.0.$FI", 10207),
            ({}, b"_INBOX.r.u.1.ok.2.1.$FI", 10208),
        ],
    )
    def test_atOnce(self, stage: Stage, config: dict[str, Any], reply: bytes, code: int) -> None:
        """A malformed message of a fast batch gets the error of a plain message."""
        stage.stream(**{"allow_batched": True, **config})
        inbox = stage.inbox(b"_INBOX.r.>")
        stage.send(b"s.a", b"xx", reply)
        stage.settle()
        assert [stage.errorOf(payload)[0] for payload in inbox.payloads] == [code]

    def test_tooMany(self, stage: Stage, stream: Stream) -> None:
        """A stream refuses a new batch while its maximum number of batches is open."""
        stage.jetstream.batches.fast.perStream = 1
        assert Publisher(stage, "u").ask(1, 0) == [_ack(0, 2)]
        assert Publisher(stage, "v").ask(1, 0) == [10211]

    def test_apiLevel(self, stage: Stage, stream: Stream) -> None:
        """
        A message that requires a newer API level ends its batch. The header with the level is not
        stored.
        """
        publisher = Publisher(stage)
        publisher.ask(1, 0, Nats_Required_Api_Level="2")
        record = stage.wait(stream.get(1))
        assert record is not None
        assert b"Level" not in record.headers
        assert publisher.ask(2, 1, Nats_Required_Api_Level="99") == [10185]
        assert publisher.ask(2, 1) == [10208]

    def test_first(self, stage: Stage, stream: Stream) -> None:
        """
        A refused first message opens and ends its batch: it gets the first acknowledgement, then
        the error.
        """
        publisher = Publisher(stage)
        assert publisher.ask(1, 0, Nats_Expected_Stream="T") == [_ack(0, 2), 10060]
        assert publisher.ask(2, 1) == [10208]

    def test_later(self, stage: Stage, stream: Stream) -> None:
        """A message with a wrong expectation ends its batch, unless the batch allows gaps."""
        publisher = Publisher(stage)
        publisher.ask(1, 0)
        assert publisher.ask(2, 1, Nats_Expected_Last_Sequence="7") == [10071, _done(1, 1)]
        publisher = Publisher(stage, "v", gaps="ok")
        publisher.ask(1, 0)
        assert publisher.ask(2, 1, Nats_Expected_Last_Sequence="7") == [10071]
        assert publisher.ask(3, 1) == [_ack(2, 2)]
        assert publisher.ask(4, 2, Nats_Expected_Last_Sequence="7") == [10071, _done(3, 3, "v")]

    def test_lookUp(self, stage: Stage, stream: Stream) -> None:
        """A message whose expected sequence must be looked up in the log gets one answer."""
        stage.publish(b"s.a")
        publisher = Publisher(stage)
        answer = publisher.ask(1, 0, Nats_Expected_Last_Subject_Sequence="1")
        assert answer == [_ack(0, 2)]
        answer = publisher.ask(2, 1, Nats_Expected_Last_Subject_Sequence="1")
        assert answer == [10071, _done(2, 1)]

    def test_duplicates(self, stage: Stage, stream: Stream) -> None:
        """A duplicate counts as a message of its batch, and is not stored again."""
        stage.publish(b"s.a", Nats_Msg_Id="1")
        publisher = Publisher(stage)
        assert publisher.ask(1, 2, Nats_Msg_Id="1") == [
            {"stream": "S", "seq": 1, "duplicate": True, "batch": "u", "count": 1}
        ]
        assert publisher.ask(1, 0, Nats_Msg_Id="1") == [_ack(0, 2)]
        assert publisher.ask(2, 1, Nats_Msg_Id="2") == [_ack(2, 2)]
        assert publisher.ask(3, 2, Nats_Msg_Id="2") == [_done(2, 3)]
        assert stream.last == 2


def test_storeIsFull(stage: Stage, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that cannot be stored is refused, not acknowledged, and ends the batch."""
    publisher = Publisher(stage)
    publisher.ask(1, 0)
    with monkeypatch.context() as patch:
        patch.setattr(stream.log, "append", lambda _: fail(StoreFull("full")))
        assert publisher.ask(2, 1) == [10077]
    assert publisher.ask(3, 1) == [10208]
    assert stream.last == 1


def test_refusedByNothing(stage: Stage, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A refusal for a wrong last sequence does not name a sequence that the store then failed to
    store.
    """
    publisher = Publisher(stage)
    publisher.ask(1, 0)
    appending: Deferred[Any] = Deferred()
    with monkeypatch.context() as patch:
        patch.setattr(stream.log, "append", lambda _: appending)
        stage.send(b"s.a")
        publisher.send(2, 1, Nats_Expected_Last_Sequence="1")
        stage.settle()
        appending.errback(StoreFull("full"))
    assert publisher.answers() == [10077]


def test_interest(stage: Stage) -> None:
    """
    With interest retention, a message that no consumer wants counts in its batch, and is not
    stored.
    """
    stream = stage.stream(allow_batched=True, retention=RetentionPolicy.INTEREST)
    publisher = Publisher(stage)
    publisher.ask(1, 0)
    assert publisher.ask(2, 2) == [_done(2, 2)]
    assert stream.messages == 0


def test_switchedOff(stage: Stage, stream: Stream) -> None:
    """An update that allows no batches any more ends them."""
    publisher = Publisher(stage)
    publisher.ask(1, 0)
    off = stream.config.__class__(**{**vars(stream.config), "allow_batched": False})
    stage.wait(stream.applyConfig(off))
    assert publisher.ask(2, 1) == [10205]
    stage.clock.advance(SECOND)
