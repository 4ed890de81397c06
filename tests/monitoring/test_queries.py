"""Tests for L{natsbroker.monitoring.queries}; the texts are held against nats-server elsewhere."""

from __future__ import annotations

import pytest

from natsbroker.monitoring.queries import BadQuery, flag, integer, repeated, text, unsigned


@pytest.mark.parametrize("value", ["1", "t", "T", "TRUE", "true", "True"])
def test_true(value: str) -> None:
    """Go's spellings of true are taken."""
    assert flag({"x": value}, "x") is True


@pytest.mark.parametrize("value", ["0", "f", "F", "FALSE", "false", "False", ""])
def test_spellingsOfFalse(value: str) -> None:
    """Go's spellings of false are taken, and a missing parameter is false too."""
    assert flag({"x": value}, "x") is False
    assert flag({}, "x") is False


@pytest.mark.parametrize("value", ["yes", "tRUE", "2", " 1", "on"])
def test_noFlag(value: str) -> None:
    """Other spellings are refused."""
    with pytest.raises(BadQuery, match=r"Error decoding boolean for .x.: strconv\.ParseBool"):
        flag({"x": value}, "x")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("", 0),
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("0" * 5000 + "9", 9),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_integer(value: str, number: int) -> None:
    """Numbers of 64 bits are taken, with leading zeros and signs."""
    assert integer({"x": value}, "x") == number


@pytest.mark.parametrize("value", ["9223372036854775808", "-9223372036854775809", "9" * 10_000])
def test_integerOutOfRange(value: str) -> None:
    """Numbers of more than 64 bits are refused as such, however long."""
    with pytest.raises(BadQuery, match=r"value out of range$"):
        integer({"x": value}, "x")


@pytest.mark.parametrize("value", ["x", "1_0", "0x1", "1.0", " 1", "1 ", "--1", "+", "٣", "1\n"])
def test_noInteger(value: str) -> None:
    """A text that is no number in Go is refused, although Python would accept it."""
    with pytest.raises(BadQuery, match=r"invalid syntax$"):
        integer({"x": value}, "x")


def test_unsigned() -> None:
    """Unsigned numbers have one more bit."""
    assert unsigned({"x": "18446744073709551615"}, "x") == 2**64 - 1
    assert unsigned({}, "x") == 0


@pytest.mark.parametrize("value", ["18446744073709551616", "9" * 10_000])
def test_unsignedOutOfRange(value: str) -> None:
    """A number beyond 64 bits is refused."""
    with pytest.raises(BadQuery, match=r"value out of range$"):
        unsigned({"x": value}, "x")


@pytest.mark.parametrize("value", ["-1", "+1", "x", "٣"])
def test_noUnsigned(value: str) -> None:
    """A sign is refused."""
    with pytest.raises(BadQuery, match=r"invalid syntax$"):
        unsigned({"x": value}, "x")


def test_text() -> None:
    """Absent text is empty."""
    assert text({"x": "y"}, "x") == "y"
    assert text({}, "x") == ""


def test_repeated() -> None:
    """A repeated parameter is reported in one short printable line."""
    assert repeated("a\r\n\x1b\u2028") == "a\\r\\n\\x1b\\u2028"
    assert repeated("x" * 1000) == "x" * 64 + "..."


def test_refusalIsShort() -> None:
    """A refusal of something long stays short."""
    with pytest.raises(BadQuery) as caught:
        flag({"x": 'y"' * 100_000}, "x")
    assert len(str(caught.value)) < 200
