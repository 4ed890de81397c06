"""
The splitting of the arguments of client lines.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.wire.dialects.client import (
    parseSize,
    splitBlanks,
    splitSubscription,
    splitUnsubscription,
)


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        (b"", []),
        (b" ", []),
        (b"\t \t", []),
        (b"a", [b"a"]),
        (b"a b", [b"a", b"b"]),
        (b"  a  b ", [b"a", b"b"]),
        (b"a\tb\t\tc", [b"a", b"b", b"c"]),
        (b"a\x0bb\x0cc\xa0d", [b"a\x0bb\x0cc\xa0d"]),
        (b"a\rb", [b"a\rb"]),
    ],
)
def test_splitBlanks(line: bytes, arguments: list[bytes]) -> None:
    """Arguments are separated by blanks and tabs, and by no other byte."""
    assert splitBlanks(line) == arguments


@given(st.binary(max_size=40))
def test_splitBlanksKeepsTheRest(line: bytes) -> None:
    """Splitting loses only blanks and tabs, and gives no empty argument."""
    arguments = splitBlanks(line)
    assert b"".join(arguments) == line.replace(b" ", b"").replace(b"\t", b"")
    assert all(arguments)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (b"0", 0),
        (b"1", 1),
        (b"002", 2),
        (b"999999999", 999999999),
        (b"0000000001", -1),
        (b"1000000000", -1),
        (b"", -1),
        (b"-1", -1),
        (b"+1", -1),
        (b" 1", -1),
        (b"1 ", -1),
        (b"0x1", -1),
        (b"1_0", -1),
        (b"1e3", -1),
        ("²".encode(), -1),
        ("٣".encode(), -1),
    ],
)
def test_parseSize(text: bytes, size: int) -> None:
    """A size is one to nine ASCII digits and nothing else."""
    assert parseSize(text) == size


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (b"foo 1", (b"foo", b"", b"1")),
        (b"foo q 1", (b"foo", b"q", b"1")),
        (b"  foo\t q  1 ", (b"foo", b"q", b"1")),
        (b"foo\r1", (b"foo", b"", b"1")),
        (b"foo 1\r", (b"foo", b"", b"1")),
        (b"", None),
        (b"foo", None),
        (b"a b c d", None),
    ],
)
def test_splitSubscription(line: bytes, parts: object) -> None:
    """SUB has a subject, an optional queue group, and a sid; a stray CR is a space."""
    assert splitSubscription(line) == parts


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (b"1", (b"1", 0)),
        (b"1 5", (b"1", 5)),
        (b"1\t05 ", (b"1", 5)),
        (b"1\r5", (b"1", 5)),
        (b"1 0", (b"1", 0)),
        (b"1 -1", (b"1", 0)),
        (b"1 x", (b"1", 0)),
        (b"1 99999999999", (b"1", 0)),
        (b"", None),
        (b" ", None),
        (b"1 2 3", None),
    ],
)
def test_splitUnsubscription(line: bytes, parts: object) -> None:
    """UNSUB has a sid and an optional count; any other text than a count means 0."""
    assert splitUnsubscription(line) == parts
