"""
Tests for L{natsbroker.config.language.scalars}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.config.language.scalars import Kind, ScanError, scan, shown

VALUES = [
    ("42\n", Kind.INTEGER, "42", 2),
    ("42", Kind.INTEGER, "42", 2),
    ("-42]", Kind.INTEGER, "-42", 3),
    ("10k,", Kind.INTEGER, "10k", 3),
    ("10MiB }", Kind.INTEGER, "10MiB", 5),
    ("1e5", Kind.INTEGER, "1e", 2),
    ("1]\n", Kind.STRING, "1]", 2),
    ("1k]", Kind.STRING, "1k", 2),
    ("10s\n", Kind.STRING, "10s", 3),
    ("500ms\n", Kind.STRING, "500ms", 5),
    ("2m\n", Kind.INTEGER, "2m", 2),
    ("1.5x", Kind.FLOAT, "1.5", 3),
    ("-1.5\n", Kind.FLOAT, "-1.5", 4),
    ("127.0.0.1:4222\n", Kind.STRING, "127.0.0.1:4222", 14),
    ("1.2.3-4 ", Kind.STRING, "1.2.3-4", 7),
    ("2020-01-02T03:04:05Z\n", Kind.DATETIME, "2020-01-02T03:04:05Z", 20),
    ("foo bar", Kind.STRING, "foo", 3),
    ("foo#bar\n", Kind.STRING, "foo#bar", 7),
    ("foo'x", Kind.STRING, "foo", 4),
    ("true'x", Kind.STRING, "true", 5),
    ("foo\0bar", Kind.STRING, "foo", 3),
    ("", Kind.STRING, "", 0),
    (",", Kind.STRING, "", 0),
    ("True\n", Kind.BOOLEAN, "True", 4),
    ("off;", Kind.BOOLEAN, "off", 3),
    ("$FOO\n", Kind.VARIABLE, "FOO", 4),
    ("$\n", Kind.VARIABLE, "", 1),
    ("\\x24FOO", Kind.STRING, "$FOO", 7),
    ("a\\tb", Kind.STRING, "a\tb", 4),
    ("'a\\tb\n'", Kind.STRING, "a\\tb\n", 7),
    ('"a\\tb\\n\\r\\"\\\\"', Kind.STRING, 'a\tb\n\r"\\', 14),
    ('"\\x41\\xc3\\xa9"', Kind.STRING, "A\u00e9", 14),
    ('"\\xff"', Kind.STRING, "\udcff", 6),
    ("(\na\n b)\n)\n", Kind.STRING, "\na\n b)\n", 9),
    ("(\na\n)", Kind.STRING, "\na\n)", 5),
]


@pytest.mark.parametrize(("text", "kind", "value", "end"), VALUES)
def test_values(text: str, kind: Kind, value: str, end: int) -> None:
    """The text of a value decides its kind, and where it ends."""
    assert scan(text, 0) == (kind, value, end)


MISTAKES = [
    (".5", "Floats must start with a digit", 1),
    ("-.5", "Floats must start with a digit, not '.'.", 2),
    ("-x", "Expected a digit but got 'x'.", 2),
    ("-", "Expected a digit but got 'EOF'.", 1),
    ("1.x", "Floats must have a digit after the '.', but got 'x' instead.", 3),
    ("10-20", "All ISO8601 dates must be in full Zulu form.", 3),
    ("2020-x", "Expected digit in ISO8601 datetime, but found 'x' instead.", 6),
    ("2020-01-02 ", "Expected 'T' in ISO8601 datetime, but found ' ' instead.", 11),
    ("\n", "Expected value but found new line", 1),
    ('"abc', "Unexpected EOF.", 4),
    ("'abc", "Unexpected EOF.", 4),
    ("'a\0'", "Unexpected EOF.", 2),
    ("(abc\n) x", "Unexpected EOF processing block.", 8),
    ('"\\x4"', "Expected two hexadecimal digits after '\\x', but got '4\"'", 5),
    ('"\\x\n', "Expected two hexadecimal digits after '\\x', but hit end of line", 4),
]


@pytest.mark.parametrize(("text", "message", "offset"), MISTAKES)
def test_mistakes(text: str, message: str, offset: int) -> None:
    """What is not well formed is reported with nats-server's words, where it shows."""
    with pytest.raises(ScanError) as raised:
        scan(text, 0)
    assert (raised.value.message, raised.value.offset) == (message, offset)


def test_unknownEscape() -> None:
    """An escape that does not exist is an error that lists those that do."""
    with pytest.raises(ScanError, match="Invalid escape character 'q'"):
        scan('"\\q"', 0)


def test_shown() -> None:
    """The end of the text and of a line have names."""
    assert [shown(character) for character in "\n\0x"] == ["\\n", "EOF", "x"]


@given(st.text("0123456789-.kmb\"'\\x()\n$tT:Z ,;]}#\0e", max_size=30))
def test_anyText(text: str) -> None:
    """Any text is a value that ends within it, or an error within it."""
    try:
        scanned = scan(text, 0)
    except ScanError as error:
        assert 0 <= error.offset <= len(text)
    else:
        assert 0 <= scanned.end <= len(text)
