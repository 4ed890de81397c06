"""
Columns in Spark's language, and as Arrow has them: C{id BIGINT NOT NULL, items ARRAY<STRUCT<sku:
STRING, n: INT>>}. The types are those that Spark reads from Parquet files unchanged.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from natsbroker.spark.errors import OptionError

TIMESTAMP = pa.timestamp("us", tz="UTC")

_SIMPLE = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    # What Spark takes as well.
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INTEGER": pa.int32(),
    "LONG": pa.int64(),
    "REAL": pa.float32(),
    "TIMESTAMP_LTZ": TIMESTAMP,
}

_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")

#: The first word of each type.
_WORDS = {kind: word for word, kind in reversed(_SIMPLE.items())}

#: Types that differ in their bits alone.
_NUMBERS = (pa.types.is_signed_integer, pa.types.is_floating)

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_]\w*)|`(?P<quoted>(?:[^`]|``)+)`|(?P<number>\d{1,4})(?!\d)"
    r"|'(?P<text>(?:[^'\\]|\\.)*)'|(?P<mark>[<>(),:])|(?P<wrong>\S.*))",
    re.S,
)

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.A)

#: The most digits of decimals in Spark and Arrow.
DIGITS = 38


class Clash(Exception):
    """The error of two schemas that do not fit together."""


def readSchema(text: str) -> Any:
    try:
        schema = pa.schema(_ColumnParser(text).columns())
    except RecursionError:
        raise OptionError("schema: types are nested too deeply") from None
    checkNames(schema)
    return schema


def ddlText(schema: Any) -> str:
    return ", ".join(_column(field, " ") for field in schema)


def nullable(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, nullable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, nullable(kind.item_type))
    return kind


@contextmanager
def readingSchema(name: str, kind: str, malformed: tuple[type[Exception], ...]) -> Iterator[None]:
    """
    Raise schema errors with the schema's name; C{kind} is their reason: C{not an Avro schema}.
    """
    try:
        yield
    except RecursionError:
        raise OptionError(f"{name}: types are nested too deeply") from None
    except OptionError as error:
        raise OptionError(f"{name}: {error}") from None
    except malformed as error:
        raise OptionError(f"{name}: it is {kind}: {error!r}") from None


def checkNames(fields: Sequence[Any], place: str = "") -> None:
    """Check that Spark can distinguish the columns: C{A} and C{a} are the same to it."""
    seen: set[str] = set()
    for field in fields:
        name = f"{place}{field.name}"
        if field.name.lower() in seen:
            raise OptionError(f"schema: column {name} is there twice, or in upper and lower case")
        seen.add(field.name.lower())
        kind = field.type
        while pa.types.is_list(kind) or pa.types.is_map(kind):
            name += "[]" if pa.types.is_list(kind) else "{}"
            kind = kind.value_type if pa.types.is_list(kind) else kind.item_type
        if pa.types.is_struct(kind):
            checkNames(list(kind), f"{name}.")


def merged(old: Sequence[Any], new: Sequence[Any], place: str = "") -> list[Any]:
    """
    The columns of a table that has the old ones, once it can take the new ones. All are nullable.

    @raise Clash: if a column cannot take its new type.
    """
    given = {field.name: field for field in new}
    lower = {field.name.lower(): field.name for field in old}
    fields = []
    for field in old:
        other = given.pop(field.name, None)
        kind = (
            field.type if other is None else _together(field.type, other.type, place + field.name)
        )
        fields.append(pa.field(field.name, kind))
    for name, field in given.items():
        if name.lower() in lower:
            raise Clash(f"column {place}{name} was called {lower[name.lower()]}")
        fields.append(pa.field(name, field.type))
    return fields


def _together(old: Any, new: Any, place: str) -> Any:
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return pa.struct(merged(list(old), list(new), f"{place}."))
    if pa.types.is_list(old) and pa.types.is_list(new):
        inner = _together(old.value_type, new.value_type, f"{place}[]")
        return pa.list_(pa.field("element", inner))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return pa.map_(old.key_type, _together(old.item_type, new.item_type, f"{place}{{}}"))
    isNumber = any(isOfKind(old) and isOfKind(new) for isOfKind in _NUMBERS)
    if new == old or (isNumber and new.bit_width < old.bit_width):
        return old
    raise Clash(f"column {place} is {_typeText(old)} in the table and {_typeText(new)} now")


def _column(field: Any, between: str) -> str:
    plain = _PLAIN.fullmatch(field.name)
    name = field.name if plain else f"`{field.name.replace('`', '``')}`"
    return f"{name}{between}{_typeText(field.type)}{'' if field.nullable else ' NOT NULL'}"


def _typeText(kind: Any) -> str:
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(_column(field, ': ') for field in kind)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_typeText(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{_typeText(kind.key_type)}, {_typeText(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _WORDS[kind]


class _ColumnParser:
    def __init__(self, text: str) -> None:
        self._text = text
        matches = _TOKEN.finditer(text.rstrip())
        words = [(match.lastgroup, match[match.lastindex or 0]) for match in matches]
        self._tokens: deque[tuple[Any, str]] = deque([*words, ("", "")])
        if words and words[-1][0] == "wrong":
            raise OptionError(f"schema: {words[-1][1]!r} is malformed")

    def columns(self, end: str = "") -> list[Any]:
        fields: list[Any] = []
        while not fields or self._has(","):
            name = self._next("the name of a column", "word", "quoted").replace("``", "`")
            self._has(":")
            kind = self._type()
            isNullable = not self._has("NOT")
            if not isNullable:
                self._expect("NULL", "NULL")
            if self._has("COMMENT"):
                self._next("a text in single quotes", "text")
            fields.append(pa.field(name, kind, isNullable))
        self._expect(end, "" if end else "',' or the end")
        return fields

    def _type(self) -> Any:
        kind, token = self._tokens[0]
        word = token.upper()
        if kind != "word" or word not in (*_SIMPLE, *_DECIMALS, "ARRAY", "MAP", "STRUCT"):
            raise self._wrong("a type")
        self._tokens.popleft()
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word in _DECIMALS:
            digits = self._digits() if self._has("(") else (10, 0)
            if not 1 <= digits[0] <= DIGITS or digits[1] > digits[0]:
                raise OptionError(f"schema: there is no DECIMAL{digits}")
            return pa.decimal128(*digits)
        self._expect("<")
        if word == "STRUCT":
            return pa.struct(self.columns(">"))
        inner = self._type()
        if word == "ARRAY":
            inner = pa.list_(pa.field("element", inner))
        elif pa.types.is_nested(inner):
            raise OptionError("schema: the keys of a MAP cannot be ARRAY, MAP or STRUCT")
        else:
            self._expect(",")
            inner = pa.map_(inner, self._type())
        self._expect(">")
        return inner

    def _digits(self) -> tuple[int, int]:
        precision = int(self._next("a number of digits", "number"))
        scale = int(self._next("a number of digits", "number")) if self._has(",") else 0
        self._expect(")")
        return precision, scale

    def _next(self, wanted: str, *kinds: str) -> str:
        if self._tokens[0][0] not in kinds:
            raise self._wrong(wanted)
        return self._tokens.popleft()[1]

    def _has(self, token: str) -> bool:
        kind, word = self._tokens[0]
        if kind in ("quoted", "text") or word.upper() != token:
            return False
        self._tokens.popleft()
        return True

    def _expect(self, token: str, wanted: str = "") -> None:
        if not self._has(token):
            raise self._wrong(wanted or repr(token))

    def _wrong(self, wanted: str) -> OptionError:
        kind, token = self._tokens[0]
        shown = repr(token) if kind else "the end"
        return OptionError(f"schema: {wanted} is expected and not {shown}, in {self._text!r}")
