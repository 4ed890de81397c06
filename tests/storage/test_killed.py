"""
A store whose process is killed: at random, and at calls that change its files.

The short form takes some of the points and says which; C{python -m tests.storage.points}
takes all, C{python -m tests.storage.crash} any number of rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.storage import shim
from tests.storage.crash import rounds
from tests.storage.history import History, Lost
from tests.storage.points import MOMENTS, PHASES, tryPoint
from tests.storage.shim import Act, Call, Plan
from tests.storage.victims import Zygote

pytestmark = pytest.mark.slow

WHY_NOT = shim.whyNot()
needsShim = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """A process that forks victims."""
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.mark.parametrize("syncInterval", [0, 60])
def test_killedAtRandom(tmp_path: Path, syncInterval: float) -> None:
    """
    No acknowledged record is lost, whenever the process is killed, with an interval between syncs
    and without.
    """
    history = rounds(tmp_path / "store", 3, "short", syncInterval=syncInterval)
    assert history.acknowledged > 0


@needsShim
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("phase", PHASES)
def test_killedAtCall(zygote: Zygote, tmp_path: Path, phase: str, moment: str) -> None:
    """
    No acknowledged record is lost at whatever call the process is killed: while it creates,
    reopens, repairs or uses a store.
    """
    reached = 0
    for number in (1, 2, 4, 8, 16, 32):
        reached += tryPoint(zygote, tmp_path / str(number), phase, moment, number)
    assert reached


@needsShim
def test_noticesEarlyAcknowledgement(zygote: Zygote, tmp_path: Path) -> None:
    """A process that acknowledges before a commit is caught when it is killed."""
    with pytest.raises(Lost):
        for number in range(40, 60):
            plan = Plan(Act.KILL_BEFORE, Call.WRITE, number, number)
            store = tmp_path / str(number)
            how: dict[str, Any] = {
                "seed": str(number),
                "steps": 60,
                "careless": "acknowledged early",
            }
            history = History()
            history.learn(zygote.run("commit", store, plan, **how).lines)
            history.check(store)


def test_noticesLoss(tmp_path: Path) -> None:
    """The comparison notices a missing record."""
    history = History()
    history.learn(
        [
            b'{"ask": 1, "append": "orders", "first": 7, "count": 1}',
            b'{"done": 1, "result": [1, 2]}',
        ]
    )
    with pytest.raises(AssertionError, match="orders is gone"):
        history.check(tmp_path / "store")
