"""
Tests for L{natsbroker.config.errors}.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from natsbroker.config.errors import (
    ConfigError,
    ConfigErrors,
    Position,
    UnknownField,
    oneLine,
)

PLACE = Position("s.conf", 2, 1)


class TestText:
    """The text of an error."""

    def test_placeAndPath(self) -> None:
        """An error has file, line, column, dotted path and the reason."""
        error = ConfigError("is negative", "authorization.timeout", PLACE)
        assert str(error) == "s.conf:2:1: authorization.timeout: is negative"

    def test_noPlace(self) -> None:
        """An error without a file has no position."""
        assert str(ConfigError("is negative", "port")) == "port: is negative"

    def test_fileWithoutLine(self) -> None:
        """An error of a whole file names the file alone."""
        assert str(ConfigError("gone", position=Position("s.conf"))) == "s.conf: gone"

    def test_unknownAtTheTop(self) -> None:
        """An unknown key at the top level has nats-server's error."""
        assert str(UnknownField("bogus", "bogus", PLACE)) == 's.conf:2:1: unknown field "bogus"'

    def test_unknownInside(self) -> None:
        """The error for an unknown key in a block names the block."""
        error = UnknownField("bogus", "authorization.users[1].bogus", PLACE)
        assert str(error) == 's.conf:2:1: unknown field "bogus" in authorization.users[1]'

    def test_severalErrors(self) -> None:
        """Several errors have one line each, and the position of the first."""
        errors = ConfigErrors([ConfigError("a", position=PLACE), ConfigError("b")])
        assert str(errors) == "s.conf:2:1: a\nb"
        assert errors.position == PLACE


class TestOneLine:
    """Text from a file that cannot break a log."""

    def test_escapes(self) -> None:
        """Line ends, escape sequences and undecodable bytes are escaped."""
        assert oneLine("a\nb\x1b[0m\udcff") == "a\\nb\\x1b[0m\\udcff"

    def test_longText(self) -> None:
        """A very long text is truncated."""
        assert len(oneLine("x" * 100000)) < 1100

    @given(st.text(st.characters()))
    def test_alwaysOneLine(self, text: str) -> None:
        """With any text, the error is one printable line that can be encoded."""
        line = str(ConfigError(text, text))
        assert line.isprintable() or not line
        line.encode("utf-8")
