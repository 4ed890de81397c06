"""
Atomic batches.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail

from natsbroker.config.model import JetStream
from natsbroker.interfaces.records import StoreFull
from natsbroker.jetstream.batches.budget import IDLE, BatchBudget
from natsbroker.jetstream.model.streamconfig import DiscardPolicy, RetentionPolicy
from natsbroker.jetstream.streams.stream import Stream
from tests.jetstream.support import Stage

_INCOMPLETE = (10176, "atomic publish batch is incomplete")
_CONSTANT = (10164, "wrong last sequence")


class _Batch:
    """
    A publisher of batches to a stream.
    """

    def __init__(self, budget: BatchBudget | None = None, **config: Any) -> None:
        self.stage = Stage()
        if budget is not None:
            self.stage.jetstream.batches = budget
        self.stream: Stream = self.stage.stream(allow_atomic=True, **config)
        self.advisories = self.stage.inbox(b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S")

    def send(
        self,
        number: object,
        commit: str = "",
        subject: bytes = b"s.a",
        batch: str = "b",
        payload: bytes = b"",
        **headers: str,
    ) -> bytes:
        """Send a message of a batch. Return its answer."""
        if commit:
            headers["Nats_Batch_Commit"] = commit
        lines = {"Nats_Batch_Id": batch, "Nats_Batch_Sequence": str(number), **headers}
        return self.stage.publish(subject, payload, **lines)

    def error(self, *given: Any, **headers: Any) -> tuple[int, str]:
        """The error for a message of a batch."""
        return self.stage.errorOf(self.send(*given, **headers))

    def reasons(self) -> list[str]:
        """Why batches were abandoned."""
        return [json.loads(payload)["reason"] for payload in self.advisories.payloads]


class TestCommits:
    """Batches that are stored."""

    def test_one(self) -> None:
        """A batch may have one message."""
        assert _Batch().send(1, "1") == b'{"stream":"S","seq":1,"batch":"b","count":1}'

    def test_stored(self) -> None:
        """Messages of a batch get empty acknowledgements, and are stored together at the commit."""
        batch = _Batch()
        assert batch.send(1, subject=b"s.a") == b""
        assert batch.send(2, subject=b"s.b") == b""
        assert batch.stage.stored(batch.stream) == []
        answer = batch.send(3, "1", subject=b"s.c")
        assert answer == b'{"stream":"S","seq":3,"batch":"b","count":3}'
        subjects = [record[1] for record in batch.stage.stored(batch.stream)]
        assert subjects == [b"s.a", b"s.b", b"s.c"]
        assert batch.reasons() == []

    def test_endOfBatch(self) -> None:
        """
        A message with C{eob} commits the batch and is not stored. The message before it gets the
        commit header.
        """
        batch = _Batch()
        batch.send(1)
        assert batch.send(2, "eob") == b'{"stream":"S","seq":1,"batch":"b","count":1}'
        record = batch.stage.wait(batch.stream.get(1))
        assert record is not None
        assert record.headers.endswith(b"Nats-Batch-Commit: 1\r\n\r\n")

    def test_failure(self) -> None:
        """If the store cannot take the batch, no part of it is stored."""
        batch = _Batch()
        batch.send(1)
        batch.stream.log.append = lambda entries: _full() if entries else Deferred()
        assert batch.error(2, "1") == (10077, "no space")
        assert batch.stream.messages == 0

    def test_counters(self) -> None:
        """Increments of a batch add up."""
        batch = _Batch(allow_msg_counter=True)
        batch.send(1, Nats_Incr="1")
        assert b'"count":2' in batch.send(2, "1", Nats_Incr="5")
        assert batch.stage.stored(batch.stream)[1][2] == b'{"val":"6"}'
        assert b'"val":"7"' in batch.stage.publish(b"s.a", Nats_Incr="1")

    def test_interest(self) -> None:
        """With interest retention, messages of a batch that no consumer wants are dropped."""
        batch = _Batch(retention=RetentionPolicy.INTEREST)
        batch.send(1)
        assert batch.send(2, "1") == b'{"stream":"S","seq":2,"batch":"b","count":2}'
        assert (batch.stream.messages, batch.stream.last) == (0, 2)

    def test_rollup(self) -> None:
        """A rollup in a batch removes older messages of the stream."""
        batch = _Batch(allow_rollup_hdrs=True)
        batch.stage.publish(b"s.a")
        batch.send(1, Nats_Rollup="sub")
        batch.send(2, "1")
        assert [record[0] for record in batch.stage.stored(batch.stream)] == [2, 3]

    def test_level(self) -> None:
        """The header with the required API level is not stored."""
        batch = _Batch()
        batch.send(1, "1", Nats_Required_Api_Level="1")
        record = batch.stage.wait(batch.stream.get(1))
        assert record is not None
        assert b"Level" not in record.headers


def _full() -> Deferred[Any]:
    return fail(StoreFull("no space"))


class TestRefusals:
    """Messages that are no part of a batch."""

    def test_disabled(self) -> None:
        """A stream that does not allow batches refuses their messages, after its other checks."""
        stage = Stage()
        stage.stream(max_msg_size=60)
        answer = stage.publish(b"s.a", Nats_Batch_Id="q" * 65)
        assert stage.errorOf(answer)[0] == 10054
        answer = stage.publish(b"s.a", Nats_Batch_Id="q")
        assert stage.errorOf(answer) == (10174, "atomic publish is disabled")

    @pytest.mark.parametrize(
        ("number", "commit", "error"),
        [
            ("", "", (10175, "atomic publish sequence is missing")),
            ("x", "", (10175, "atomic publish sequence is missing")),
            (1 << 64, "", (10175, "atomic publish sequence is missing")),
            (0, "", _INCOMPLETE),
            (2, "", _INCOMPLETE),
            (1, "eob", _INCOMPLETE),
            (1000 + 1, "eob", _INCOMPLETE),
            (1000 + 1, "", (10199, "atomic publish batch is too large: 1000")),
            (1, "2", (10200, "atomic publish batch commit is invalid")),
        ],
    )
    def test_refusedStart(self, number: object, commit: str, error: tuple[int, str]) -> None:
        """A message that does not begin a batch, for an unknown batch, is refused."""
        batch = _Batch()
        assert batch.error(number, commit) == error
        assert len(batch.stream.publisher._atomic) == 0

    def test_longId(self) -> None:
        """An id has at most 64 characters."""
        error = (10179, "atomic publish batch ID is invalid")
        assert _Batch().error(1, batch="q" * 65) == error

    def test_gap(self) -> None:
        """A batch with a gap is abandoned."""
        batch = _Batch()
        batch.send(1)
        assert batch.error(3) == _INCOMPLETE
        assert batch.reasons() == ["incomplete"]
        assert batch.error(2) == _INCOMPLETE

    def test_idle(self) -> None:
        """A batch without messages is abandoned. Each message extends its time."""
        batch = _Batch()
        batch.send(1)
        batch.stage.clock.advance(IDLE - 1)
        batch.send(2)
        batch.stage.clock.advance(IDLE - 1)
        assert batch.reasons() == []
        batch.stage.clock.advance(1)
        assert batch.reasons() == ["timeout"]
        assert batch.error(3, "1") == _INCOMPLETE

    def test_tooLarge(self) -> None:
        """A batch has at most 1000 messages, not counting one that only ends it."""
        batch = _Batch()
        for number in range(1, 1000 + 1):
            batch.stage.send(b"s.a", Nats_Batch_Id="b", Nats_Batch_Sequence=str(number))
        assert b'"count":1000' in batch.send(1000 + 1, "eob")
        for number in range(1, 1000 + 1):
            batch.stage.send(b"s.a", Nats_Batch_Id="b", Nats_Batch_Sequence=str(number))
        assert batch.error(1000 + 1)[0] == 10199
        assert batch.reasons() == ["large"]

    def test_tooMany(self) -> None:
        """A stream has at most 50 open batches."""
        batch = _Batch()
        for number in range(50):
            assert batch.send(1, batch=f"b{number}") == b""
        assert batch.error(1, batch="more") == (10210, "atomic publish too many inflight")
        batch.send(2, "1", batch="b7")
        assert batch.send(1, batch="more") == b""

    def test_configured(self) -> None:
        """
        The configuration limits the open batches, the messages of a batch, and the time between
        messages.
        """
        block = JetStream(max_batch_inflight_per_stream=1, max_batch_size=2, max_batch_timeout=3.0)
        batch = _Batch(BatchBudget(block))
        batch.send(1)
        assert batch.error(1, batch="more")[0] == 10210
        batch.send(2)
        assert batch.error(3)[1] == "atomic publish batch is too large: 2"
        batch.send(1)
        batch.stage.clock.advance(3)
        assert batch.reasons() == ["large", "timeout"]

    def test_level(self) -> None:
        """A message that requires a newer API level abandons its batch."""
        batch = _Batch()
        assert batch.error(1, Nats_Required_Api_Level="99")[0] == 10185
        assert batch.reasons() == ["unsupported"]

    def test_closed(self) -> None:
        """A stream that closes leaves no timers."""
        batch = _Batch()
        batch.send(1)
        batch.stream.close()
        batch.stage.clock.advance(IDLE)
        assert batch.reasons() == []


class TestChecks:
    """Checks when a batch commits."""

    @pytest.mark.parametrize(
        ("first", "second", "error"),
        [
            ({"Nats_Expected_Last_Sequence": "9"}, {}, (10071, "wrong last sequence: 2")),
            ({}, {"Nats_Expected_Last_Sequence": "2"}, (10071, "wrong last sequence: 3")),
            ({}, {"Nats_Expected_Last_Sequence": "3"}, _CONSTANT),
            ({}, {"Nats_Expected_Last_Subject_Sequence": "2"}, _CONSTANT),
            (
                {"Nats_Expected_Last_Subject_Sequence": "1"},
                {},
                (10071, "wrong last sequence: 2"),
            ),
            ({"Nats_Expected_Stream": "T"}, {}, (10060, "expected stream does not match")),
            (
                {"Nats_Expected_Last_Subject_Sequence_Subject": "s.b"},
                {},
                (10193, "missing sequence for expected last sequence per subject"),
            ),
            (
                {"Nats_Msg_Id": "i"},
                {"Nats_Msg_Id": "i"},
                (10201, "atomic publish batch contains duplicate message id"),
            ),
            (
                {"Nats_Msg_Id": "old"},
                {},
                (10201, "atomic publish batch contains duplicate message id"),
            ),
            (
                {},
                {"Nats_Expected_Last_Msg_Id": "old"},
                (10177, "atomic publish unsupported header used: Nats-Expected-Last-Msg-Id"),
            ),
            ({}, {"Nats_Rollup": "sub"}, (10111, "batch rollup sub invalid")),
            ({}, {"Nats_Rollup": "all"}, (10111, "batch rollup all invalid")),
            (
                {"Nats_Stream_Source": "x"},
                {},
                (10227, "message stream source header is not allowed"),
            ),
            ({"Nats_TTL": "1"}, {}, (10166, "per-message TTL is disabled")),
            ({"Nats_TTL": "x"}, {}, (10166, "per-message TTL is disabled")),
            ({"Nats_Incr": "1"}, {}, (10168, "message counters is disabled")),
        ],
    )
    def test_refusedCommit(
        self, first: dict[str, Any], second: dict[str, Any], error: tuple[int, str]
    ) -> None:
        """A commit is refused if a message of the batch fails its checks."""
        batch = _Batch(allow_rollup_hdrs=True)
        batch.stage.publish(b"s.b", Nats_Msg_Id="old")
        batch.stage.publish(b"s.a")
        assert batch.send(1, **first) == b""
        assert batch.error(2, "1", **second) == error
        assert batch.stream.last == 2
        assert batch.reasons() == []

    def test_patterns(self) -> None:
        """An expected last sequence of a pattern is compared with the stream before the batch."""
        batch = _Batch()
        for last, subject in ((0, b"s.a.x"), (1, b"s.b.x")):
            other = subject[:4].decode() + "*"
            wanted: dict[str, Any] = {
                "Nats_Expected_Last_Subject_Sequence": "0",
                "Nats_Expected_Last_Subject_Sequence_Subject": other,
            }
            batch.send(1, subject=b"s.z", **wanted)
            wanted["Nats_Expected_Last_Subject_Sequence_Subject"] = "s.q.*"
            answer = batch.send(2, "1", subject=subject, **wanted)
            assert b'"seq":%d' % (2 * last + 2) in answer
        wanted = {
            "Nats_Expected_Last_Subject_Sequence": "0",
            "Nats_Expected_Last_Subject_Sequence_Subject": "s.a.*",
        }
        assert batch.error(1, "1", **wanted) == (10071, "wrong last sequence: 2")

    @pytest.mark.parametrize(
        ("config", "text"),
        [
            ({"max_msgs": 2}, "maximum messages exceeded"),
            ({"max_bytes": 200}, "maximum bytes exceeded"),
            (
                {"max_msgs_per_subject": 2, "discard_new_per_subject": True},
                "maximum messages per subject exceeded",
            ),
        ],
    )
    def test_full(self, config: dict[str, Any], text: str) -> None:
        """A stream that discards new messages refuses a batch that does not fit as a whole."""
        batch = _Batch(discard=DiscardPolicy.NEW, **config)
        batch.send(1)
        batch.send(2)
        assert batch.error(3, "1") == (10077, text)
        assert batch.stream.messages == 0

    def test_timeToLive(self) -> None:
        """A message of a batch may have a time to live, where the stream permits it."""
        batch = _Batch(allow_msg_ttl=True)
        assert b'"count":1' in batch.send(1, "1", Nats_TTL="5")
        assert batch.error(1, "1", Nats_TTL="x") == (10165, "invalid per-message TTL")

    def test_longHeaders(self) -> None:
        """Headers have a limit in batches too."""
        assert _Batch().error(1, "1", X="x" * 66_000)[0] == 10097


class TestBudget:
    """The common limit of all streams' batches."""

    def test_bytes(self) -> None:
        """
        A message above the total size of batches abandons its batch. A batch that ends makes room.
        """
        budget = BatchBudget(most=1000)
        batch = _Batch(budget)
        assert batch.send(1, batch="one", payload=bytes(600)) == b""
        assert batch.send(1, batch="two", payload=bytes(100)) == b""
        assert batch.error(2, batch="two", payload=bytes(300))[0] == 10210
        assert batch.reasons() == ["large"]
        assert b'"count":2' in batch.send(2, "1", batch="one", payload=bytes(300))
        assert (budget.atomic.open, budget.size) == (0, 0)

    def test_number(self) -> None:
        """The number of batches has a bound too."""
        batch = _Batch()
        batch.stage.jetstream.batches.atomic.open = 1000
        assert batch.error(1)[0] == 10210
