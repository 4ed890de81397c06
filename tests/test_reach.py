"""
Tests of L{tests.reach}: the packages that are installed for the named tests.
"""

from __future__ import annotations

import pytest

from tests.reach import INTEROP, POSTGRES, ROOT, SPARK, Reach, reachOf


@pytest.fixture(autouse=True)
def inCheckout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in the checkout's top directory."""
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("place", [INTEROP, SPARK, POSTGRES])
def test_placesExist(place: str) -> None:
    """The directories that decide about packages exist."""
    assert (ROOT / place).is_dir()


@pytest.mark.parametrize(
    "arguments",
    [["tests/wire", "-k", "decoder"], ["tests/test_hot.py::test_any"], ["-x", "./tests/config"]],
)
def test_otherTestsNeedOnlyUnitExtra(arguments: list[str]) -> None:
    """Tests without peers need only the unit packages."""
    assert reachOf(arguments) == Reach(False, False, False)
    assert reachOf(arguments).environment == "unit"


@pytest.mark.parametrize("arguments", [[], ["-k", "decoder"], ["tests"], ["tests/wire", "."]])
def test_everythingIsReachedUnlessNamed(arguments: list[str]) -> None:
    """Without a path, or with one that contains all of them, every test may run."""
    assert reachOf(arguments) == Reach(True, True, True)
    assert reachOf(arguments).environment == "checks"


def test_heavyPlacesAreReachedAlone() -> None:
    """Tests of Spark do not need Node.js, and tests with Node.js do not need Spark."""
    assert reachOf(["tests/spark/jobs"]) == Reach(False, True, False)
    assert reachOf(["tests/interop/test_turns.py::test_any"]) == Reach(True, False, False)
    assert reachOf(["tests/spark", "tests/wire"]).environment == "checks"
