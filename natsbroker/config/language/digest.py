"""
The digest of a configuration, whatever its comments and layout: that of nats-server 2.15, the
SHA-256 of the JSON text that Go's C{encoding/json} writes for the tree.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import datetime

from natsbroker.config.language.tree import (
    ArrayNode,
    Node,
    Scalar,
    ScalarNode,
    TableEntry,
    TableNode,
)

_SPECIAL = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def digestOf(table: TableNode) -> str:
    hasher = hashlib.sha256()
    for piece in _json(table):
        hasher.update(piece.encode("utf-8"))
    hasher.update(b"\n")
    return f"sha256:{hasher.hexdigest()}"


def _json(node: Node) -> Iterator[str]:
    if isinstance(node, ScalarNode):
        yield _scalar(node.value)
    elif isinstance(node, ArrayNode):
        yield "["
        for index, item in enumerate(node.items):
            if index:
                yield ","
            yield from _json(item)
        yield "]"
    else:
        yield from _object(node)


def _object(table: TableNode) -> Iterator[str]:
    yield "{"
    for index, entry in enumerate(sorted(table, key=_keyBytes)):
        if index:
            yield ","
        yield f"{_string(entry.key)}:"
        yield from _json(entry.node)
    yield "}"


def _keyBytes(entry: TableEntry) -> bytes:
    return entry.key.encode("utf-8", "surrogateescape")


def _scalar(value: Scalar) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, datetime):
        return f'"{value.isoformat().removesuffix("+00:00")}Z"'
    return str(value)


def _string(text: str) -> str:
    return _SPECIAL.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if "\ud800" <= character <= "\udfff":
        return "\ufffd"  # a byte that is not UTF-8
    return f"\\u{ord(character):04x}"


def _float(value: float) -> str:
    sign = "-" if str(value).startswith("-") else ""
    digits = repr(abs(value))
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return sign + _expanded(digits)
    mantissa, _, exponent = digits.partition("e")
    return f"{sign}{mantissa.removesuffix('.0')}e{int(exponent):+d}"


def _expanded(digits: str) -> str:
    if "e" not in digits:
        return digits.removesuffix(".0")
    mantissa, exponent = digits.split("e")
    whole, _, fraction = mantissa.partition(".")
    shift = int(exponent)
    if shift >= 0:
        return whole + fraction.ljust(shift, "0")
    return "0." + "0" * (-shift - 1) + whole + fraction
