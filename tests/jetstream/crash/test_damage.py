"""
Single flipped bits: each costs one message at most, and is reported.

A few; C{python -m tests.jetstream.crash.damage} tries any number.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jetstream.crash.damage import JetStreamSpecimen, trial

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("isKilled", [False, True])
def test_flippedBits(tmp_path: Path, isKilled: bool) -> None:
    """The broker starts with all streams and consumers, whatever bit was flipped, also if the store
    was not closed."""
    specimen = JetStreamSpecimen(tmp_path, isKilled=isKilled)
    assert {trial(specimen, tmp_path, str(seed)) for seed in range(12)} <= {0, 1}
