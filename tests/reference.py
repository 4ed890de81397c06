"""
Writes the columns of the reference manual that come from the table of configuration keys:
spellings, types, and support. Meanings and the texts of defaults are written by hand::

    python -m tests.reference

A key without a row gets one, in which the meaning is the name of the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from natsbroker.config.keys.root import ROOT, everySection
from natsbroker.config.keys.types import BlockSchema, Key, ListType, MapType

MANUAL = Path(__file__).resolve().parents[1] / "docs" / "reference" / "configuration.md"
_HEADING = re.compile(r"^## (.+)$")
_ROW = re.compile(r"^\| `([^`]+)`[^|]* \| (.+) \| ([^|]+) \| [^|]+ \| (?:yes|not yet) \|$")


def _supported(schema: BlockSchema = ROOT) -> Iterator[tuple[str, str]]:
    """
    @return: the title and name of each key that is supported somewhere.
    """
    for name, key in schema.keys.items():
        if key.unsupported:
            continue
        yield schema.title, name
        yield from _supportedBelow(key)


def _supportedBelow(key: Key) -> Iterator[tuple[str, str]]:
    for kind in key.types:
        if isinstance(kind, BlockSchema):
            yield from _supported(kind)
        elif isinstance(kind, ListType | MapType):
            yield from _supportedBelow(kind.item)


def _rows(schema: BlockSchema, written: dict[str, tuple[str, str]]) -> Iterator[str]:
    supported = set(_supported())
    for name, key in schema.keys.items():
        meaning, default = written.get(name, (name, "none"))
        names = ", ".join(f"`{spelling}`" for spelling in (name, *key.aliases))
        state = "yes" if (schema.title, name) in supported else "not yet"
        yield f"| {names} | {meaning} | {default} | {key.typeNames} | {state} |"


def rendered(text: str) -> str:
    """
    @param text: the manual.
    @return: the manual with the rows of each section updated from the table, in its order.
    """
    schemas = {schema.title: schema for schema in everySection()}
    lines: list[str] = []
    written: dict[str, tuple[str, str]] = {}
    schema: BlockSchema | None = None
    for line in [*text.split("\n"), "## "]:
        row = _ROW.match(line)
        if row:
            written[row[1]] = row[2], row[3]
            continue
        if written and schema is not None:
            lines += _rows(schema, written)
            written = {}
        heading = _HEADING.match(line)
        schema = schemas.get(heading[1]) if heading else schema
        lines.append(line)
    return "\n".join(lines[:-1])


if __name__ == "__main__":
    MANUAL.write_text(rendered(MANUAL.read_text("utf-8")), "utf-8")
