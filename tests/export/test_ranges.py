"""
Ranges of a log: their pages, frames and fingerprints.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from natsbroker.export import ranges
from natsbroker.export.ranges import MOST_BYTES, ROWS, page
from natsbroker.wire.grants import Grant
from tests.export.support import Connection, Stage, payloadsOf, result


@pytest.fixture(params=[False, True], ids=["exporting", "plain"])
def log(request: pytest.FixtureRequest) -> object:
    """A log with a gap, with and without holds."""
    stage = Stage()
    inner = stage.log("c", [b"xx"] * (ROWS + 10), request.param)
    result(inner.delete([2, 3]))
    return stage.shelf.logs["c"]


def test_bounded(log: object) -> None:
    """A page is limited in sequences and bytes, and has the start of the next page."""
    columns = result(page(log, 1, ROWS + 11, 1 << 20))  # type: ignore[arg-type]
    assert len(columns.sequences) <= ROWS
    assert list(columns.sequences[:3]) == [1, 4, 5]
    rest = result(page(log, columns.next, ROWS + 11, 1 << 20))  # type: ignore[arg-type]
    assert len(columns.sequences) + len(rest.sequences) == ROWS + 8
    assert rest.next == ROWS + 11
    few = result(page(log, 1, ROWS + 11, 7))  # type: ignore[arg-type]
    assert (list(few.sequences), few.next) == ([1, 4, 5], 6)


def test_stops(log: object) -> None:
    """A page has no messages at or after the end of its range."""
    columns = result(page(log, 1, 3, 1 << 20))  # type: ignore[arg-type]
    assert (list(columns.sequences), columns.next) == ([1], 3)
    columns = result(page(log, 2, 4, 1 << 20))  # type: ignore[arg-type]
    assert (list(columns.sequences), columns.next) == ([], 4)


@pytest.fixture(params=[False, True], ids=["exporting", "plain"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """A log of ten messages, with a store that exports and with one that can only be read."""
    made = Stage()
    made.log("c", [b"%d" % n for n in range(1, 11)], isPlain=request.param)
    return made


class TestRange:
    """The messages of a range."""

    def test_wholeLog(self, stage: Stage) -> None:
        """The whole log comes in one frame, which has the end of the log."""
        [frame] = stage.export("c", start=1)
        assert payloadsOf([frame]) == {n: b"%d" % n for n in range(1, 11)}
        place = frame.place
        assert (place.start, place.next, place.first, place.last) == (1, 11, 1, 10)
        assert (frame.isLast, frame.subject) == (True, b"c")

    def test_partOfALog(self, stage: Stage) -> None:
        """A range begins and ends at its bounds."""
        frames = stage.export("c", start=4, stop=7)
        assert sorted(payloadsOf(frames)) == [4, 5, 6]
        assert frames[-1].place.next == 7

    @pytest.mark.parametrize(("start", "stop"), [(11, 20), (50, 60), (5, 5), (6, 2)])
    def test_emptyRange(self, stage: Stage, start: int, stop: int) -> None:
        """An empty range is one frame without rows."""
        [frame] = stage.export("c", start=start, stop=stop)
        assert (frame.rows, frame.isLast, frame.place.next) == (0, True, start)

    def test_beyondTheEnd(self, stage: Stage) -> None:
        """A range that extends beyond the last message ends with the last message."""
        frames = stage.export("c", start=9, stop=1000)
        assert sorted(payloadsOf(frames)) == [9, 10]
        assert frames[-1].place.next == 11

    def test_deleted(self, stage: Stage) -> None:
        """Deleted messages are omitted, and their sequences are not used again."""
        result(result(stage.store.open("c")).delete([1, 5, 10]))
        frames = stage.export("c", start=1)
        assert sorted(payloadsOf(frames)) == [2, 3, 4, 6, 7, 8, 9]
        assert (frames[-1].place.first, frames[-1].place.last) == (2, 10)

    def test_columns(self, stage: Stage) -> None:
        """A range has only the requested columns."""
        [frame] = stage.export("c", start=1, columns=["subject"])
        assert (frame.rows, len(frame.payloads), frame.subject) == (10, 0, b"c")
        [frame] = stage.export("c", start=1, columns=[])
        assert (frame.rows, frame.subject, len(frame.subjectEnds)) == (10, None, 0)


class TestParts:
    """Ranges that are answered in several frames."""

    def test_answerIsBounded(self, stage: Stage) -> None:
        """
        An answer ends with the message that exceeds the limit of bytes, and has the next position.
        """
        start, payloads = 1, {}
        while start < 11:
            frames = stage.export("c", start=start, max_bytes=5)
            assert frames[-1].isLast and frames[-1].place.next > start
            payloads.update(payloadsOf(frames))
            start = frames[-1].place.next
        assert sorted(payloads) == list(range(1, 11))

    @pytest.mark.parametrize("isPlain", [False, True])
    def test_frames(self, isPlain: bool) -> None:
        """Frames are limited in rows and bytes, are contiguous, and the last one is marked."""
        stage = Stage(maxPayload=100_000)
        stage.log("c", [b"x" * 40] * (2 * ROWS + 100), isPlain=isPlain)
        frames = stage.export("c", start=1, max_bytes=MOST_BYTES)
        assert len(frames) > 3
        assert [frame.isLast for frame in frames] == [False] * (len(frames) - 1) + [True]
        assert all(frame.rows <= ROWS and len(frame.payloads) <= 75_040 for frame in frames)
        starts = [frame.place.start for frame in frames]
        assert starts == [1, *(frame.place.next for frame in frames[:-1])]
        assert len(payloadsOf(frames)) == 2 * ROWS + 100

    def test_gap(self, stage: Stage) -> None:
        """A gap that is longer than a page needs no frames."""
        log = result(stage.store.open("c"))
        result(log.skipTo(10 * ROWS))
        result(log.append([(b"c", b"", b"far", 0)]))
        frames = stage.export("c", start=1)
        assert sorted(payloadsOf(frames)) == [*range(1, 11), 10 * ROWS]
        assert len(frames) == 2
        assert frames[1].place.start == frames[0].place.next

    def test_largeMessages(self) -> None:
        """A message that is larger than a usual frame is exported too."""
        stage = Stage(maxPayload=1000)
        stage.log("c", [b"x" * 5000, b"y"])
        assert payloadsOf(stage.export("c", start=1)) == {1: b"x" * 5000, 2: b"y"}


class TestGone:
    """Requesters that leave before the end of an answer."""

    def test_unsubscribed(self) -> None:
        """Nothing more is read after the requester has unsubscribed."""
        stage = Stage()
        log = stage.log("c", [b"x"] * (5 * ROWS))
        inbox = stage.send("EXPORT.test-cluster.c", {"start": 1})
        inbox.subscription.cancel()
        reads: list[int] = []
        exportRange = log.exportRange

        def counting(start: int, *more: int) -> object:
            reads.append(start)
            return exportRange(start, *more)

        log.exportRange = counting
        stage.settle()
        assert len(inbox.got) <= 1
        assert len(reads) <= 1

    def test_revoked(self) -> None:
        """Nothing more is sent after the requester's user was revoked."""
        stage = Stage()
        stage.log("c", [b"x"] * (5 * ROWS))
        origin = Connection(Grant())
        inbox = stage.send("EXPORT.test-cluster.c", {"start": 1}, origin)
        origin.grant = None
        stage.settle()
        assert len(inbox.got) == 1

    def test_logIsDropped(self) -> None:
        """If the log is deleted during an export, the answer ends with the reason."""
        stage = Stage()
        stage.log("c", [b"x"] * (5 * ROWS))
        inbox = stage.send("EXPORT.test-cluster.c", {"start": 1})
        result(stage.store.drop("c"))
        stage.settle()
        assert json.loads(inbox.got[-1])["error"]["err_code"] == 20006
        assert len(inbox.got) == 2


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ({}, "start must be a whole number from 1"),
        ({"start": 0}, "start must be a whole number from 1"),
        ({"start": True}, "start must be"),
        ({"start": "1"}, "start must be"),
        ({"start": 1, "stop": 0}, "stop must be"),
        (
            {"start": 1, "max_bytes": 17 << 20},
            "max_bytes must be a whole number from 1 to 16777216",
        ),
        ({"start": 1, "columns": ["data", "size"]}, "columns must be a list of: subject, headers"),
        ({"start": 1, "columns": "data"}, "columns must be"),
        ({"start": 1, "version": 2}, "version must be a whole number from 1 to 1"),
        ({"start": 1, "identity": 7}, "identity must be a text"),
        ({"start": 1, "speed": 7}, "there is no field 'speed'"),
    ],
)
def test_exportFieldsChecked(stage: Stage, question: dict[str, object], text: str) -> None:
    """The error for an invalid field names it."""
    number, said = stage.refused("EXPORT.test-cluster.c", question)
    assert number == 20001
    assert text in said


