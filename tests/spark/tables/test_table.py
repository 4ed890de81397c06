"""
The common part of all formats.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from natsbroker.spark.errors import OptionError
from natsbroker.spark.tables.snapshots import TableError
from natsbroker.spark.tables.table import FORMATS, formOf, tableAt


def test_noTable(tmp_path: Path) -> None:
    """Without a table there is no format, and Delta is the default."""
    assert (formOf(tmp_path), formOf(tmp_path / "nothing")) == ("", "")
    assert tableAt(tmp_path).form == "delta"
    for form in FORMATS:
        assert tableAt(tmp_path, form).form == form


def test_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing library is an error that names the extra."""
    monkeypatch.delitem(sys.modules, "natsbroker.spark.tables.delta", raising=False)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(OptionError, match=r"pip install 'natsbroker\[delta\]'"):
        tableAt(tmp_path, "delta")


def test_former(tmp_path: Path) -> None:
    """A table of an earlier version is refused with the command that converts it."""
    (tmp_path / "_nb").mkdir()
    with pytest.raises(TableError, match="natsbroker spark convert --archive"):
        tableAt(tmp_path)
