"""
The columns of a table.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.spark.codecs.datatypes import Clash, ddlText, readSchema
from natsbroker.spark.tables.columns import columnsOf, rowsOf, settled
from natsbroker.spark.tables.manifests import File, TableError
from natsbroker.spark.tables.parquet import ParquetTable


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    """A table that has nothing yet."""
    made = ParquetTable(tmp_path)
    made.make()
    return made


def test_more(table: ParquetTable) -> None:
    """Columns become more, and may all be null; what has them already changes nothing."""
    assert columnsOf(table) is None
    settled(table, readSchema("a INT NOT NULL"))
    settled(table, readSchema("b STRING"))
    assert ddlText(settled(table, readSchema("a INT"))) == "a INT, b STRING"
    assert ddlText(columnsOf(table)) == "a INT, b STRING"
    names = sorted(each.name for each in table.versionsAt.iterdir())
    assert names == ["columns-0000000000.ddl", "columns-0000000001.ddl"]
    with pytest.raises(Clash, match="column a is INT"):
        settled(table, readSchema("a STRING"))


def test_race(table: ParquetTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who adds columns at the same time as somebody else has both."""
    put = ParquetTable.put

    def late(self: ParquetTable, name: str, data: bytes) -> bool:
        if name == "columns-0000000000.ddl":
            assert put(self, name, b"theirs INT\n")
        return put(self, name, data)

    monkeypatch.setattr(ParquetTable, "put", late)
    assert ddlText(settled(table, readSchema("ours INT"))) == "theirs INT, ours INT"


def test_damaged(table: ParquetTable) -> None:
    """What makes no sense is refused with the file."""
    (table.versionsAt / "columns-0000000003.ddl").write_text("a what")
    with pytest.raises(TableError, match=r"columns-0000000003\.ddl: schema: a type is expected"):
        columnsOf(table)
    (table.root / "data" / "x").write_bytes(b"no parquet")
    with pytest.raises(TableError, match="data/x: "):
        list(rowsOf(table.root, [File("data/x", 1, 2, 1)], readSchema("a INT")))
    with pytest.raises(TableError, match="data/y: "):
        list(rowsOf(table.root, [File("data/y", 1, 2, 1)], readSchema("a INT")))