def test_otherIdentity(stage: Stage) -> None:
    """A range of a log that was replaced is refused."""
    question = {"start": 1, "identity": "0" * 16}
    assert stage.refused("EXPORT.test-cluster.c", question)[0] == 20004


def blocks(stage: Stage, **question: Any) -> dict[str, Any]:
    """The answer to a digest request for channel c."""
    return stage.ask("DIGEST.test-cluster.c", question)


@pytest.mark.parametrize("isPlain", [False, True])
def test_sameAsTheStores(isPlain: bool) -> None:
    """Blocks begin at multiples of their size, and have the fingerprints of the store."""
    stage = Stage()
    log = stage.log("c", [b"%d" % n for n in range(1, 26)], isPlain)
    result(log.delete([3, 20]))
    answer = blocks(stage, start=2, stop=100, block=10)
    assert (answer["next"], answer["first"], answer["last"]) == (26, 1, 25)
    expected = []
    for start, stop in ((2, 10), (10, 20), (20, 26)):
        digest = result(log.digest(start, stop))
        expected.append(
            {"start": start, "stop": stop, "count": digest.count, "sha256": digest.sha256.hex()}
        )
    assert answer["blocks"] == expected


def test_largeBlocks() -> None:
    """A block of many pages has one fingerprint."""
    stage = Stage()
    log = stage.log("c", [b"x"] * (2 * ROWS + 7))
    [block] = blocks(stage, start=1, stop=2 * ROWS + 8)["blocks"]
    assert block["sha256"] == result(log.digest(1, 2 * ROWS + 8)).sha256.hex()
    assert block["count"] == 2 * ROWS + 7


