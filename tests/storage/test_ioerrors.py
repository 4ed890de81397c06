"""
Disks that fail: errors of single calls.

An error is answered with an error; after a failed sync nothing is acknowledged until the
store was opened and verified again; what was acknowledged is there; reading goes on.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from natsbroker.interfaces.records import StoreFailed
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.storage import shim
from tests.storage.history import History
from tests.storage.shim import FOR_EVER, Act, Call, Plan
from tests.storage.victims import Zygote

WHY_NOT = shim.whyNot()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """A process that forks victims."""
    zygote = Zygote()
    yield zygote
    zygote.close()


LARGE = 200
"""
The number of records that are too many for the journal, so that they are committed to the database.
"""


def failing(
    zygote: Zygote, directory: Path, plan: Plan, steps: int = 12, count: int = 5
) -> list[dict[str, Any]]:
    """
    Append to a store while calls fail; then compare it with what was acknowledged.

    @return: what the process said.
    """
    how: dict[str, Any] = {"first": 100, "steps": steps, "count": count}
    run = zygote.run("append", directory / "store", later=plan, **how)
    assert run.hits > 0, "nothing failed"
    assert not run.killed
    history = History()
    history.learn(run.lines)
    recorder = history.check(directory / "store")
    assert not recorder.damaged
    answered = [line for line in run.said if "done" in line or "failed" in line]
    assert len(answered) == steps
    return run.said


def errors(said: list[dict[str, Any]]) -> list[str]:
    """
    The errors that were answered.
    """
    return [line["error"] for line in said if "failed" in line]


@pytest.mark.parametrize("number", [1, 2, 3, 6])
@pytest.mark.parametrize("call", [Call.SYNC | Call.ROOT, Call.WRITE])
def test_errorOnce(zygote: Zygote, tmp_path: Path, call: Call, number: int) -> None:
    """After an I/O error an append fails, and later ones succeed when the store was reopened."""
    said = failing(zygote, tmp_path, Plan(Act.FAIL, call, number, number))
    assert set(errors(said)) == {"StoreFailed"}
    assert "done" in said[-1]


@pytest.mark.parametrize("number", [1, 2, 3, 6])
def test_shortWrite(zygote: Zygote, tmp_path: Path, number: int) -> None:
    """A partly done write is completed, or is an error."""
    said = failing(zygote, tmp_path, Plan(Act.SHORT, Call.WRITE, number, number))
    assert "done" in said[-1]


def test_failStop(zygote: Zygote, tmp_path: Path) -> None:
    """Between a failed sync and opening the store again, nothing is acknowledged."""
    said = failing(zygote, tmp_path, Plan(Act.FAIL, Call.SYNC | Call.ROOT, 3, 3))
    isFailing = False
    for line in said:
        isFailing = (isFailing or "failed" in line) and "reopened" not in line
        assert not (isFailing and "done" in line)


@pytest.mark.parametrize("call", [Call.SYNC | Call.ROOT, Call.WRITE])
def test_errorForEver(zygote: Zygote, tmp_path: Path, call: Call) -> None:
    """While every sync or write fails, every append fails, and reading goes on."""
    said = failing(zygote, tmp_path, Plan(Act.FAIL, call, 8), 8)
    kinds = [
        "done" if "done" in line else "failed" for line in said if {"done", "failed"} & {*line}
    ]
    assert kinds == sorted(kinds)
    assert "failed" in kinds
    read = [line["read"] for line in said if "read" in line]
    assert set(read) == {5 * kinds.count("done")}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", [Call.SYNC, Call.WRITE, Call.SIZE | Call.WRITE])
def test_answersAtOnce(zygote: Zygote, tmp_path: Path, call: Call, error: int) -> None:
    """
    A failed append is answered at once, without another attempt before it and without a timer.
    """
    said = failing(zygote, tmp_path, Plan(Act.FAIL, call, 8, FOR_EVER, error), 20, 1000)
    failed = [line for line in said if "failed" in line]
    assert len(failed) > 1
    assert {line["passed"] for line in failed} == {0.0}
    assert {line["hits"] for line in failed} <= {0, 1}


@pytest.mark.parametrize("last", [1, 4])
@pytest.mark.parametrize("call", [Call.WRITE, Call.SIZE])
def test_noSpace(zygote: Zygote, tmp_path: Path, call: Call, last: int) -> None:
    """While there is no space, appends fail for that reason; the store need not be opened again."""
    plan = Plan(Act.FAIL, call, 1, last, errno.ENOSPC)
    said = failing(zygote, tmp_path, plan, 20, 1000)
    assert "done" in said[-1]
    assert set(errors(said)) <= {"StoreFull"}


def test_noSpaceAtRoot(zygote: Zygote, tmp_path: Path) -> None:
    """
    A disk without space for the page where LMDB notes a commit stops writing, but not reading; the
    store continues after it was opened again.
    """
    plan = Plan(Act.FAIL, Call.WRITE, 3, 4, errno.ENOSPC)
    said = failing(zygote, tmp_path, plan, 6, LARGE)
    assert "done" in said[-1]
    assert "StoreFailed" in errors(said) or "StoreFull" in errors(said)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_noSpaceForRoot(zygote: Zygote, tmp_path: Path, number: int) -> None:
    """
    A commit without space for its last page fails with StoreFailed, even if no call follows: it may
    be stored, so it does not fail for want of space, and readers do not wait.
    """
    plan = Plan(Act.FAIL, Call.ROOT, number, number, errno.ENOSPC)
    said = failing(zygote, tmp_path, plan, 6, LARGE)
    assert errors(said) == ["StoreFailed"]
    assert [line["read"] for line in said if "read" in line] == [LARGE * (number - 1)]
    assert "done" in said[-1]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_failsAgain(zygote: Zygote, tmp_path: Path, error: int) -> None:
    """A store that could not be opened again, for whatever reason, is opened again later."""
    plan = Plan(Act.FAIL, Call.SYNC | Call.ROOT, 4, 6, error)
    said = failing(zygote, tmp_path, plan, 6, LARGE)
    assert errors(said) == ["StoreFailed"] * 3
    assert "done" in said[-1]


def test_unreadable(zygote: Zygote, tmp_path: Path) -> None:
    """A store that cannot be read for a moment while it is opened loses nothing."""
    store = tmp_path / "store"
    history = History()
    history.learn(zygote.run("commit", store, seed="read", steps=30).lines)
    hits = 0
    for number in (1, 2, 3, 4, 5, 6, 8, 11, 16, 24, 40):
        hits += zygote.run("open", store, Plan(Act.FAIL, Call.READ, number, number)).hits
        history.check(store)
    assert hits > 6


@pytest.mark.parametrize(("page", "count"), [(1, 1), (4, 8), (20, 20)])
def test_neverReadableAgain(zygote: Zygote, tmp_path: Path, page: int, count: int) -> None:
    """
    A store with pages that can never be read again opens, reports this, and uses no sequence again.
    """
    store = tmp_path / "store"
    history = History()
    history.learn(zygote.run("commit", store, seed="read", steps=60).lines)
    inode = (store / "data.mdb").stat().st_ino
    start, stop = page * 4096, (page + count) * 4096
    hole = Plan(Act.UNREADABLE, Call.READ, start, stop, inode=inode)
    assert zygote.run("open", store, hole).hits > 0
    recorder = history.check(store, mayLose=True, mayReturn=True)
    assert recorder.states


def test_openingFails(zygote: Zygote, tmp_path: Path) -> None:
    """A store that cannot be opened reports this, and is not changed."""
    history = History()
    history.learn(zygote.run("commit", tmp_path / "store", seed="x", steps=20).lines)
    plan = Plan(Act.FAIL, Call.SYNC, 1, FOR_EVER)
    run = zygote.run("tryOpening", tmp_path / "store", plan)
    assert run.said == [{"failed": StoreFailed.__name__}]
    history.check(tmp_path / "store")


def test_notADirectory(tmp_path: Path) -> None:
    """Where no directory can be made, opening fails."""
    (tmp_path / "file").write_text("")
    reactor = PumpedReactor()
    with pytest.raises(StoreFailed):
        reactor.wait(openLMDB(reactor, tmp_path / "file" / "store"))
