"""
The fields of a stream's configuration.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig

_WIRE = [
    "name",
    "description",
    "subjects",
    "retention",
    "max_consumers",
    "max_msgs",
    "max_bytes",
    "max_age",
    "max_msgs_per_subject",
    "max_msg_size",
    "discard",
    "storage",
    "num_replicas",
    "no_ack",
    "duplicate_window",
    "placement",
    "mirror",
    "sources",
    "compression",
    "first_seq",
    "subject_transform",
    "republish",
    "allow_direct",
    "mirror_direct",
    "discard_new_per_subject",
    "sealed",
    "deny_delete",
    "deny_purge",
    "allow_rollup_hdrs",
    "consumer_limits",
    "allow_msg_ttl",
    "subject_delete_marker_ttl",
    "allow_msg_counter",
    "allow_atomic",
    "allow_msg_schedules",
    "persist_mode",
    "allow_batched",
    "metadata",
]


def test_fieldsAreTheWiresKeys() -> None:
    """The fields are the keys of the JSON, in its order."""
    assert [field.name for field in fields(StreamConfig)] == _WIRE


def test_isFrozen() -> None:
    """The fields of a configuration cannot be assigned."""
    config = StreamConfig(name="S")
    with pytest.raises(FrozenInstanceError):
        config.name = "T"  # type: ignore[misc]  # the point of the test


def test_enumerationsAreText() -> None:
    """A policy compares equal to its word on the wire."""
    assert StreamConfig().storage == "file"
    assert StorageType("memory") is StorageType.MEMORY
