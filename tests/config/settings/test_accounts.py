"""
Tests for L{natsbroker.config.settings.accounts}.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

from natsbroker.config.settings.accounts import (
    Latency,
    MappingDestination,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
    SubjectMapping,
    bytesOf,
    mappingFrom,
)
from natsbroker.subjects.functions import InvalidMapping
from natsbroker.subjects.mapping import Destination

VALUES = [
    MappingDestination("a"),
    SubjectMapping("a", (MappingDestination("b"),)),
    StreamExport("a"),
    Latency("a"),
    ServiceExport("a"),
    StreamImport("A", "a", "b"),
    ServiceImport("A", "a", "b"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_frozen(value: object) -> None:
    """Settings are frozen."""
    assert is_dataclass(value)
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, "x")
    assert hash(value) == hash(value)


def test_defaults() -> None:
    """By default an export is public, and a service answers once, within two minutes."""
    export = ServiceExport("a")
    assert (export.accounts, export.response_type, export.response_threshold) == (
        None,
        "singleton",
        120.0,
    )
    assert Latency("a").sampling == MappingDestination("a").weight == 100


def test_bytes() -> None:
    """Subjects are encoded as UTF-8; invalid bytes of the file are kept."""
    assert bytesOf("\u00f6.a") == b"\xc3\xb6.a"
    assert bytesOf(b"\xff.a".decode("utf-8", "surrogateescape")) == b"\xff.a"


def test_mappingFrom() -> None:
    """A mapping has all destinations of the settings."""
    destinations = (MappingDestination("b.$1", 40), MappingDestination("c.$1", 60, "C"))
    made = mappingFrom(SubjectMapping("a.*", destinations))
    assert made.source == b"a.*"
    assert list(made.destinations) == [
        Destination(b"b.$1", 40, b""),
        Destination(b"c.$1", 60, b"C"),
    ]


def test_mappingKeepsBytes() -> None:
    """A mapping keeps bytes of the file that are not UTF-8."""
    made = mappingFrom(SubjectMapping("a\udcff", (MappingDestination("b\udcff"),)))
    assert made.source == b"a\xff"


def test_invalidMapping() -> None:
    """An invalid mapping is an error."""
    with pytest.raises(InvalidMapping):
        mappingFrom(SubjectMapping("a", (MappingDestination("b.{{wildcard(1)}}"),)))
