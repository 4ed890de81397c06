"""
Holds on logs, and their ends.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import fail

from natsbroker.interfaces.records import Retention, StoreFull
from tests.export.support import Stage, result

HOLD = "HOLD.test-cluster.c"
RENEW = "RENEW.test-cluster.c"
RELEASE = "RELEASE.test-cluster.c"


@pytest.fixture
def stage() -> Stage:
    """A log of five messages."""
    made = Stage()
    made.log("c", [b"x"] * 5)
    return made


def holds(stage: Stage) -> list[dict[str, Any]]:
    """The holds in the state of a log."""
    held = stage.ask("INFO.test-cluster.c")["holds"]
    assert isinstance(held, list)
    return held


def states(stage: Stage) -> dict[bytes, bytes]:
    """The states that are stored."""
    spaces = result(stage.shelf.states().load())
    assert isinstance(spaces, dict)
    return spaces


class TestSet:
    """Requests for a new hold."""

    def test_retentionStops(self, stage: Stage) -> None:
        """Retention does not remove the messages of a hold until the hold moves or is released."""
        answer = stage.ask(HOLD, {"name": "archive", "floor": 3})
        assert answer == {"hold": {"name": "archive", "floor": 3}, "first": 1}
        log = stage.shelf.logs["c"]
        log.retain(Retention(count=1))
        assert log.bounds().first == 3
        assert stage.ask(HOLD, {"name": "archive", "floor": 4})["first"] == 4
        assert holds(stage) == [{"name": "archive", "floor": 4}]
        assert stage.ask(RELEASE, {"name": "archive"}) == {"released": "archive"}
        assert (log.bounds().first, holds(stage)) == (5, [])

    def test_releaseTwice(self, stage: Stage) -> None:
        """Releasing a missing hold does nothing."""
        assert stage.ask(RELEASE, {"name": "archive"}) == {"released": "archive"}

    def test_survives(self, stage: Stage) -> None:
        """A hold, and the end of one, are remembered over a restart."""
        stage.ask(HOLD, {"name": "a", "floor": 2})
        stage.ask(HOLD, {"name": "b", "floor": 3, "seconds": 100})
        stage.restart()
        left = holds(stage)
        assert left[0] == {"name": "a", "floor": 2}
        assert (left[1]["floor"], 90 <= left[1]["seconds"] <= 100) == (3, True)

    def test_unlimited(self, stage: Stage) -> None:
        """A hold that is set again without an end has none, and its old end has no effect."""
        stage.ask(HOLD, {"name": "a", "floor": 2, "seconds": 10})
        assert len(states(stage)) == 1
        stage.ask(HOLD, {"name": "a", "floor": 2})
        assert (holds(stage), states(stage)) == ([{"name": "a", "floor": 2}], {})


class TestRenew:
    """Requests to renew a hold."""

    def test_renews(self, stage: Stage) -> None:
        """A renewal keeps or moves the floor of a hold, and its time begins again."""
        stage.ask(HOLD, {"name": "a", "floor": 2, "seconds": 10})
        stage.settle(6)
        renewed = stage.ask(RENEW, {"name": "a", "seconds": 10})
        assert renewed == {"hold": {"name": "a", "floor": 2, "seconds": 10}, "first": 1}
        stage.settle(6)
        assert stage.ask(RENEW, {"name": "a", "floor": 3, "seconds": 10})["hold"]["floor"] == 3

    def test_tooLate(self, stage: Stage) -> None:
        """A hold that has expired cannot be renewed, because its messages may be gone."""
        stage.ask(HOLD, {"name": "a", "floor": 2, "seconds": 10})
        stage.settle(20)
        assert stage.refused(RENEW, {"name": "a"}) == (20009, "channel c has no hold a")


class TestEnd:
    """Holds that expire."""

    def test_holdEnds(self, stage: Stage) -> None:
        """When a hold expires, its messages may be removed, and other holds stay."""
        log = stage.shelf.logs["c"]
        stage.ask(HOLD, {"name": "a", "floor": 2, "seconds": 10})
        stage.ask(HOLD, {"name": "b", "floor": 4, "seconds": 50})
        stage.ask(HOLD, {"name": "c", "floor": 5})
        log.retain(Retention(count=1))
        assert log.bounds().first == 2
        stage.settle(20)
        assert (log.holds(), log.bounds().first) == ({"b": 4, "c": 5}, 4)
        stage.settle(60)
        assert (log.holds(), log.bounds().first, states(stage)) == ({"c": 5}, 5, {})

    def test_endsAfterARestart(self, stage: Stage) -> None:
        """A hold that expired while the broker was stopped ends at the start."""
        stage.ask(HOLD, {"name": "a", "floor": 2, "seconds": 10})
        result(stage.service.end())
        stage.settle(20)
        assert stage.shelf.logs["c"].holds() == {"a": 2}
        stage.restart()
        stage.settle(10)
        assert stage.shelf.logs["c"].holds() == {}

    def test_storeRefuses(self, stage: Stage) -> None:
        """A hold that the store cannot release at its end is released later."""
        log = stage.shelf.logs["c"]
        stage.ask(HOLD, {"name": "a", "floor": 2, "seconds": 10})
        release, log.release = log.release, lambda name: fail(StoreFull("full"))
        stage.settle(20)
        assert holds(stage) == [{"name": "a", "floor": 2, "seconds": 0}]
        log.release = release
        stage.settle(10)
        assert (holds(stage), states(stage)) == ([], {})

    @pytest.mark.parametrize("isReleased", [True, False])
    def test_endIsKept(self, stage: Stage, isReleased: bool) -> None:
        """An end that the store cannot delete is deleted later, and does not end a later hold."""
        stage.ask(HOLD, {"name": "a", "floor": 2, "seconds": 10})
        kept = stage.shelf.states()
        change, kept.change = kept.change, lambda changes: fail(StoreFull("full"))
        call, body = (RELEASE, {"name": "a"}) if isReleased else (HOLD, {"name": "a", "floor": 2})
        assert stage.refused(call, body) == (20006, "the store fails: full")
        stage.settle(10)
        kept.change = change
        stage.settle(10)
        assert (holds(stage), states(stage)) == ([], {})
        stage.ask(HOLD, {"name": "a", "floor": 2})
        stage.restart()
        stage.settle(20)
        assert holds(stage) == [{"name": "a", "floor": 2}]

    def test_logIsGone(self, stage: Stage) -> None:
        """The holds of a removed log are forgotten."""
        stage.ask(HOLD, {"name": "a", "floor": 2, "seconds": 1000})
        del stage.shelf.logs["c"]
        stage.restart()
        assert states(stage) == {}


class TestRefused:
    """Requests for holds that are refused."""

    @pytest.mark.parametrize(
        ("question", "text"),
        [
            ({"floor": 1}, "name must be a text"),
            ({"name": "", "floor": 1}, "name must be a text that can be printed"),
            ({"name": "a\n", "floor": 1}, "name must be a text that can be printed"),
            ({"name": "a"}, "floor must be a whole number from 1"),
            ({"name": "a", "floor": 1, "seconds": -1}, "seconds must be"),
        ],
    )
    def test_fields(self, stage: Stage, question: dict[str, object], text: str) -> None:
        """The error for an invalid field names it."""
        number, said = stage.refused(HOLD, question)
        assert number == 20001
        assert text in said

    def test_storesLimits(self, stage: Stage) -> None:
        """A hold that the store refuses gets the store's reason, and leaves nothing behind."""
        question = {"name": "x" * 101, "floor": 1, "seconds": 10}
        number, text = stage.refused(HOLD, question)
        assert (number, text.startswith("the hold is refused: the name of a hold")) == (20008, True)
        assert states(stage) == {}

    def test_storeFails(self, stage: Stage) -> None:
        """A hold that the store cannot write is refused with the reason."""
        stage.shelf.logs["c"].hold = lambda name, floor: fail(StoreFull("full"))
        question = {"name": "a", "floor": 1, "seconds": 10}
        assert stage.refused(HOLD, question) == (20006, "the store fails: full")
        assert states(stage) == {}

    @pytest.mark.parametrize("call", [HOLD, RENEW, RELEASE])
    def test_plainLog(self, stage: Stage, call: str) -> None:
        """A store that does not support holds reports that."""
        stage.log("c", isPlain=True)
        expected = 20007, "the store of channel c cannot hold records"
        assert stage.refused(call, {"name": "a"}) == expected
