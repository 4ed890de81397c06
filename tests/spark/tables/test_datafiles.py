"""
The files of archives.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from natsbroker.spark.tables.filing import COLUMNS, SCHEMA, readFiles
from natsbroker.spark.tables.manifests import File, TableError
from tests.spark.tablecontract import filed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of an archive."""
    (tmp_path / "data").mkdir()
    return tmp_path


def test_read(root: Path) -> None:
    """Rows come out in order, also from files that share a range, whatever they are called."""
    files = [filed(root, 1, 9, 2, 4, 6), filed(root, 1, 9, 1, 3, 5, 7, 8)]
    (root / "data" / "part-0").write_bytes((root / files[1].path).read_bytes())
    files[1] = File("data/part-0", 1, 9, 3)
    [batch] = readFiles(root, files)
    assert batch.schema == SCHEMA
    assert batch.column("seq").to_pylist() == list(range(1, 9))
    assert batch.column("data").to_pylist() == [b"%d" % n for n in range(1, 9)]
    assert list(readFiles(root, [File("", 1, 9)])) == []


def test_foreign(root: Path) -> None:
    """What others have rewritten has other types for the same, and other columns."""
    file = filed(root, 1, 5)
    table = pq.read_table(root / file.path)
    pair = pa.struct([("key", pa.large_string()), ("value", pa.string())])
    headers = table["headers"].cast(pa.large_list(pa.field("item", pair)))
    table = table.set_column(4, "headers", headers).append_column("more", pa.array([1] * 4))
    table = table.select(["more", *reversed(COLUMNS)])
    pq.write_table(table, root / "data" / "other.parquet")
    [batch] = readFiles(root, [File("data/other.parquet", 1, 5, 4)])
    assert batch.schema == SCHEMA
    assert batch.column("headers").to_pylist()[3] == [{"key": "N", "value": "4"}]


def test_cannotRead(root: Path) -> None:
    """What cannot be read is an error that says which."""
    file = filed(root, 1, 5)
    with pytest.raises(TableError, match="No such file"):
        list(readFiles(root, [File("data/none.parquet", 1, 5, 4)]))
    pq.write_table(pa.table({"seq": [1]}), root / "data" / "other.parquet")
    with pytest.raises(TableError, match=r"other\.parquet: "):
        list(readFiles(root, [File("data/other.parquet", 1, 5, 4)]))
    (root / file.path).write_bytes(b"PAR1 and what is no Parquet")
    with pytest.raises(TableError, match=r"\.parquet: "):
        list(readFiles(root, [file]))
