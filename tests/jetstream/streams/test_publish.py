"""
Publishing to a stream.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from twisted.internet.defer import Deferred

from natsbroker.interfaces.records import Entry, LeaseLost
from natsbroker.jetstream.model.streamconfig import (
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    SubjectTransformConfig,
)
from tests.jetstream.support import SECOND, Stage


class TestAcknowledgements:
    """The answers to a publisher."""

    def test_sequence(self) -> None:
        """The answer has the stream and the sequence."""
        stage = Stage()
        stage.stream()
        assert stage.publish(b"s.a", b"1") == b'{"stream":"S","seq":1}'
        assert stage.publish(b"s.b", b"2") == b'{"stream":"S","seq":2}'

    def test_domain(self) -> None:
        """An acknowledgement has the domain between stream and sequence."""
        stage = Stage()
        stage.jetstream.domain = "hub"
        stage.stream()
        assert stage.publish(b"s.a") == b'{"stream":"S","domain":"hub","seq":1}'

    def test_withoutReply(self) -> None:
        """A message without a reply subject is stored too."""
        stage = Stage()
        stream = stage.stream()
        stage.send(b"s.a", b"x")
        stage.settle()
        assert stage.stored(stream) == [(1, b"s.a", b"x")]

    def test_noAck(self) -> None:
        """A stream with no_ack answers nothing, not even errors."""
        stage = Stage()
        stage.stream(no_ack=True, max_msg_size=1)
        inbox = stage.inbox(b"_INBOX.x")
        stage.send(b"s.a", b"1", b"_INBOX.x")
        stage.send(b"s.a", b"22", b"_INBOX.x")
        stage.settle()
        assert inbox.got == []

    def test_duplicate(self) -> None:
        """
        A message with an id of the duplicate window is acknowledged as a duplicate, in
        nats-server's spelling.
        """
        stage = Stage()
        stage.stream()
        stage.publish(b"s.a", b"1", Nats_Msg_Id="a")
        expected = b'{"stream":"S","seq":1,"duplicate": true}'
        assert stage.publish(b"s.a", b"2", Nats_Msg_Id="a") == expected
        stage.clock.advance(121)
        assert stage.publish(b"s.a", b"3", Nats_Msg_Id="a") == b'{"stream":"S","seq":2}'

    def test_idsAreCaseSensitive(self) -> None:
        """The name of the header with the message id is case sensitive."""
        stage = Stage()
        stage.stream()
        stage.publish(b"s.a", b"1", **{"nats-msg-id": "a"})
        assert stage.publish(b"s.a", b"1", **{"nats-msg-id": "a"}) == b'{"stream":"S","seq":2}'


class TestExpectations:
    """Headers that expect a state of the stream."""

    @pytest.mark.parametrize(
        ("headers", "error"),
        [
            ({"Nats_Expected_Stream": "T"}, (10060, "expected stream does not match")),
            ({"Nats_Expected_Last_Sequence": "7"}, (10071, "wrong last sequence: 2")),
            ({"Nats_Expected_Last_Sequence": "abc"}, (10071, "wrong last sequence: 2")),
            ({"Nats_Expected_Last_Subject_Sequence": "2"}, (10071, "wrong last sequence: 1")),
            ({"Nats_Expected_Last_Msg_Id": "z"}, (10070, "wrong last msg ID: ")),
            (
                {"Nats_Expected_Last_Subject_Sequence_Subject": "s.a"},
                (10193, "missing sequence for expected last sequence per subject"),
            ),
            ({"Nats_Rollup": "sub"}, (10111, "rollup not permitted")),
            (
                {"Nats_Stream_Source": "A 1 > > s.a"},
                (10227, "message stream source header is not allowed"),
            ),
        ],
    )
    def test_refusedExpectation(self, headers: dict[str, str], error: tuple[int, str]) -> None:
        """A message with a wrong expectation is refused."""
        stage = Stage()
        stream = stage.stream()
        stage.publish(b"s.a", b"1")
        stage.publish(b"s.b", b"2")
        answer = stage.publish(b"s.a", b"3", **headers)
        assert stage.errorOf(answer) == error
        assert answer.endswith(b'},"stream":"S","seq":0}')
        assert stream.last == 2

    def test_right(self) -> None:
        """A message with correct expectations is stored."""
        stage = Stage()
        stage.stream()
        stage.publish(b"s.a", b"1", Nats_Msg_Id="one")
        last = {"Nats_Expected_Last_Sequence": "1", "Nats_Expected_Last_Msg_Id": "one"}
        assert b'"seq":2' in stage.publish(b"s.b", b"2", Nats_Expected_Stream="S", **last)
        ofSubject = {"Nats_Expected_Last_Subject_Sequence": "1"}
        assert b'"seq":3' in stage.publish(b"s.a", b"3", **ofSubject)
        ofSubject = {"Nats_Expected_Last_Subject_Sequence": "3"}
        assert b'"seq":4' in stage.publish(b"s.a", b"3", **ofSubject)
        other = {"Nats_Expected_Last_Subject_Sequence_Subject": "s.*"}
        ofOthers = {"Nats_Expected_Last_Subject_Sequence": "4", **other}
        assert b'"seq":5' in stage.publish(b"s.c", b"5", **ofOthers)

    def test_manyAtOnce(self) -> None:
        """
        Of several messages in one turn that expect the same last sequence, only the first is
        stored.
        """
        stage = Stage()
        stream = stage.stream()
        inbox = stage.inbox(b"_INBOX.x")
        for payload in (b"1", b"2", b"3"):
            stage.send(b"s.a", payload, b"_INBOX.x", Nats_Expected_Last_Subject_Sequence="0")
        stage.settle()
        first, second, third = inbox.payloads
        assert first == b'{"stream":"S","seq":1}'
        assert stage.errorOf(second) == stage.errorOf(third) == (10071, "wrong last sequence: 1")
        assert stage.stored(stream) == [(1, b"s.a", b"1")]

    def test_duplicateAndWrong(self) -> None:
        """A duplicate with a wrong expectation is refused."""
        stage = Stage()
        stage.stream()
        stage.publish(b"s.a", b"1", Nats_Msg_Id="a")
        answer = stage.publish(b"s.a", Nats_Msg_Id="a", Nats_Expected_Last_Sequence="9")
        assert stage.errorOf(answer)[0] == 10071


class TestLimits:
    """Streams that are full."""

    @pytest.mark.parametrize("storage", list(StorageType))
    def test_oldOnesGo(self, storage: StorageType) -> None:
        """When a stream is full, its oldest messages are removed."""
        stage = Stage()
        stream = stage.stream(max_msgs=2, storage=storage)
        for payload in (b"1", b"2", b"3"):
            stage.publish(b"s.a", payload)
        assert stage.stored(stream) == [(2, b"s.a", b"2"), (3, b"s.a", b"3")]
        assert (stream.first, stream.last, stream.messages) == (2, 3, 2)

    @pytest.mark.parametrize(
        ("storage", "size"), [(StorageType.MEMORY, 20), (StorageType.FILE, 34)]
    )
    def test_bytes(self, storage: StorageType, size: int) -> None:
        """Bytes are counted as nats-server counts them for the storage."""
        stage = Stage()
        stream = stage.stream(max_bytes=2 * size, storage=storage)
        for payload in (b"1", b"2", b"3"):
            stage.publish(b"s.a", payload)
        assert stream.size == 2 * size
        assert [record[0] for record in stage.stored(stream)] == [2, 3]

    def test_headersCount(self) -> None:
        """In a file store, a header block counts four more bytes."""
        stage = Stage()
        stream = stage.stream()
        stage.publish(b"s.a", b"1", A="b")
        block = b"NATS/1.0\r\nA: b\r\n\r\n"
        assert stream.size == 30 + 3 + 1 + 4 + len(block)
        record = stage.wait(stream.get(1))
        assert record is not None
        assert record.headers == block

    def test_publisherInfo(self) -> None:
        """The header about a publisher in another account is not stored."""
        stage = Stage()
        stream = stage.stream(allow_atomic=True)
        info = {"Nats_Request_Info": '{"acc":"B","user":"b"}'}
        stage.publish(b"s.a", b"1", **info)
        batch = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "1", "Nats_Batch_Commit": "1"}
        stage.publish(b"s.a", b"2", **batch, **info)
        first, second = (stage.wait(stream.get(sequence)) for sequence in (1, 2))
        assert first is not None and first.headers == b""
        assert second is not None and b"Batch-Id" in second.headers
        assert b"Request-Info" not in second.headers

    def test_biggerThanAll(self) -> None:
        """
        A message that is larger than max_bytes is acknowledged, and removed at once with all
        others.
        """
        stage = Stage()
        stream = stage.stream(max_bytes=40)
        stage.publish(b"s.a", b"1")
        assert b'"seq":2' in stage.publish(b"s.a", b"x" * 100)
        assert (stream.messages, stream.first, stream.last) == (0, 3, 2)

    @pytest.mark.parametrize(
        ("limits", "text"),
        [
            ({"max_msgs": 1}, "maximum messages exceeded"),
            ({"max_bytes": 35}, "maximum bytes exceeded"),
            (
                {"max_msgs_per_subject": 1, "discard_new_per_subject": True},
                "maximum messages per subject exceeded",
            ),
        ],
    )
    def test_newOnesAreRefused(self, limits: dict[str, object], text: str) -> None:
        """
        A full stream that discards new messages refuses them, even if they arrive in one turn.
        """
        stage = Stage()
        stream = stage.stream(discard=DiscardPolicy.NEW, **limits)
        inbox = stage.inbox(b"_INBOX.x")
        stage.send(b"s.a", b"1", b"_INBOX.x")
        stage.send(b"s.a", b"2", b"_INBOX.x")
        stage.settle()
        first, second = inbox.payloads
        assert first == b'{"stream":"S","seq":1}'
        assert stage.errorOf(second) == (10077, text)
        assert stream.messages == 1

    @pytest.mark.parametrize("isBarrierBroken", [True, False])
    def test_duplicateOfNothing(self, isBarrierBroken: bool) -> None:
        """A duplicate of a message that could not be stored is refused too."""
        stage = Stage()
        stream = stage.stream()
        first: Deferred[range] = Deferred()
        barrier: Deferred[range] = Deferred()
        appends = iter((first, barrier))
        stream.log.append = lambda batch: next(appends)
        inbox = stage.inbox(b"_INBOX.x")
        for _ in range(2):
            stage.send(b"s.a", b"1", b"_INBOX.x", Nats_Msg_Id="x")
            stage.settle()
        assert inbox.got == []
        first.errback(LeaseLost("gone"))
        if isBarrierBroken:
            barrier.errback(LeaseLost("gone"))
        else:
            barrier.callback(range(0))
        numbers = [stage.errorOf(payload)[0] for payload in inbox.payloads]
        assert numbers == [10077, 10077]

    @pytest.mark.parametrize("isBarrierBroken", [True, False])
    @pytest.mark.parametrize(
        "expected",
        [{"Last_Subject_Sequence": "1"}, {"Last_Sequence": "1"}, {"Last_Msg_Id": "other"}],
    )
    def test_refusedByNothing(self, expected: dict[str, str], isBarrierBroken: bool) -> None:
        """
        A message is refused without a sequence or id if the message that contradicts it could not
        be stored.
        """
        stage = Stage()
        stream = stage.stream()
        stage.publish(b"s.a", b"0")
        first: Deferred[range] = Deferred()
        barrier: Deferred[range] = Deferred()
        inbox = stage.inbox(b"_INBOX.x")
        stage.send(b"s.a", b"0", b"_INBOX.x", Nats_Expected_Last_Subject_Sequence="1")
        stage.settle()
        assert json.loads(inbox.payloads[0])["seq"] == 2
        appends = iter((first, barrier))

        def append(batch: Sequence[Entry]) -> Deferred[range]:
            stream.log.nextSequence += len(batch)
            return next(appends)

        stream.log.append = append
        stage.send(b"s.a", b"1", b"_INBOX.x", Nats_Msg_Id="x")
        stage.settle()
        headers = {f"Nats_Expected_{name}": value for name, value in expected.items()}
        stage.send(b"s.a", b"2", b"_INBOX.x", **headers)
        stage.settle()
        assert inbox.got == []
        stream.log.nextSequence -= 1
        first.errback(LeaseLost("gone"))
        if isBarrierBroken:
            barrier.errback(LeaseLost("gone"))
        else:
            barrier.callback(range(0))
        numbers = [stage.errorOf(payload)[0] for payload in inbox.payloads]
        assert numbers == [10077, 10077]

    def test_replacing(self) -> None:
        """With max_msgs_per_subject 1, a full stream stores a message that replaces another."""
        stage = Stage()
        stream = stage.stream(discard=DiscardPolicy.NEW, max_msgs=2, max_msgs_per_subject=1)
        stage.publish(b"s.a", b"1")
        stage.publish(b"s.b", b"2")
        assert b'"seq":3' in stage.publish(b"s.a", b"3")
        assert stage.stored(stream) == [(2, b"s.b", b"2"), (3, b"s.a", b"3")]

    def test_tooLarge(self) -> None:
        """Headers count for the size of a message."""
        stage = Stage()
        stage.stream(max_msg_size=20)
        assert stage.errorOf(stage.publish(b"s.a", b"1234567890", A="b"))[0] == 10054
        assert b'"seq":1' in stage.publish(b"s.a", b"1234567890")

    def test_age(self) -> None:
        """Messages go when they are too old."""
        stage = Stage()
        stream = stage.stream(max_age=SECOND // 2)
        stage.publish(b"s.a", b"1")
        stage.clock.advance(0.3)
        stage.publish(b"s.a", b"2")
        stage.clock.advance(0.2)
        stage.settle()
        assert stage.stored(stream) == [(2, b"s.a", b"2")]
        stage.clock.advance(0.3)
        stage.settle()
        assert (stream.messages, stream.first, stream.last) == (0, 3, 2)

    def test_noConsumerIsInterested(self) -> None:
        """
        With interest retention, a message that no consumer wants is dropped, but uses a sequence
        and its id.
        """
        stage = Stage()
        stream = stage.stream(retention=RetentionPolicy.INTEREST)
        assert b'"seq":1' in stage.publish(b"s.a", b"1", Nats_Msg_Id="x")
        assert b'"seq":1,"duplicate": true' in stage.publish(b"s.a", b"1", Nats_Msg_Id="x")
        assert (stream.messages, stream.first, stream.last) == (0, 2, 1)
        assert stream.lastTime == stage.now()


class TestRollup:
    """Messages that replace all before them."""

    def test_subject(self) -> None:
        """Only the messages of its subject are removed."""
        stage = Stage()
        stream = stage.stream(allow_rollup_hdrs=True)
        for subject in (b"s.a", b"s.b", b"s.a"):
            stage.publish(subject, b"old")
        stage.publish(b"s.a", b"new", Nats_Rollup="sub")
        assert stage.stored(stream) == [(2, b"s.b", b"old"), (4, b"s.a", b"new")]

    def test_acknowledgement(self) -> None:
        """
        A message is acknowledged when the messages that it replaces are removed. A kill in between
        leaves an unacknowledged message.
        """
        stage = Stage()
        stream = stage.stream(allow_rollup_hdrs=True)
        stage.publish(b"s.a", b"old")
        discard = stream.log.discardBefore
        held: Deferred[None] = Deferred()
        stream.log.discardBefore = lambda sequence: held.addCallback(lambda _: discard(sequence))
        inbox = stage.inbox(b"_INBOX.rolled")
        stage.send(b"s.a", b"new", b"_INBOX.rolled", Nats_Rollup="all")
        stage.settle()
        assert inbox.payloads == []
        held.callback(None)
        stage.settle()
        assert b'"seq":2' in inbox.payloads[0]
        assert stage.stored(stream) == [(2, b"s.a", b"new")]

    def test_all(self) -> None:
        """A rollup of all removes all other messages. Its value is case insensitive."""
        stage = Stage()
        stream = stage.stream(allow_rollup_hdrs=True)
        stage.publish(b"s.a", b"old")
        stage.publish(b"s.b", b"new", Nats_Rollup="ALL")
        assert stage.stored(stream) == [(2, b"s.b", b"new")]

    def test_invalid(self) -> None:
        """An unknown word for a rollup is refused."""
        stage = Stage()
        stage.stream(allow_rollup_hdrs=True)
        answer = stage.publish(b"s.a", Nats_Rollup="zork")
        assert stage.errorOf(answer) == (10111, 'rollup value invalid: "zork"')


def test_transform() -> None:
    """A stream stores messages under the subjects that its transform makes."""
    stage = Stage()
    stream = stage.stream(subject_transform=SubjectTransformConfig("s.*", "t.{{wildcard(1)}}"))
    stage.publish(b"s.a", b"1")
    assert stage.stored(stream) == [(1, b"t.a", b"1")]


def test_sealed() -> None:
    """A sealed stream refuses everything."""
    stage = Stage()
    stage.stream(sealed=True)
    assert stage.errorOf(stage.publish(b"s.a")) == (10109, "invalid operation on sealed stream")
