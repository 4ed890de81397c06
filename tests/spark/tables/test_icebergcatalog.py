"""
The catalogs of Iceberg tables.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from natsbroker.spark.errors import OptionError
from natsbroker.spark.tables.iceberg import IcebergTable, SyncedFileIO
from natsbroker.spark.tables.snapshots import TableError
from natsbroker.spark.tables.table import FORMATS, MARKS, formOf
from tests.spark.tablecontract import together


def test_ownCatalog(tmp_path: Path) -> None:
    """
    A table without a named catalog has one in its directory, which is created on request only.
    """
    place = IcebergTable(tmp_path)
    assert place.latest() is None
    assert list(tmp_path.iterdir()) == []
    place.make()
    place.make()
    assert place.catalog().list_namespaces() == [("natsbroker",)]
    assert {x.name for x in tmp_path.iterdir()} == {MARKS["iceberg"][0], "data"}
    assert (place.identifier, place.location) == ("natsbroker.archive", f"file://{tmp_path}")
    with pytest.raises(OptionError, match="is an archive in a catalog of its own"):
        IcebergTable(tmp_path, "prod:a.b")


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which files are open")
def test_closed(tmp_path: Path) -> None:
    """No file of the catalog stays open."""
    place = IcebergTable(tmp_path)
    place.make()
    assert place.catalog().list_tables("natsbroker") == []
    files = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    assert not [path for path in files if path.startswith(str(tmp_path))]


def test_madeTogether(tmp_path: Path) -> None:
    """Many processes that create the same catalog do not disturb one another."""

    def work(number: int) -> bool:
        IcebergTable(tmp_path).make()
        return True

    assert len(together(6, work)) == 6


def test_marks(tmp_path: Path) -> None:
    """
    A directory is recognized as an Iceberg archive by its own catalog, or by the file that names
    one.
    """
    assert "iceberg" in FORMATS
    for module in MARKS["iceberg"]:
        (tmp_path / module).write_text("{}")
        assert formOf(tmp_path) == "iceberg"
        (tmp_path / module).unlink()


def test_namedCatalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named catalog is remembered in the directory, and configured by PyIceberg."""
    monkeypatch.setattr(
        "natsbroker.spark.tables.iceberg.load_catalog",
        lambda name, **given: SqlCatalog(name, uri=f"sqlite:///{tmp_path}/{name}.db", **given),
    )
    IcebergTable(tmp_path, "prod:lake.raw.orders").make()
    place = IcebergTable(tmp_path)
    assert place.identifier == "lake.raw.orders"
    assert place.catalog().list_namespaces("lake") == [("lake", "raw")]
    assert (tmp_path / "prod.db").exists()
    (tmp_path / MARKS["iceberg"][1]).write_text("?")
    with pytest.raises(TableError, match=r"_nb_catalog\.json: is malformed"):
        IcebergTable(tmp_path)


@pytest.mark.parametrize("text", ["prod", "prod:", "prod:orders", ":a.b", "a:b.c:d", "a:b..c"])
def test_misspelt(text: str, tmp_path: Path) -> None:
    """A text that names no table of a catalog is refused."""
    with pytest.raises(OptionError, match=r"CATALOG:NAMESPACE\.TABLE expected"):
        IcebergTable(tmp_path, text)


def test_places() -> None:
    """Directories that URLs cannot spell are refused."""
    with pytest.raises(TableError, match="Iceberg has no names for files below"):
        IcebergTable(Path("/lake/a#b"))


def test_names(tmp_path: Path) -> None:
    """Files may be named relative to the directory or absolutely."""
    place = IcebergTable(tmp_path)
    assert place.pathOf(f"file://{tmp_path}/data/x.parquet") == "data/x.parquet"
    assert place.pathOf("file:///elsewhere/x.parquet") == "/elsewhere/x.parquet"


def test_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A written file is on disk when it is closed, and so is its name."""
    synced: list[int] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    with SyncedFileIO().new_output(f"file://{tmp_path}/x").create() as stream:
        stream.write(b"abc")
        assert synced == []
    assert synced == [path.stat().st_ino for path in (tmp_path / "x", tmp_path)]
    assert (tmp_path / "x").read_bytes() == b"abc"
