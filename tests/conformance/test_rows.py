"""
The table itself, which is complete and has no duplicate rows.
"""

from __future__ import annotations

from collections import Counter

from tests.conformance.rows import CASES, Row, allRows
from tests.conformance.steps import Signal
from tests.conformance.transcripts import Alive, Closed, Expect, Replay, Send


def test_everyCaseHasARow() -> None:
    """No numbered case is without a row."""
    assert sorted(set(CASES) - {row.number for row in allRows()}) == []


def test_idsAreUnique() -> None:
    """Two rows never have the same name."""
    counts = Counter(row.id for row in allRows())
    assert [name for name, count in counts.items() if count > 1] == []


def test_everyRowExpectsSomething() -> None:
    """Each row expects an answer: bytes, a close, or a PONG."""
    answers = (Expect, Closed, Alive)
    idle = [row.id for row in allRows() if not _says(row, answers)]
    assert idle == []


def _says(row: Row, answers: tuple[type, ...]) -> bool:
    processes = ("Exits", "ClosedWithout", "Open")
    return any(isinstance(s, answers) or type(s).__name__ in processes for s in row.steps)


def test_processSteps() -> None:
    """A row needs a process if one of its steps does."""
    assert Row(1, "x", (Signal("HUP"),)).needsProcess
    assert not Row(1, "x", (Send(b"PING\r\n"),)).needsProcess


def test_processStepsRefuseMemory() -> None:
    """A step that needs a process fails with this reason if there is none."""

    class Nowhere:
        def dial(self) -> None:
            raise AssertionError

        wait = sleep = dial

    try:
        Replay(Nowhere()).run([Signal("HUP")])  # type: ignore[arg-type]
    except NotImplementedError as error:
        assert "needs a server process" in str(error)
    else:
        raise AssertionError("it was performed")
