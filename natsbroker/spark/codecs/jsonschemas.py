"""
JSON Schema: which columns its values have.

Limits of values beside their types, such as a pattern or a least number, are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from natsbroker.spark.codecs.datatypes import TIMESTAMP, checkNames, readingSchema
from natsbroker.spark.errors import OptionError

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError)

_SIMPLE = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
_TEXTS = {"date": pa.date32(), "date-time": TIMESTAMP}


def jsonColumns(data: bytes, name: str, references: Mapping[str, bytes] | None = None) -> Any:
    """
    @param references: other schemas, by what this one and they call them.
    """
    with readingSchema(name, "no JSON Schema", _MALFORMED):
        texts = {"": data, **(references or {})}
        builder = _ColumnBuilder({each: json.loads(text) for each, text in texts.items()})
        kind, _ = builder.kindOf(builder.documents[""], "", "", ())
        if not pa.types.is_struct(kind):
            raise OptionError("it is not of an object with properties")
        columns = pa.schema(list(kind))
        checkNames(columns)
    return columns


class _ColumnBuilder:
    def __init__(self, documents: Mapping[str, Any]) -> None:
        self.documents = documents

    def kindOf(
        self, schema: Any, document: str, place: str, outer: tuple[str, ...]
    ) -> tuple[Any, bool]:
        """
        @param document: where references begin that name none.
        @param outer: the references on the way here.
        @return: the type of a value, and whether it may be null.
        """
        while "$ref" in schema:
            file, _, path = schema["$ref"].partition("#")
            document = file or document
            if document not in self.documents:
                raise OptionError(f"{place}: there is no schema {document}")
            whole = f"{document}#{path}"
            if whole in outer:
                raise OptionError(f"{place}: {whole} has itself in it, and no columns for that")
            outer = (*outer, whole)
            schema = self.documents[document]
            for step in path.split("/")[1:]:
                schema = schema[step.replace("~1", "/").replace("~0", "~")]
        branches = [schema]
        for word in ("oneOf", "anyOf"):
            branches = schema.get(word, branches)
        if isinstance(schema.get("type"), list):
            branches = [{**schema, "type": each} for each in schema["type"]]
        some = [each for each in branches if each.get("type") != "null"]
        if len(some) != 1:
            raise OptionError(f"{place or 'it'}: no column is for a choice of types")
        isNullable = len(branches) > 1
        if some[0] is not schema:
            kind, isAlso = self.kindOf(some[0], document, place, outer)
            return kind, isNullable or isAlso
        return self._single(schema, document, place, outer), isNullable

    def _single(self, schema: Any, document: str, place: str, outer: tuple[str, ...]) -> Any:
        word = schema.get("type") or _guessed(schema)
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word == "string":
            if schema.get("contentEncoding") == "base64":
                return pa.binary()
            return _TEXTS.get(schema.get("format"), pa.string())
        if word == "array":
            item, _ = self.kindOf(schema["items"], document, f"{place}[]", outer)
            return pa.list_(pa.field("element", item))
        more = schema.get("additionalProperties")
        if word != "object" or not (schema.get("properties") or isinstance(more, dict)):
            raise OptionError(f"{place or 'it'}: no column is for {json.dumps(schema)[:80]}")
        if not schema.get("properties"):
            return pa.map_(pa.string(), self.kindOf(more, document, f"{place}{{}}", outer)[0])
        inside, required = f"{place}." if place else "", schema.get("required", ())
        fields = []
        for name, each in schema["properties"].items():
            kind, isNullable = self.kindOf(each, document, inside + name, outer)
            fields.append(pa.field(name, kind, isNullable or name not in required))
        return pa.struct(fields)


def _guessed(schema: Any) -> str:
    """
    The type of a schema that names none: of objects, or of a choice of texts.
    """
    if "properties" in schema:
        return "object"
    values = schema.get("enum") or [schema.get("const")]
    return "string" if all(isinstance(each, str) for each in values) else ""
