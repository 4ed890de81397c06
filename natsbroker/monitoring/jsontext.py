"""
JSON text as Go's C{encoding/json} writes it, in pieces.

The escapes are those of nats-server's pages, C{<}, C{>} and C{&} included, so that no browser can
take a page for HTML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["compact", "indented"]

_SPECIAL = re.compile("[<>&\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_INDENTED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=2)
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def indented(document: Any, level: int = 0) -> Iterator[str]:
    """
    A document with two spaces of indentation, in pieces not much longer than its longest string:
    a long document can be made a little at a time.

    @param document: dictionaries with text keys, lists, tuples, text, numbers, booleans, C{None}.
    @param level: how deep it stands in another document.
    """
    newline = "\n" + "  " * level
    for piece in _pieces(_INDENTED, document):
        yield piece.replace("\n", newline) if level else piece


def compact(document: Any) -> str:
    """
    The text on one line, without spaces.
    """
    return "".join(_pieces(_COMPACT, document))


def _pieces(encoder: json.JSONEncoder, document: Any) -> Iterator[str]:
    """
    Each scalar ends a piece. Go writes a whole float without its fraction.
    """
    for piece in encoder.iterencode(document):
        if piece.endswith(".0"):
            piece = piece[:-2]
        yield _SPECIAL.sub(_escaped, piece) if _SPECIAL.search(piece) else piece


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
