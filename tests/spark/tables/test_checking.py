"""
Checking what the files of an archive have.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.spark.tables.parquet import (
    COLUMNS,
    SCHEMA,
    STORED,
    ArchiveDamaged,
    Difference,
    checksums,
    damageOf,
    readFiles,
    withChecksums,
)
from natsbroker.spark.tables.snapshots import File, TableError
from tests.spark.tablecontract import filed, forge


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of an archive."""
    (tmp_path / "data").mkdir()
    return tmp_path


_TEXTS = st.text(max_size=5)
_ROWS = st.fixed_dictionaries(
    {
        "seq": st.integers(1, 1 << 60),
        "subject": _TEXTS,
        "data": st.binary(max_size=20),
        "time": st.integers(-(1 << 40), 1 << 40),
        "headers": st.lists(st.fixed_dictionaries({"key": _TEXTS, "value": _TEXTS}), max_size=3),
        "time_ns": st.integers(-(1 << 60), 1 << 60),
    }
)


def expected(row: dict[str, Any]) -> int:
    """The checksum of a row, as the documentation says it."""
    lines = "\n".join(f"{header['key']}:{header['value']}" for header in row["headers"])
    head = f"{row['seq']} {row['time']} {row['time_ns']} {row['subject']}\n{lines}\n"
    return zlib.crc32(head.encode() + row["data"])


@given(st.lists(_ROWS, max_size=6), st.integers(0, 6))
def test_checksums(rows: list[dict[str, Any]], cut: int) -> None:
    """Each row has the checksum of its own columns, however batches are sliced."""
    table = pa.Table.from_pylist(rows, SCHEMA)
    parts = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    wanted = [expected(row) for row in rows]
    assert checksums(table).to_pylist() == checksums(parts).to_pylist() == wanted
    whole = table.combine_chunks().to_batches()
    for batch in whole:
        assert checksums(batch.slice(cut)).to_pylist() == wanted[cut:]
        assert withChecksums(batch).schema == STORED


def test_read(root: Path) -> None:
    """Rows of several files are read in order, whatever the names of the files."""
    files = [*filed(root, 1, 9, 2, 4, 6), *filed(root, 1, 9, 1, 3, 5, 7, 8)]
    (root / "data" / "part-0").write_bytes((root / files[1].path).read_bytes())
    files[1] = replace(files[1], path="data/part-0")
    arrow = pa.Table.from_batches(readFiles(root, files))
    assert arrow.schema == SCHEMA
    assert arrow.column("seq").to_pylist() == list(range(1, 9))
    assert arrow.column("data").to_pylist() == [b"%d" % n for n in range(1, 9)]
    assert list(readFiles(root, [])) == []


def test_rowGroups(root: Path) -> None:
    """A file whose row groups are in order is read piece by piece. Another file is sorted."""
    [file] = filed(root, 1, 9)
    rows = pq.read_table(root / file.path)
    pq.write_table(rows, root / file.path, row_group_size=3)
    seqs = [batch.column("seq").to_pylist() for batch in readFiles(root, [file])]
    assert seqs == [[1, 2, 3], [4, 5, 6], [7, 8]]
    pq.write_table(rows.sort_by([("seq", "descending")]), root / file.path)
    assert [batch.column("seq").to_pylist() for batch in readFiles(root, [file])] == [
        list(range(1, 9))
    ]


def test_foreign(root: Path) -> None:
    """A file that another program has rewritten, with other types and more columns, is read."""
    [file] = filed(root, 1, 5)
    table = pq.read_table(root / file.path)
    pair = pa.struct([("key", pa.large_string()), ("value", pa.string())])
    headers = table["headers"].cast(pa.large_list(pa.field("item", pair)))
    table = table.set_column(4, "headers", headers).append_column("more", pa.array([1] * 4))
    table = table.select(["more", "crc32", *reversed(COLUMNS)])
    pq.write_table(table, root / "data" / "other.parquet")
    [batch] = readFiles(root, [replace(file, path="data/other.parquet")])
    assert batch.schema == SCHEMA
    assert batch.column("headers").to_pylist()[3] == [{"key": "N", "value": "4"}]


class TestDamage:
    """Files that are not as they were written."""

    def test_files(self, root: Path) -> None:
        """A file that cannot be read is reported with the sequences in it."""
        [file] = filed(root, 1, 5)
        [gone] = damageOf(root, [File("data/none.parquet", 1, 4, 4, 9)])
        assert (gone.kind, gone.first, gone.last) == ("file", 1, 4)
        assert gone.detail.endswith("No such file or directory")
        pq.write_table(pa.table({"seq": [1]}), root / "data" / "other.parquet")
        [other] = damageOf(root, [File("data/other.parquet", 1, 1, 1, 9)])
        assert (other.kind, "data/other.parquet: " in other.detail) == ("file", True)
        pq.write_table(pa.table({"x": [1]}), root / "data" / "other.parquet")
        assert len(damageOf(root, [File("data/other.parquet", 1, 1, 1, 9)])) == 1
        (root / file.path).write_bytes(b"PAR1 and what is no Parquet")
        with pytest.raises(ArchiveDamaged, match="file: sequences 1 to 4: data/") as raised:
            list(readFiles(root, [file]))
        assert isinstance(raised.value, TableError)

    def test_rows(self, root: Path) -> None:
        """Rows that are changed, duplicated or missing are found, and reported in ranges."""
        [file] = filed(root, 1, 20)
        forge(root / file.path, 4)
        forge(root / file.path, 5)
        rows = pq.read_table(root / file.path)
        pq.write_table(pa.concat_tables([rows.slice(1), rows.slice(9, 1)]), root / file.path)
        assert damageOf(root, [file]) == [
            Difference("damaged", 4, 5, "is not what was archived"),
            Difference("doubled", 10, 10, "is in the archive more than once"),
        ]
        pq.write_table(rows.slice(1), root / file.path)
        assert damageOf(root, [file])[0].detail == f"{file.path}: has 18 rows and not 19"

    def test_everyColumn(self, root: Path) -> None:
        """A change in any column of a row is found."""
        later = datetime(2026, 1, 1, tzinfo=timezone.utc)
        others: dict[str, Any] = {
            "seq": 9,
            "subject": "x",
            "data": b"x",
            "time": later,
            "headers": [{"key": "N", "value": "x"}],
            "time_ns": 1,
            "crc32": None,
        }
        for name, value in others.items():
            [file] = filed(root, 2, 3)
            rows = pq.read_table(root / file.path)
            place = rows.schema.get_field_index(name)
            column = pa.array([value], rows.schema.field(place).type)
            changed = rows.set_column(place, rows.schema.field(place), column)
            pq.write_table(changed, root / file.path)
            assert [difference.kind for difference in damageOf(root, [file])] == ["damaged"], name

    def test_text(self, root: Path) -> None:
        """An error names some of much damage."""
        differences = [Difference("damaged", n, n, "x") for n in range(1, 9)]
        assert str(ArchiveDamaged(root, differences)).endswith("sequences 5 to 5: x and 3 more")
