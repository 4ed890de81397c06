"""Tests for L{natsbroker._moved}."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from natsbroker._moved import MOVED, newName

_SCRIPT = """
import importlib, sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    old = importlib.import_module(sys.argv[1])
assert {each.category for each in caught if "is now" in str(each.message)} == {DeprecationWarning}
new = importlib.import_module(sys.argv[2])
assert old is new and new.__spec__.name == sys.argv[2], (old, new.__spec__)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *MOVED.items(),
        ("natsbroker.stan.permissions", "natsbroker.streaming.permissions"),
        ("natsbroker.store.lmdb.store", "natsbroker.storage.lmdb.store"),
    ],
)
def test_oldNameIsTheSameModule(old: str, new: str) -> None:
    """The old name gives the module itself, with a warning, in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _SCRIPT, old, new],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_unknownModule() -> None:
    """A module that never existed is still missing."""
    assert newName("natsbroker.stanza") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("natsbroker.stanza")
    with pytest.warns(DeprecationWarning), pytest.raises(ModuleNotFoundError):
        importlib.import_module("natsbroker.stan.nothing")
