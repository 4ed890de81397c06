"""
Tests for L{natsbroker.config.mappings}.
"""

from __future__ import annotations

import pytest

from natsbroker.accounts.settings import MappingDestination, SubjectMapping
from natsbroker.config.mappings import mappingFrom
from natsbroker.subjects.mapping import Destination, InvalidMapping


def test_made() -> None:
    """Everything that was said is in the mapping."""
    destinations = (MappingDestination("b.$1", 40), MappingDestination("c.$1", 60, "C"))
    made = mappingFrom(SubjectMapping("a.*", destinations))
    assert made.source == b"a.*"
    assert list(made.destinations) == [
        Destination(b"b.$1", 40, b""),
        Destination(b"c.$1", 60, b"C"),
    ]


def test_bytes() -> None:
    """Bytes that are not UTF-8 are those of the file."""
    made = mappingFrom(SubjectMapping("a\udcff", (MappingDestination("b\udcff"),)))
    assert made.source == b"a\xff"


def test_nonsense() -> None:
    """What makes no mapping is an error."""
    with pytest.raises(InvalidMapping):
        mappingFrom(SubjectMapping("a", (MappingDestination("b.{{wildcard(1)}}"),)))
