"""
Conditions in SQL on rows, for jobs that run without Spark.

This is a part of Spark's language: comparisons of columns with texts, numbers and times, C{LIKE},
C{IN}, C{BETWEEN}, C{IS NULL}, C{AND}, C{OR}, C{NOT} and parentheses. PyIceberg's parser
takes no C{TIMESTAMP}, and C{LIKE} with C{%} at the end alone. To DuckDB 2.0 C{TIMESTAMP} with an
offset is another moment than to Spark, C{"text"} is a column, and C{\\} in C{LIKE} escapes nothing.
SQLGlot's trees differ between its versions: C{NOT LIKE} is C{LIKE} with an argument in some.
"""

from __future__ import annotations

import re
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from natsbroker.spark.errors import OptionError

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^'\\]*'(?!')|\"[^\"\\]*\"(?!\"))|(?P<number>-?\d{1,18}(\.\d{1,18})?)(?![\w.])"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign><>|!=|<=|>=|==|=|<|>|\(|\)|,))"
)

_COMPARED = {"=": eq, "==": eq, "!=": ne, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}

_WORDS = ("AND", "OR", "NOT", "LIKE", "IN", "BETWEEN", "IS", "NULL", "TIMESTAMP", "TRUE", "FALSE")

#: Deeper parentheses are refused.
_DEEPEST = 50


class Condition:
    def __init__(self, text: str, schema: Any) -> None:
        self._text = text
        self._schema = schema
        self._tokens = self._split()
        self._place = self._depth = 0
        self._expression = self._either()
        if self._place < len(self._tokens):
            raise self._wrong(f"what is {self._tokens[self._place][1]!r} there for?")
        self.kept(pa.Table.from_batches([], schema))

    def kept(self, table: Any) -> Any:
        try:
            return table.filter(self._expression)
        except (pa.ArrowException, TypeError) as error:
            raise self._wrong(str(error)) from None

    def _wrong(self, why: str) -> OptionError:
        return OptionError(
            f"where: {self._text!r}: {why}. Without Spark a part of SQL is understood:"
            " comparisons, LIKE, IN, BETWEEN, IS NULL, AND, OR, NOT"
        )

    def _split(self) -> list[tuple[str, str]]:
        text, place, found = self._text.rstrip(), 0, []
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._wrong(f"{text[place:].strip()!r} is not understood")
            kind = str(match.lastgroup)
            value = match[kind]
            if kind == "word" and value.upper() in _WORDS:
                kind, value = "key", value.upper()
            found.append((kind, value[1:-1] if kind == "text" else value))
            place = match.end()
        return found

    def _next(self) -> tuple[str, str]:
        if self._place >= len(self._tokens):
            raise self._wrong("it ends too soon")
        self._place += 1
        return self._tokens[self._place - 1]

    def _has(self, *words: str) -> bool:
        end = self._place + len(words)
        coming = self._tokens[self._place : end]
        if [value for kind, value in coming if kind in ("key", "sign")] != list(words):
            return False
        self._place = end
        return True

    def _expect(self, word: str) -> None:
        if not self._has(word):
            raise self._wrong(f"{word} is missing")

    def _either(self) -> Any:
        found = self._both()
        while self._has("OR"):
            found |= self._both()
        return found

    def _both(self) -> Any:
        found = self._one()
        while self._has("AND"):
            found &= self._one()
        return found

    def _one(self) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong("it is too deep")
        try:
            if self._has("NOT"):
                return ~self._one()
            if self._has("("):
                found = self._either()
                self._expect(")")
                return found
            return self._compared()
        finally:
            self._depth -= 1

    def _compared(self) -> Any:
        kind, name = self._next()
        if kind != "word" or name not in self._schema.names:
            known = ", ".join(self._schema.names)
            raise self._wrong(f"there is no column {name!r}; there are {known}")
        column = pc.field(name)
        if self._has("IS", "NULL"):
            return column.is_null()
        if self._has("IS", "NOT", "NULL"):
            return column.is_valid()
        isNot = self._has("NOT")
        if self._has("LIKE"):
            kind, pattern = self._next()
            if kind != "text":
                raise self._wrong("LIKE takes a text")
            found = pc.match_like(column, pattern)
        elif self._has("BETWEEN"):
            found = column >= self._value(name)
            self._expect("AND")
            found &= column <= self._value(name)
        elif self._has("IN"):
            self._expect("(")
            found = column == self._value(name)
            while self._has(","):
                found |= column == self._value(name)
            self._expect(")")
        else:
            sign = self._next()[1]
            if isNot or sign not in _COMPARED:
                raise self._wrong(f"{sign!r} is not understood behind {name}")
            found = _COMPARED[sign](column, self._value(name))
        return ~found if isNot else found

    def _value(self, name: str) -> Any:
        kind, text = self._next()
        wanted = self._schema.field(name).type
        if kind == "key" and text in ("TRUE", "FALSE"):
            return pa.scalar(text == "TRUE")
        if kind == "number":
            return pa.scalar(float(text) if "." in text else int(text))
        if (kind, text) == ("key", "TIMESTAMP"):
            kind, text = self._next()
        if kind != "text":
            raise self._wrong(f"{text!r} is no value")
        if not pa.types.is_timestamp(wanted):
            return pa.scalar(text)
        try:
            return pa.scalar(text).cast(wanted)
        except pa.ArrowException:
            raise self._wrong(
                f"{text!r} is no time with its zone, as 2030-01-31T12:00:00Z"
            ) from None
