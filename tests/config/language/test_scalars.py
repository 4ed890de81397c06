"""
Tests for L{natsbroker.config.language.scalars}.
"""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.config.language.scalars import (
    LexemeKind,
    ScanError,
    booleanFrom,
    datetimeFrom,
    floatFrom,
    integerFrom,
    nameOf,
    scan,
)

VALUES = [
    ("42\n", LexemeKind.INTEGER, "42", 2),
    ("42", LexemeKind.INTEGER, "42", 2),
    ("-42]", LexemeKind.INTEGER, "-42", 3),
    ("10k,", LexemeKind.INTEGER, "10k", 3),
    ("10MiB }", LexemeKind.INTEGER, "10MiB", 5),
    ("1e5", LexemeKind.INTEGER, "1e", 2),
    ("1]\n", LexemeKind.STRING, "1]", 2),
    ("1k]", LexemeKind.STRING, "1k", 2),
    ("10s\n", LexemeKind.STRING, "10s", 3),
    ("500ms\n", LexemeKind.STRING, "500ms", 5),
    ("2m\n", LexemeKind.INTEGER, "2m", 2),
    ("1.5x", LexemeKind.FLOAT, "1.5", 3),
    ("-1.5\n", LexemeKind.FLOAT, "-1.5", 4),
    ("127.0.0.1:4222\n", LexemeKind.STRING, "127.0.0.1:4222", 14),
    ("1.2.3-4 ", LexemeKind.STRING, "1.2.3-4", 7),
    ("2020-01-02T03:04:05Z\n", LexemeKind.DATETIME, "2020-01-02T03:04:05Z", 20),
    ("foo bar", LexemeKind.STRING, "foo", 3),
    ("foo#bar\n", LexemeKind.STRING, "foo#bar", 7),
    ("foo'x", LexemeKind.STRING, "foo", 4),
    ("true'x", LexemeKind.STRING, "true", 5),
    ("foo\0bar", LexemeKind.STRING, "foo", 3),
    ("", LexemeKind.STRING, "", 0),
    (",", LexemeKind.STRING, "", 0),
    ("True\n", LexemeKind.BOOLEAN, "True", 4),
    ("off;", LexemeKind.BOOLEAN, "off", 3),
    ("$FOO\n", LexemeKind.VARIABLE, "FOO", 4),
    ("$\n", LexemeKind.VARIABLE, "", 1),
    ("\\x24FOO", LexemeKind.STRING, "$FOO", 7),
    ("a\\tb", LexemeKind.STRING, "a\tb", 4),
    ("'a\\tb\n'", LexemeKind.STRING, "a\\tb\n", 7),
    ('"a\\tb\\n\\r\\"\\\\"', LexemeKind.STRING, 'a\tb\n\r"\\', 14),
    ('"\\x41\\xc3\\xa9"', LexemeKind.STRING, "A\u00e9", 14),
    ('"\\xff"', LexemeKind.STRING, "\udcff", 6),
    ("(\na\n b)\n)\n", LexemeKind.STRING, "\na\n b)\n", 9),
    ("(\na\n)", LexemeKind.STRING, "\na\n)", 5),
]


@pytest.mark.parametrize(("text", "kind", "value", "end"), VALUES)
def test_values(text: str, kind: LexemeKind, value: str, end: int) -> None:
    """The text of a value determines its kind and its end."""
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
    """A malformed value is reported with nats-server's error, at its position."""
    with pytest.raises(ScanError) as raised:
        scan(text, 0)
    assert (raised.value.message, raised.value.offset) == (message, offset)


def test_unknownEscape() -> None:
    """An unknown escape is an error that lists the known ones."""
    with pytest.raises(ScanError, match="Invalid escape character 'q'"):
        scan('"\\q"', 0)


def test_shown() -> None:
    """The end of the text and of a line have names in errors."""
    assert [nameOf(character) for character in "\n\0x"] == ["\\n", "EOF", "x"]


@given(st.text("0123456789-.kmb\"'\\x()\n$tT:Z ,;]}#\0e", max_size=30))
def test_anyText(text: str) -> None:
    """Any text is a value that ends within it, or an error at a position within it."""
    try:
        scanned = scan(text, 0)
    except ScanError as error:
        assert 0 <= error.offset <= len(text)
    else:
        assert 0 <= scanned.end <= len(text)


SIZES = [
    ("0", 0),
    ("-17", -17),
    ("007", 7),
    ("1k", 1000),
    ("1K", 1000),
    ("1kb", 1024),
    ("1Ki", 1024),
    ("1KiB", 1024),
    ("-2m", -2_000_000),
    ("2MB", 2 * 1024**2),
    ("3g", 3 * 1000**3),
    ("3gi", 3 * 1024**3),
    ("4t", 4 * 1000**4),
    ("4tib", 4 * 1024**4),
    ("5p", 5 * 1000**5),
    ("5pb", 5 * 1024**5),
    ("6e", 6 * 1000**6),
    ("6EB", 6 * 1024**6),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
]


@pytest.mark.parametrize(("text", "value"), SIZES)
def test_sizes(text: str, value: int) -> None:
    """
    The suffixes k, m, g and so on are powers of 1000, and those with b, i or ib are powers of 1024.
    """
    assert integerFrom(text) == value


@pytest.mark.parametrize("text", ["9223372036854775808", "10e", "8eb", "1" * 5000])
def test_outOfRange(text: str) -> None:
    """A number beyond 64 bits is an error."""
    with pytest.raises(ValueError, match="out of the range"):
        integerFrom(text)


@pytest.mark.parametrize("text", ["1kbi", "1kk", "", "-", "\u0663", "1\u0663"])
def test_notAnInteger(text: str) -> None:
    """Unknown units, and digits of other scripts, are errors."""
    with pytest.raises(ValueError, match="expected integer"):
        integerFrom(text)


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), ("-0.25", -0.25), ("00.10", 0.1)])
def test_floats(text: str, value: float) -> None:
    """A decimal fraction is a float."""
    assert floatFrom(text) == value


def test_badFloats() -> None:
    """A float that is too large, or has other digits, is an error."""
    with pytest.raises(ValueError, match="out of the range"):
        floatFrom("1" * 400 + ".0")
    with pytest.raises(ValueError, match="expected float"):
        floatFrom("1.\u0663")


def test_datetime() -> None:
    """A date is read as UTC."""
    expected = datetime(2020, 2, 29, 23, 59, 58, tzinfo=timezone.utc)
    assert datetimeFrom("2020-02-29T23:59:58Z") == expected


@pytest.mark.parametrize(
    "text", ["2021-02-29T00:00:00Z", "2020-01-01T24:00:00Z", "2020-01-0\u0661T00:00:00Z"]
)
def test_impossibleDatetime(text: str) -> None:
    """A day or an hour that does not exist is an error."""
    with pytest.raises(ValueError, match="expected Zulu formatted DateTime"):
        datetimeFrom(text)


@pytest.mark.parametrize("text", ["true", "YES", "On", "false", "No", "OFF"])
def test_booleans(text: str) -> None:
    """Three words mean true and three mean false, in upper or lower case."""
    assert booleanFrom(text) is (text.lower() in ("true", "yes", "on"))
