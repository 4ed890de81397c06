"""
Stores whose files were damaged while they were closed.

A few of the many kinds of damage; C{python -m tests.storage.damage} does any number.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker import hot
from natsbroker.storage import records
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from tests.storage.damage import Specimen, makeSpecimen, trial
from tests.storage.history import Lost

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    """A store to damage copies of."""
    return makeSpecimen(tmp_path_factory.mktemp("specimen"), 60)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    """A store of a killed process to damage copies of."""
    return makeSpecimen(tmp_path_factory.mktemp("killed"), 60, isKilled=True)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    """An encrypted store to damage copies of."""
    return makeSpecimen(tmp_path_factory.mktemp("encrypted"), 60, Encryption("sample key"))


@pytest.mark.parametrize("tens", range(6))
def test_flippedBits(specimen: Specimen, tmp_path: Path, tens: int) -> None:
    """A flipped bit, anywhere, costs one record at most, and the loss is reported."""
    for seed in range(tens * 10, tens * 10 + 10):
        trial(specimen, tmp_path, str(seed), True)


@pytest.mark.parametrize("tens", range(4))
def test_killed(killed: Specimen, tmp_path: Path, tens: int) -> None:
    """
    A flipped bit costs one record at most also if the journal has records, deletions and values of
    state.
    """
    for seed in range(tens * 10, tens * 10 + 10):
        trial(killed, tmp_path, f"killed {seed}", True)


@pytest.mark.parametrize("tens", range(4))
def test_mangledFiles(specimen: Specimen, tmp_path: Path, tens: int) -> None:
    """
    Whatever is done to one file, the store opens, reports losses, and gives no sequence twice.
    """
    for seed in range(tens * 10, tens * 10 + 10):
        trial(specimen, tmp_path, str(seed), False)


@pytest.mark.parametrize("tens", range(4))
def test_encrypted(encrypted: Specimen, tmp_path: Path, tens: int) -> None:
    """A flipped bit costs one record at most also in an encrypted store."""
    for seed in range(tens * 10, tens * 10 + 10):
        trial(encrypted, tmp_path, f"encrypted {seed}", True)


def test_noticesWhatIsServedWrong(
    specimen: Specimen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that does not verify the checksums of records fails the trial."""
    monkeypatch.setattr(records, "crc32c", _Never())
    monkeypatch.setattr(hot, "selectRecords", None)  # The compiled step has its own checksum.
    with pytest.raises(Lost):
        for seed in range(60):
            trial(specimen, tmp_path, str(seed), True)


class _Never:
    """A checksum that is always right."""

    def __call__(self, data: bytes) -> _Never:
        """Make such a checksum."""
        return self

    def __eq__(self, other: object) -> bool:
        """Equal anything."""
        return True

    def __ne__(self, other: object) -> bool:
        """Differ from nothing."""
        return False

    __hash__ = None  # type: ignore[assignment]
