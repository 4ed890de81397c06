"""
Archivers that are killed.
"""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from natsbroker.spark.tables.formats import FORMATS, tableAt
from natsbroker.spark.tables.manifests import Manifest, TableError
from tests.spark.archivekilling import counted, isWhole, rounds
from tests.spark.tablecontract import LOG, filed, grown


@pytest.mark.parametrize(
    ("form", "kind", "kills"),
    [
        ("parquet", "channel", 3),
        ("parquet", "stream", 3),
        ("delta", "channel", 2),
        ("iceberg", "stream", 2),
    ],
)
def test_killed(form: str, kind: str, kills: int, tmp_path: Path) -> None:
    """
    Two archivers race and are killed in turn, while messages come in and retention takes the
    oldest: each message is there once, or recorded as lost.
    """
    counts = rounds(kind, tmp_path, kills, 7, form)
    assert isWhole(counts), counts


@pytest.mark.parametrize("form", FORMATS)
def test_notices(form: str, tmp_path: Path) -> None:
    """What is missing, wrong or not ours to have is noticed, or the counts would mean nothing."""
    table = tableAt(tmp_path, form)
    table.make()
    assert table.commit(Manifest.first(LOG, 1))
    assert table.commit(grown(table, 20))
    said = {"said": 20}
    assert isWhole({**counted(tmp_path), **said})
    assert not isWhole({**counted(tmp_path), "said": 21})
    base = table.require()
    short = filed(tmp_path, 1, 20, 7)
    assert table.commit(base.replaced(base.files, [short], 1.0))
    counts = {**counted(tmp_path), **said}
    assert (counts["neither"], isWhole(counts)) == (1, False)
    base = table.require()
    assert table.commit(base.extended([filed(tmp_path, 20, 30)], [(25, 27)], 1.0))
    assert counted(tmp_path)["both"] == 2


def test_noticesTwice(tmp_path: Path) -> None:
    """Rows that are there twice are noticed."""
    table = tableAt(tmp_path, "delta")
    table.make()
    assert table.commit(Manifest.first(LOG, 1))
    assert table.commit(grown(table, 20))
    found = deltalake.DeltaTable(str(tmp_path))
    deltalake.write_deltalake(
        found, found.to_pyarrow_table(filters=[("seq", "=", 5)]), mode="append"
    )
    with pytest.raises(TableError, match="cannot have its rows"):
        counted(tmp_path)


def test_noticesRows(tmp_path: Path) -> None:
    """Rows of a file that are missing, twice or others are noticed."""
    table = tableAt(tmp_path)
    table.make()
    assert table.commit(Manifest.first(LOG, 1))
    assert table.commit(grown(table, 20))
    [path] = [tmp_path / each for each in table.require().paths]
    whole = pq.read_table(path, columns=["seq", "data"])
    other = pa.table({"seq": whole["seq"], "data": [b"other"] * 19})
    for wrong in (whole.slice(1), pa.concat_tables([whole, whole.slice(0, 1)]), other):
        pq.write_table(wrong, path)
        assert not isWhole({**counted(tmp_path), "said": 20})
    pq.write_table(whole, path)
    assert isWhole({**counted(tmp_path), "said": 20})
