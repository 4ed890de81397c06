"""
A store whose process is killed: at random, and at every system call that touches a file.

Promises: the short form takes some of the points and says which; C{python -m tests.store.points}
takes all, C{python -m tests.store.crash} any number of rounds.
Must never know: how the store works.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.crash import rounds
from tests.store.history import History
from tests.store.points import Point, committingPoint, openingPoint
from tests.store.victims import CALLS, Zygote, whyNot

WHY_NOT = whyNot()
needsStrace = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """A process that forks victims."""
    zygote = Zygote()
    yield zygote
    zygote.close()


def test_killedAtRandom(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, whenever the process is killed."""
    history = rounds(tmp_path / "store", 4, "short")
    assert history.acknowledged > 0


@needsStrace
@pytest.mark.parametrize("call", CALLS)
def test_killedWhileOpening(zygote: Zygote, tmp_path: Path, call: str) -> None:
    """A store that is killed while it is made, or opened after a crash, opens the next time."""
    for number in (1, 2, 3, 5, 8, 13, 21):
        for kind in ("new", "old"):
            openingPoint(zygote, tmp_path / f"{kind}{number}", kind, Point(call, number))


@needsStrace
@pytest.mark.parametrize("call", ["pwrite64", "pwritev", "write", "fdatasync", "fallocate"])
def test_killedWhileCommitting(zygote: Zygote, tmp_path: Path, call: str) -> None:
    """Nothing acknowledged is lost, at whatever call of a commit the process is killed."""
    for number in (1, 2, 3, 4, 7, 12, 30):
        committingPoint(zygote, tmp_path / f"{number}", Point(call, number))


def test_noticesLoss(tmp_path: Path) -> None:
    """The comparison itself notices a record that is not there."""
    history = History()
    history.learn(
        [
            b'{"ask": 1, "append": "orders", "first": 7, "count": 1}',
            b'{"done": 1, "result": [1, 2]}',
        ]
    )
    with pytest.raises(AssertionError, match="orders is gone"):
        history.check(tmp_path / "store")
