"""
The JetStream of one account.
"""

from __future__ import annotations

from dataclasses import replace

from natsbroker.jetstream.model.streamconfig import StorageType
from tests.jetstream.support import Stage


def test_usage() -> None:
    """Used and reserved bytes are counted by storage."""
    stage = Stage()
    stage.stream(max_bytes=1000)
    stage.stream(name="M", subjects=("m",), storage=StorageType.MEMORY)
    stage.publish(b"s.a", b"1234")
    stage.publish(b"m", b"12")
    assert stage.jetstream.usage(StorageType.FILE) == 37
    assert stage.jetstream.usage(StorageType.MEMORY) == 19
    assert stage.jetstream.reserved(StorageType.FILE) == 1000
    assert stage.jetstream.reserved(StorageType.MEMORY) == 0


def test_change() -> None:
    """A configuration that is being stored counts for reservations."""
    stage = Stage()
    stream = stage.stream(max_bytes=1000)
    account = stage.jetstream
    with account.change(replace(stream.config, max_bytes=3000)):
        assert account.configs["S"].max_bytes == 3000
        assert account.reserved(StorageType.FILE) == 3000
    assert account.reserved(StorageType.FILE) == 1000
