"""
Tests for L{natsbroker.config.language.places}.
"""

from __future__ import annotations

from natsbroker.config.errors import Position
from natsbroker.config.language.places import Places

TEXT = "ab\ncd\n\nef"


def test_at() -> None:
    """Lines and columns count from 1, and a line end belongs to its line."""
    places = Places("s.conf", TEXT)
    found = [(places.at(offset).line, places.at(offset).column) for offset in range(len(TEXT))]
    assert found == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (4, 1), (4, 2)]


def test_behindTheEnd() -> None:
    """The place behind the last character is on its line."""
    assert Places("s.conf", TEXT).at(len(TEXT)) == Position("s.conf", 4, 3)


def test_reached() -> None:
    """An error points at the last character read; a line end counts for the next line."""
    places = Places("s.conf", TEXT)
    assert places.reached(2) == Position("s.conf", 1, 2)
    assert places.reached(3) == Position("s.conf", 2, 1)
