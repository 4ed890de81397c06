"""
Tests of L{tests.reach}: what is installed follows from the tests that are named.
"""

from __future__ import annotations

import pytest

from tests.reach import INTEROP, POSTGRES, ROOT, SPARK, Reach, reachOf


@pytest.fixture(autouse=True)
def inCheckout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arguments are relative to the checkout's top directory."""
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("place", [INTEROP, SPARK, POSTGRES])
def test_placesExist(place: str) -> None:
    """The directories of the decision exist."""
    assert (ROOT / place).is_dir()


@pytest.mark.parametrize(
    "arguments",
    [["tests/wire", "-k", "decoder"], ["tests/test_hot.py::test_any"], ["-x", "./tests/config"]],
)
def test_otherTestsNeedOnlyUnitExtra(arguments: list[str]) -> None:
    """Tests without peers run in the small environment."""
    assert reachOf(arguments) == Reach(False, False, False)
    assert reachOf(arguments).environment == "unit"


@pytest.mark.parametrize("arguments", [[], ["-k", "decoder"], ["tests"], ["tests/wire", "."]])
def test_everythingIsReachedUnlessNamed(arguments: list[str]) -> None:
    """Without a path, or with one that holds them all, every test may run."""
    assert reachOf(arguments) == Reach(True, True, True)
    assert reachOf(arguments).environment == "checks"


def test_heavyPlacesAreReachedAlone() -> None:
    """Tests of Spark do not bring Node.js with them, nor the other way around."""
    assert reachOf(["tests/spark/jobs"]) == Reach(False, True, False)
    assert reachOf(["tests/interop/test_turns.py::test_any"]) == Reach(True, False, False)
    assert reachOf(["tests/spark", "tests/wire"]).environment == "checks"
