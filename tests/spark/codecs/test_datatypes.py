"""
Columns in Spark's language.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from natsbroker.spark.codecs.datatypes import (
    Clash,
    checkNames,
    ddlText,
    merged,
    nullable,
    readSchema,
)
from natsbroker.spark.errors import OptionError
from tests.spark.codecs.types import SIMPLE, structs, types


class TestReading:
    """Schemas as texts."""

    @pytest.mark.parametrize(("kind", "word"), SIMPLE)
    def test_types(self, kind: Any, word: str) -> None:
        """Each type is read from Spark's word for it, and written with that word."""
        assert readSchema(f"a {word}").field("a").type == kind
        assert ddlText(pa.schema([pa.field("a", kind)])) == f"a {word}"

    @pytest.mark.parametrize(
        ("text", "same"),
        [
            ("a long, b integer", "a BIGINT, b INT"),
            ("a: STRING NOT NULL COMMENT 'it\\'s, so'", "a STRING NOT NULL"),
            ("a decimal, b numeric(5)", "a DECIMAL(10, 0), b DECIMAL(5, 0)"),
            ("`a b``c` int", "`a b``c` INT"),
            ("m map<dec(20),int>", "m MAP<DECIMAL(20, 0), INT>"),
            (" s struct < x : int not null , y array<map<string,byte>> > ", ""),
        ],
    )
    def test_spellings(self, text: str, same: str) -> None:
        """Spark's other spellings of a schema are understood."""
        same = same or "s STRUCT<x: INT NOT NULL, y: ARRAY<MAP<STRING, TINYINT>>>"
        assert ddlText(readSchema(text)) == same

    @given(structs(types))
    def test_roundTrip(self, fields: list[Any]) -> None:
        """A spelled type is read as the same."""
        assert readSchema(ddlText(pa.schema(fields))) == pa.schema(fields)

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("", "the name of a column is expected and not the end"),
            ("a", "a type is expected and not the end"),
            ("a INT,", "the name of a column is expected"),
            ("a INT b INT", "',' or the end is expected and not 'b'"),
            ("a TEXT", "a type is expected and not 'TEXT'"),
            ("a ARRAY<INT", "'>' is expected and not the end"),
            ("a MAP<ARRAY<INT>, INT>", "the keys of a MAP cannot be ARRAY"),
            ("a DECIMAL(39, 0)", r"there is no DECIMAL\(39, 0\)"),
            ("a DECIMAL(3, 4)", r"there is no DECIMAL\(3, 4\)"),
            ("a INT NOT 'x'", "NULL is expected"),
            ("a INT; b INT", "'; b INT' is malformed"),
            ("a INT, A INT", "column A is there twice"),
            ("s ARRAY<STRUCT<a: INT, A: INT>>", r"column s\[\].A is there twice"),
            ("a " + "ARRAY<" * 5000, "nested too deeply"),
        ],
    )
    def test_invalidSchemas(self, text: str, error: str) -> None:
        """A text that is no schema is refused with its error."""
        with pytest.raises(OptionError, match=error):
            readSchema(text)

    def test_names(self) -> None:
        """Names that differ only in case are refused in maps as well."""
        inside = pa.map_(pa.string(), pa.struct([("x", pa.int8()), ("X", pa.int8())]))
        with pytest.raises(OptionError, match=r"column m\{\}.X is there twice"):
            checkNames([pa.field("m", inside)])


class TestMerging:
    """A table that gets other columns."""

    @pytest.mark.parametrize(
        ("old", "new", "both"),
        [
            ("a INT", "a INT, b STRING", "a INT, b STRING"),
            ("a INT, b STRING", "a INT", "a INT, b STRING"),
            ("a BIGINT, b DOUBLE", "b FLOAT, a INT", "a BIGINT, b DOUBLE"),
            ("s STRUCT<x: INT>", "s STRUCT<y: INT>", "s STRUCT<x: INT, y: INT>"),
            (
                "s ARRAY<STRUCT<x: INT>>, m MAP<STRING, BIGINT>",
                "s ARRAY<STRUCT<y: INT>>, m MAP<STRING, INT>",
                "s ARRAY<STRUCT<x: INT, y: INT>>, m MAP<STRING, BIGINT>",
            ),
        ],
    )
    def test_newColumns(self, old: str, new: str, both: str) -> None:
        """New columns come after the others, and removed ones stay."""
        assert ddlText(pa.schema(merged(readSchema(old), readSchema(new)))) == both

    @pytest.mark.parametrize(
        ("old", "new", "error"),
        [
            ("a INT", "a BIGINT", "column a is INT in the table and BIGINT now"),
            ("a STRING", "a INT", "column a is STRING in the table and INT now"),
            ("a DECIMAL(9, 2)", "a DECIMAL(9, 3)", r"is DECIMAL\(9, 2\) in the table"),
            ("s ARRAY<STRUCT<x: INT>>", "s ARRAY<STRUCT<x: DATE>>", r"column s\[\].x is INT"),
            ("m MAP<STRING, INT>", "m MAP<STRING, DATE>", r"column m\{\} is INT"),
            ("a INT", "A INT", "column A was called a"),
        ],
    )
    def test_clash(self, old: str, new: str, error: str) -> None:
        """A value that a column cannot take is refused with the column."""
        with pytest.raises(Clash, match=error):
            merged(readSchema(old), readSchema(new))

    def test_nullable(self) -> None:
        """A stored column is nullable everywhere."""
        kind = readSchema("s ARRAY<MAP<STRING, STRUCT<x: INT NOT NULL>>>").field("s").type
        assert "NOT NULL" in ddlText(pa.schema([pa.field("s", kind)]))
        assert "NOT NULL" not in ddlText(pa.schema([pa.field("s", nullable(kind))]))
