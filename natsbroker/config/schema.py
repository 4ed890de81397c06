"""
C{natsbroker config schema}: the table of keys as a JSON schema, with which editors and pipelines
check a configuration that is written as JSON.

A schema cannot have all rules. Names of keys are in lower case in it. Keys that only a
C{$reference} uses are not in it. A key whose feature is not built may have the values that switch
the feature off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, TextIO

from natsbroker import __version__
from natsbroker.config.keys.root import ROOT
from natsbroker.config.keys.types import AnyType, BlockSchema, Key, ListType, MapType, ValueType
from natsbroker.config.language.tree import TableNode

_USAGE = """\
Usage: natsbroker config schema

Prints a JSON schema (draft 2020-12) of the configuration file.
"""

_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    TableNode: "object",
}


def main(arguments: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
    if list(arguments) == ["schema"]:
        print(json.dumps(jsonSchema(), indent=2), file=stdout)
        return 0
    if arguments and arguments[0] in ("-h", "--help", "help"):
        stdout.write(_USAGE)
        return 0
    stderr.write(_USAGE)
    print(f"natsbroker config: there is no command {' '.join(arguments)!r}", file=stderr)
    return 2


def jsonSchema() -> dict[str, Any]:
    definitions = _Definitions()
    root = definitions.reference(ROOT)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Configuration of natsbroker {__version__}",
        **root,
        "$defs": definitions.schemas,
    }


class _Definitions:
    """
    @ivar schemas: those of blocks, by name. Blocks of one title that differ are numbered.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}
        self._names: dict[BlockSchema, str] = {}

    def reference(self, block: BlockSchema) -> dict[str, Any]:
        if block not in self._names:
            base = name = re.sub(r"\W+", "_", block.title).strip("_")
            number = 1
            while name in self.schemas:
                number += 1
                name = f"{base}_{number}"
            self._names[block] = name
            self.schemas[name] = {}
            self.schemas[name] |= self._block(block, name)
        return {"$ref": f"#/$defs/{self._names[block]}"}

    def _block(self, block: BlockSchema, name: str) -> dict[str, Any]:
        # A block that is switched off may have keys of features that are not built.
        takesAll = "enabled" in block.keys
        properties: dict[str, Any] = {}
        for spelling, key in block.keys.items():
            properties[spelling] = self._key(key, takesAll)
            for alias in key.aliases:
                properties[alias] = {
                    "description": f"the same as {spelling}",
                    "$ref": f"#/$defs/{name}/properties/{spelling}",
                }
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if block.opener:
            others = {"propertyNames": {"enum": list(properties)}}
            return {**schema, "anyOf": [{"required": [block.opener]}, others]}
        return {**schema, "additionalProperties": False}

    def _key(self, key: Key, takesAll: bool) -> dict[str, Any]:
        schema = self._values(key)
        feature = key.unsupported
        if feature is None:
            schema["description"] = key.typeNames
        else:
            schema["description"] = f"{key.typeNames}; {feature}"
            if not takesAll:
                never: dict[str, Any] = {"not": {}}
                off: dict[str, Any] = {"enum": [*feature.off]}
                schema |= off if feature.off else never
        return {**schema, "writeOnly": True} if key.isSecret else schema

    def _values(self, key: Key) -> dict[str, Any]:
        schemas = [schema for kind in key.types for schema in self._typed(kind)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def _typed(self, kind: AnyType) -> list[dict[str, Any]]:
        if isinstance(kind, BlockSchema):
            return [self.reference(kind)]
        if isinstance(kind, ListType):
            return [{"type": "array", "items": self._values(kind.item)}]
        if isinstance(kind, MapType):
            return [{"type": "object", "additionalProperties": self._values(kind.item)}]
        return _leaves(kind)


def _leaves(kind: ValueType) -> list[dict[str, Any]]:
    pattern = kind.only or kind.pattern
    return [
        {"type": _TYPES[kind_], "pattern": f"^(?:{pattern})$"}
        if pattern and kind_ is str
        else {"type": _TYPES[kind_]}
        for kind_ in kind.kinds
    ]
