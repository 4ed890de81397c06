"""
Columns of JSON Schema.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.spark.codecs.datatypes import ddlText
from natsbroker.spark.codecs.jsoncodec import jsonColumns
from natsbroker.spark.errors import OptionError

ITEM = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}


def columns(properties: Any, **more: Any) -> str:
    """In Spark's language."""
    schema = {"type": "object", "properties": properties, **more}
    return ddlText(jsonColumns(json.dumps(schema).encode(), "s"))


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, "BIGINT"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "string"}, "STRING"),
        ({"type": "string", "format": "email"}, "STRING"),
        ({"type": "string", "format": "date"}, "DATE"),
        ({"type": "string", "format": "date-time"}, "TIMESTAMP"),
        ({"type": "string", "contentEncoding": "base64"}, "BINARY"),
        ({"enum": ["a", "b"]}, "STRING"),
        ({"const": "a"}, "STRING"),
        ({"type": ["null", "integer"]}, "BIGINT"),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "BIGINT"),
        ({"anyOf": [{"$ref": "#/$defs/item"}]}, "STRUCT<sku: STRING NOT NULL>"),
        (
            {"type": "array", "items": {"$ref": "#/$defs/item"}},
            "ARRAY<STRUCT<sku: STRING NOT NULL>>",
        ),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "MAP<STRING, DOUBLE>"),
    ],
)
def test_types(schema: Any, kind: str) -> None:
    """The type of a schema determines the type of its column."""
    assert columns({"a": schema}, **{"$defs": {"item": ITEM}}) == f"a {kind}"


def test_required() -> None:
    """A required value that may not be null has a column that is not nullable."""
    properties = {"a": {"type": "integer"}, "b": {"type": ["integer", "null"]}}
    assert columns(properties, required=["a", "b"]) == "a BIGINT NOT NULL, b BIGINT"


def test_references() -> None:
    """References may lead into other schemas, and from those to further ones."""
    other = {"$defs": {"n/m": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/n~1m"}}}
    schema = {"properties": {"x": {"$ref": "other.json"}, "y": {"$ref": "other.json#/$defs/n~1m"}}}
    schemaColumns = jsonColumns(
        json.dumps(schema).encode(), "s", {"other.json": json.dumps(other).encode()}
    )
    assert ddlText(schemaColumns) == "x STRUCT<n: BIGINT>, y BIGINT"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("x", "s: it is no JSON Schema"),
        ("[]", "s: it is no JSON Schema"),
        ('{"type": "array", "items": {"type": "integer"}}', "not a schema of an object"),
        ("{}", "it: a column cannot hold {}"),
        ('{"properties": {"a": {}}}', "a: a column cannot hold {}"),
        ('{"properties": {"a": {"type": "array"}}}', "no JSON Schema"),
        (
            '{"properties": {"a": {"type": ["string", "integer"]}}}',
            "a: a column cannot hold a choice",
        ),
        ('{"properties": {"a": {"$ref": "x.json"}}}', "a: there is no schema x.json"),
        ('{"properties": {"a": {"$ref": "#/nowhere"}}}', "no JSON Schema"),
        ('{"properties": {"a": {"$ref": "#"}}}', "a.a: # contains itself"),
        ('{"properties": {"a": {"type": "string"}, "A": {"type": "string"}}}', "A is there twice"),
    ],
)
def test_schemasWithoutColumns(schema: str, why: str) -> None:
    """A schema that has no columns is refused with the place."""
    with pytest.raises(OptionError, match=why):
        jsonColumns(schema.encode(), "s")
