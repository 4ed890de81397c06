"""
Ranges of a log as columnar frames.
"""

from __future__ import annotations

import json

import pytest

from natsbroker.export.exporting import MOST_BYTES
from natsbroker.export.paging import ROWS
from natsbroker.wire.grants import Grant
from tests.export.support import Connection, Stage, payloadsOf, result


@pytest.fixture(params=[False, True], ids=["exporting", "plain"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """A log of ten messages, of a store that exports and of one that can only be read."""
    made = Stage()
    made.log("c", [b"%d" % n for n in range(1, 11)], isPlain=request.param)
    return made


class TestRange:
    """What comes."""

    def test_all(self, stage: Stage) -> None:
        """Everything in one frame, which says where the log ends."""
        [frame] = stage.export("c", start=1)
        assert payloadsOf([frame]) == {n: b"%d" % n for n in range(1, 11)}
        place = frame.place
        assert (place.start, place.next, place.first, place.last) == (1, 11, 1, 10)
        assert (frame.isLast, frame.subject) == (True, b"c")

    def test_part(self, stage: Stage) -> None:
        """A range begins and stops where it says."""
        frames = stage.export("c", start=4, stop=7)
        assert sorted(payloadsOf(frames)) == [4, 5, 6]
        assert frames[-1].place.next == 7

    @pytest.mark.parametrize(("start", "stop"), [(11, 20), (50, 60), (5, 5), (6, 2)])
    def test_nothing(self, stage: Stage, start: int, stop: int) -> None:
        """An empty range is one frame without rows."""
        [frame] = stage.export("c", start=start, stop=stop)
        assert (frame.rows, frame.isLast, frame.place.next) == (0, True, start)

    def test_beyondTheEnd(self, stage: Stage) -> None:
        """A range that goes on behind the last message ends with it."""
        frames = stage.export("c", start=9, stop=1000)
        assert sorted(payloadsOf(frames)) == [9, 10]
        assert frames[-1].place.next == 11

    def test_deleted(self, stage: Stage) -> None:
        """Deleted messages are not there, and their sequences are not given to others."""
        result(result(stage.store.open("c")).delete([1, 5, 10]))
        frames = stage.export("c", start=1)
        assert sorted(payloadsOf(frames)) == [2, 3, 4, 6, 7, 8, 9]
        assert (frames[-1].place.first, frames[-1].place.last) == (2, 10)

    def test_columns(self, stage: Stage) -> None:
        """Only the columns that are asked for."""
        [frame] = stage.export("c", start=1, columns=["subject"])
        assert (frame.rows, len(frame.payloads), frame.subject) == (10, 0, b"c")
        [frame] = stage.export("c", start=1, columns=[])
        assert (frame.rows, frame.subject, len(frame.subjectEnds)) == (10, None, 0)


class TestParts:
    """A range that is large."""

    def test_answerIsBounded(self, stage: Stage) -> None:
        """An answer ends with the message that goes beyond the bytes, and says where to go on."""
        start, found = 1, {}
        while start < 11:
            frames = stage.export("c", start=start, max_bytes=5)
            assert frames[-1].isLast and frames[-1].place.next > start
            found.update(payloadsOf(frames))
            start = frames[-1].place.next
        assert sorted(found) == list(range(1, 11))

    @pytest.mark.parametrize("isPlain", [False, True])
    def test_frames(self, isPlain: bool) -> None:
        """Frames are bounded in rows and bytes and follow each other; the last one is marked."""
        stage = Stage(maxPayload=100_000)
        stage.log("c", [b"x" * 40] * (2 * ROWS + 100), isPlain=isPlain)
        frames = stage.export("c", start=1, max_bytes=MOST_BYTES)
        assert len(frames) > 3
        assert [each.isLast for each in frames] == [False] * (len(frames) - 1) + [True]
        assert all(each.rows <= ROWS and len(each.payloads) <= 75_040 for each in frames)
        starts = [each.place.start for each in frames]
        assert starts == [1, *(each.place.next for each in frames[:-1])]
        assert len(payloadsOf(frames)) == 2 * ROWS + 100

    def test_gap(self, stage: Stage) -> None:
        """A gap that is larger than a page costs no frames."""
        log = result(stage.store.open("c"))
        result(log.skipTo(10 * ROWS))
        result(log.append([(b"c", b"", b"far", 0)]))
        frames = stage.export("c", start=1)
        assert sorted(payloadsOf(frames)) == [*range(1, 11), 10 * ROWS]
        assert len(frames) == 2
        assert frames[1].place.start == frames[0].place.next

    def test_largeMessages(self) -> None:
        """A message that is larger than a frame should be comes all the same."""
        stage = Stage(maxPayload=1000)
        stage.log("c", [b"x" * 5000, b"y"])
        assert payloadsOf(stage.export("c", start=1)) == {1: b"x" * 5000, 2: b"y"}


class TestGone:
    """Somebody who does not wait for the end."""

    def test_unsubscribed(self) -> None:
        """Nothing more is read when nobody listens any more."""
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
        """Nothing more is sent to somebody who is not let in any more."""
        stage = Stage()
        stage.log("c", [b"x"] * (5 * ROWS))
        origin = Connection(Grant())
        inbox = stage.send("EXPORT.test-cluster.c", {"start": 1}, origin)
        origin.grant = None
        stage.settle()
        assert len(inbox.got) == 1

    def test_logIsDropped(self) -> None:
        """If the log is deleted meanwhile, the answer ends with the reason."""
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
def test_refused(stage: Stage, question: dict[str, object], text: str) -> None:
    """A field that makes no sense is refused by its name."""
    number, said = stage.refused("EXPORT.test-cluster.c", question)
    assert number == 20001
    assert text in said


def test_otherIdentity(stage: Stage) -> None:
    """A range of a log that is another one now is refused."""
    question = {"start": 1, "identity": "0" * 16}
    assert stage.refused("EXPORT.test-cluster.c", question)[0] == 20004
