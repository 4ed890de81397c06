"""
Power cuts: what was not synced may be gone, or be there in part.

A few histories; C{python -m tests.storage.powercut} goes through any number. Whatever
would make a store lose something is noticed: each kind of carelessness fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.storage import shim
from tests.storage.faults import CARELESS
from tests.storage.history import Lost
from tests.storage.powercut import CUTS, cutPower
from tests.storage.victims import Zygote

WHY_NOT = shim.whyNot()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """A process that forks victims."""
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.mark.parametrize("number", range(6))
def test_nothingIsLost(zygote: Zygote, tmp_path: Path, number: int) -> None:
    """
    An acknowledged record is there after a power cut at any moment, and after the next cut too.
    """
    assert cutPower(zygote, tmp_path, str(number)) == CUTS * 4


@pytest.mark.parametrize("number", range(4))
def test_interval(zygote: Zygote, tmp_path: Path, number: int) -> None:
    """
    With an interval between syncs, records acknowledged before the last sync survive a power cut.
    """
    cuts = cutPower(zygote, tmp_path, str(number), syncInterval=60, isRelaxed=True)
    assert cuts == CUTS * 4


@pytest.mark.parametrize("number", range(3))
def test_encrypted(zygote: Zygote, tmp_path: Path, number: int) -> None:
    """
    Acknowledged records of an encrypted store survive a power cut, also while its keys are made.
    """
    assert cutPower(zygote, tmp_path, f"encrypted {number}", key="sample key") == CUTS * 4


@pytest.mark.parametrize("number", range(3))
def test_encryptedLater(zygote: Zygote, tmp_path: Path, number: int) -> None:
    """Acknowledged records survive a power cut while their store is being encrypted."""
    cuts = cutPower(zygote, tmp_path, f"later {number}", key="sample key", plainCuts=1)
    assert cuts == CUTS * 4


def _notices(zygote: Zygote, where: Path, **how: Any) -> None:
    """Demand that some record is lost in one of a few histories."""
    with pytest.raises(Lost):
        for number in range(10):
            part = where / str(number)
            part.mkdir()
            cutPower(zygote, part, f"careless {number}", **how)


@pytest.mark.parametrize("careless", [name for name in CARELESS if name])
def test_noticesCarelessness(zygote: Zygote, tmp_path: Path, careless: str) -> None:
    """A store that omits a needed sync, or acknowledges before it, loses a record."""
    _notices(zygote, tmp_path, careless=careless)


def test_noticesIntervals(zygote: Zygote, tmp_path: Path) -> None:
    """With an interval between syncs, records acknowledged after the last sync may be lost."""
    _notices(zygote, tmp_path, syncInterval=60)


def test_noticesDisksThatLie(zygote: Zygote, tmp_path: Path) -> None:
    """A disk that reports syncs which it has not done is noticed by a lost record."""
    _notices(zygote, tmp_path, isHonest=False)