def test_noRecords() -> None:
    """An empty range has no blocks, and a block of deleted messages is empty."""
    stage = Stage()
    log = stage.log("c", [b"x"] * 10)
    assert blocks(stage, start=11, stop=20) == {"blocks": [], "next": 11, "first": 1, "last": 10}
    result(log.delete(range(1, 9)))
    empty = {"start": 1, "stop": 5, "count": 0, "sha256": hashlib.sha256().hexdigest()}
    assert blocks(stage, start=1, stop=5)["blocks"] == [empty]


def test_boundedDigest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest answer is limited in blocks and bytes, and has the start of the next one."""
    stage = Stage()
    stage.log("c", [b"x"] * 600)
    answer = blocks(stage, start=1, stop=601, block=2)
    assert (len(answer["blocks"]), answer["next"]) == (256, 512)
    assert blocks(stage, start=512, stop=601, block=2)["next"] == 601
    monkeypatch.setattr(ranges, "DIGESTED_BYTES", 30)
    assert blocks(stage, start=1, stop=601, block=10)["next"] == 20


def test_logIsDropped() -> None:
    """If the log is deleted during a digest request, the answer is an error."""
    stage = Stage()
    stage.log("c", [b"x"] * (3 * ROWS))
    inbox = stage.send("DIGEST.test-cluster.c", {"start": 1, "stop": 3 * ROWS})
    result(stage.store.drop("c"))
    stage.settle()
    assert json.loads(inbox.got[0])["error"]["err_code"] == 20006


def test_askerIsGone() -> None:
    """Nothing more is read for a digest after the requester has unsubscribed."""
    stage = Stage()
    log = stage.log("c", [b"x"] * (3 * ROWS))
    inbox = stage.send("DIGEST.test-cluster.c", {"start": 1, "stop": 3 * ROWS})
    result(stage.service.end())
    log.exportRange = None
    stage.settle()
    assert inbox.got == []


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ({"stop": 5}, "start"),
        ({"start": 1}, "stop"),
        ({"start": 1, "stop": 2, "block": 0}, "block"),
        ({"start": 1, "stop": 2, "block": 1_000_001}, "block"),
    ],
)
def test_digestFieldsChecked(question: dict[str, int], name: str) -> None:
    """The error for an invalid field names it."""
    stage = Stage()
    stage.log("c")
    number, text = stage.refused("DIGEST.test-cluster.c", question)
    assert number == 20001
    assert text.startswith(f"bad request: {name} must be")


class TestSubjects:
    """Ranges with only some subjects."""

    def filled(self) -> Stage:
        """Nine messages of three subjects, with header blocks."""
        made = Stage()
        log = made.log("c")
        entries = [(b"a.%d" % (n % 3), b"\0\0\0\4h%d\r\n" % n, b"%d" % n, n) for n in range(1, 10)]
        result(log.append(entries))
        return made

    def test_matching(self) -> None:
        """A range with subjects has only their messages, and its position includes the others."""
        frames = self.filled().export("c", start=1, stop=9, subjects=["a.1", "b.>"])
        assert payloadsOf(frames) == {1: b"1", 4: b"4", 7: b"7"}
        assert (frames[0].place.start, frames[-1].place.next) == (1, 9)

    @pytest.mark.parametrize("subjects", [["a..b"], "a.1", [1], ["\ud800"]])
    def test_noSubjects(self, subjects: object) -> None:
        """Any other value than a list of subjects is refused."""
        number, text = self.filled().refused(
            "EXPORT.test-cluster.c", {"start": 1, "subjects": subjects}
        )
        assert (number, text) == (20001, "bad request: subjects must be a list of subjects")

    def test_plainLog(self) -> None:
        """A log without an index of subjects refuses a range with subjects."""
        made = Stage()
        made.log("c", [b"1"], isPlain=True)
        question = {"start": 1, "subjects": ["a"]}
        assert "cannot be read by subjects" in made.refused("EXPORT.test-cluster.c", question)[1]

    def test_headerPrefix(self) -> None:
        """The prefix that a service adds to header blocks is not exported."""
        made = self.filled()
        [frame] = made.export("c", start=8)
        made.shelf.prefix = 4
        [stripped] = made.export("c", start=8)
        assert bytes(frame.headers) == b"\0\0\0\4h8\r\n\0\0\0\4h9\r\n"
        assert bytes(stripped.headers) == b"h8\r\nh9\r\n"
        assert stripped.headerEnds.cast("I").tolist() == [0, 4, 8]
        [bare] = made.export("c", start=8, columns=["data"])
        assert bytes(bare.headers) == b""
