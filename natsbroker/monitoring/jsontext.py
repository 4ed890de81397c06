"""
JSON text in small pieces, laid out as Go's C{encoding/json} lays it out.

Promises: two blanks of indentation and the same escapes as nats-server's pages, C{<}, C{>} and
C{&} included, so that no browser can take a page for HTML; a piece is never much longer than one
text in it, so that a long document can be made a little at a time.
Must never know: what a document means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["compact", "indented"]

_SPECIAL = re.compile("[<>&\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def indented(document: Any, level: int = 0) -> Iterator[str]:
    """
    @param document: mappings with text keys, sequences, text, numbers, truth values, C{None}.
    @param level: how deep it stands in another document.
    @return: the text in pieces; joined, they are the document.
    """
    if isinstance(document, Mapping):
        yield from _object(document, level)
    elif isinstance(document, Sequence) and not isinstance(document, str):
        yield from _array(document, level)
    else:
        yield _scalar(document)


def compact(document: Any) -> str:
    """
    The text on one line, without blanks.
    """
    if isinstance(document, Mapping):
        members = (f"{_quoted(key)}:{compact(value)}" for key, value in document.items())
        return "{" + ",".join(members) + "}"
    if isinstance(document, Sequence) and not isinstance(document, str):
        return "[" + ",".join(map(compact, document)) + "]"
    return _scalar(document)


def _object(document: Mapping[str, Any], level: int) -> Iterator[str]:
    if not document:
        yield "{}"
        return
    indent = "\n" + "  " * (level + 1)
    start = "{"
    for key, value in document.items():
        name = f"{start}{indent}{_quoted(key)}: "
        start = ","
        if isinstance(value, (Mapping, list, tuple)):
            yield name
            yield from indented(value, level + 1)
        else:
            yield name + _scalar(value)
    yield "\n" + "  " * level + "}"


def _array(document: Sequence[Any], level: int) -> Iterator[str]:
    if not document:
        yield "[]"
        return
    indent = "\n" + "  " * (level + 1)
    start = "["
    for value in document:
        if isinstance(value, (Mapping, list, tuple)):
            yield start + indent
            yield from indented(value, level + 1)
        else:
            yield start + indent + _scalar(value)
        start = ","
    yield "\n" + "  " * level + "]"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return json.dumps(value, allow_nan=False)


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _SPECIAL.sub(_escaped, quoted) if _SPECIAL.search(quoted) else quoted


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
