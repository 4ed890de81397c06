"""
Archivers that are killed.
"""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest

from natsbroker.spark.tables.snapshots import TableSnapshot
from natsbroker.spark.tables.table import FORMATS, ArchiveTable, tableAt
from tests.spark.archivekilling import counted, isWhole, rounds
from tests.spark.objectstore import icebergCatalog
from tests.spark.tablecontract import LOG, grow


@pytest.mark.parametrize(
    ("form", "kind", "kills"),
    [
        ("delta", "channel", 3),
        ("delta", "stream", 3),
        ("iceberg", "stream", 2),
    ],
)
def test_killed(form: str, kind: str, kills: int, tmp_path: Path) -> None:
    """
    Two archivers race and are killed in turn, while messages arrive and retention removes the
    oldest ones. Each message is archived once, or recorded as lost.
    """
    counts = rounds(kind, tmp_path, kills, 7, form)
    assert isWhole(counts), counts


@pytest.mark.parametrize(("form", "kills"), [("delta", 2), ("iceberg", 1)])
def test_killedWithObjects(form: str, kills: int, bucket: str, tmp_path: Path) -> None:
    """The same in an object store."""
    with icebergCatalog(tmp_path):
        counts = rounds("channel", tmp_path, kills, 7, form, f"{bucket}/log")
        assert isWhole(counts), counts


def archive(tmp_path: Path, form: str) -> ArchiveTable:
    """An archive with the sequences from 1 to 19."""
    table = tableAt(tmp_path, form)
    table.make()
    table.create(TableSnapshot.first(LOG, 1))
    assert grow(table, 20)
    return table


@pytest.mark.parametrize("form", FORMATS)
def test_notices(form: str, tmp_path: Path) -> None:
    """
    A message that is missing, wrong or foreign is noticed. Otherwise the counts would mean nothing.
    """
    table = archive(tmp_path, form)
    assert isWhole({**counted(tmp_path), "said": 20})
    assert not isWhole({**counted(tmp_path), "said": 21})
    assert grow(table, 30, 27)
    counts = {**counted(tmp_path), "said": 30}
    assert (counts["neither"], isWhole(counts)) == (1, False)
    assert grow(table, 40, lost=[(35, 37)])
    assert counted(tmp_path)["both"] == 2


def test_noticesRows(tmp_path: Path) -> None:
    """Rows that occur twice, or have other data, are noticed."""
    archive(tmp_path, "delta")
    opened = deltalake.DeltaTable(str(tmp_path))
    deltalake.write_deltalake(
        opened, opened.to_pyarrow_table(filters=[("seq", "=", 5)]), mode="append"
    )
    assert not isWhole({**counted(tmp_path), "said": 20})
    opened = deltalake.DeltaTable(str(tmp_path))
    opened.delete("seq = 5")
    assert counted(tmp_path)["neither"] == 1
    opened.update(predicate="seq = 6", updates={"data": "arrow_cast('other', 'Binary')"})
    assert counted(tmp_path)["wrong"] == 1
