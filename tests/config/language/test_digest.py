"""
Tests for L{natsbroker.config.language.digest}. A comparison with nats-server is in
test_against_server.
"""

from __future__ import annotations

import hashlib

import pytest

from natsbroker.config.language.digest import digestOf
from natsbroker.config.language.parser import parse

WRITTEN = [
    ("", "{}"),
    ("b: 1\na: [x, true ]", '{"a":["x",true],"b":1}'),
    ("a { b: 1.50, c: -0.0 }", '{"a":{"b":1.5,"c":-0}}'),
    ("a: 0.0000001", '{"a":1e-7}'),
    ("a: 0.00001", '{"a":0.00001}'),
    ("a: 1000000000000000000000.0", '{"a":1e+21}'),
    ("a: 100000000000000000000.0", '{"a":100000000000000000000}'),
    ("a: 2020-01-02T03:04:05Z", '{"a":"2020-01-02T03:04:05Z"}'),
    ('a: "<\\n\\t\\x01\\x08\\">"', '{"a":"\\u003c\\n\\t\\u0001\\b\\"\\u003e"}'),
    ('a: "\\xffx"', '{"a":"\ufffdx"}'),
    ("a: \u2028", '{"a":"\\u2028"}'),
    ("x: 1\na: $x", '{"a":1,"x":1}'),
]


@pytest.mark.parametrize(("text", "document"), WRITTEN)
def test_document(text: str, document: str) -> None:
    """The digest is that of the JSON text that Go writes."""
    expected = hashlib.sha256(f"{document}\n".encode()).hexdigest()
    assert digestOf(parse(text, {})) == f"sha256:{expected}"


def test_layoutDoesNotMatter() -> None:
    """Comments, order and separators do not change the digest."""
    one = parse("a: 1\nb { c: 2 }", {})
    other = parse("# x\nb = {c 2}; a 1", {})
    assert digestOf(one) == digestOf(other)
