"""
Tests for L{natsbroker.jetstream.streamtable}.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.streamtable import StreamConfigs, StreamTable


def stream(name: str, isChannel: bool = False) -> Any:
    """A stand-in for a stream, with its configuration."""
    return SimpleNamespace(config=StreamConfig(name=name), isChannel=isChannel)


def test_changed() -> None:
    """A table records the names of streams that are created, replaced or deleted."""
    table: StreamTable[Any] = StreamTable()
    table["A"] = table["B"] = stream("A")
    table["C"] = channel = stream("C", True)
    assert (table.changed, table.channels) == ({"A", "B", "C"}, {"C"})
    table.changed.clear()
    del table["A"]
    assert table.pop("C") is channel
    assert table.pop("C", None) is None
    with pytest.raises(KeyError):
        table.pop("C")
    assert (table.changed, table.channels, list(table)) == ({"A", "C"}, set(), ["B"])


def test_configs() -> None:
    """Configurations include streams that are still being stored."""
    table: StreamTable[Any] = StreamTable()
    table["A"] = stream("A")
    changing: dict[str, StreamConfig] = {}
    configs = StreamConfigs(table, changing)
    assert (list(configs), len(configs), "B" in configs) == (["A"], 1, False)
    changing["A"] = changing["B"] = StreamConfig(name="B")
    table["C"] = stream("C")
    assert (list(configs), len(configs)) == (["A", "C", "B"], 3)
    assert [config.name for config in configs.values()] == ["B", "C", "B"]
