"""
The limits of accounts and of the server.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.limits import (
    NO_ACCOUNT_LIMITS,
    NO_SERVER_LIMITS,
    NOTHING,
    AccountAllowance,
    ConfiguredLimits,
    JetStreamLimits,
    StorageBounds,
    checkLimits,
)
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig


def test_toJSON() -> None:
    """The limits of an account are shown as its information shows them."""
    assert JetStreamLimits(max_memory=5).toJSON() == {
        "max_memory": 5,
        "max_storage": -1,
        "max_streams": -1,
        "max_consumers": -1,
        "max_ack_pending": -1,
        "memory_max_stream_bytes": -1,
        "storage_max_stream_bytes": -1,
        "max_bytes_required": False,
    }


def test_unlimitedSizeNeedsOneByte() -> None:
    """With a storage limit, a stream without max_bytes needs one free byte."""
    config = StreamConfig(max_bytes=-1)
    checkLimits(config, NO_ACCOUNT_LIMITS, NO_SERVER_LIMITS, 0, -1)
    with pytest.raises(JetStreamError, match="insufficient storage resources"):
        checkLimits(config, JetStreamLimits(max_storage=7), NO_SERVER_LIMITS, 7, -1)


def test_spaceOfTheServer() -> None:
    """The free space of the server limits accounts that have no limit of their own."""
    config = StreamConfig(storage=StorageType.MEMORY)
    server = ConfiguredLimits(max_memory=5)
    checkLimits(config, NO_ACCOUNT_LIMITS, server, 100, 5)
    with pytest.raises(JetStreamError, match="insufficient memory resources"):
        checkLimits(config, NO_ACCOUNT_LIMITS, server, 0, 6)


class TestAllowance:
    """Limits by tier."""

    def test_plain(self) -> None:
        """Without tiers, the account's limits apply to any number of replicas."""
        allowance = AccountAllowance(JetStreamLimits(max_streams=3))
        allowance.check(5)
        assert allowance.effective().max_streams == 3

    def test_tiers(self) -> None:
        """
        With tiers, a stream needs the tier of its replicas. The tier R1 is shown as the account's
        limit.
        """
        tiers = {"R1": JetStreamLimits(max_streams=1), "R3": JetStreamLimits(max_streams=2)}
        allowance = AccountAllowance(JetStreamLimits(max_streams=3), tiers)
        for replicas in (0, 1, 3):
            allowance.check(replicas)
        with pytest.raises(JetStreamError, match="tiered limit"):
            allowance.check(5)
        assert allowance.effective().max_streams == 1

    def test_noTier(self) -> None:
        """Without a tier for one replica no stream may be created."""
        allowance = AccountAllowance(tiers={"R3": JetStreamLimits()})
        assert allowance.effective() == NOTHING


@pytest.mark.parametrize(
    ("bounds", "room"),
    [
        (StorageBounds(-1, 10**12, -1, 10**12), None),
        (StorageBounds(1000, 900, -1, 900), 100),
        (StorageBounds(1000, 1200, 5000, 1200), -200),
        (StorageBounds(2000, 0, 1000, 950), 50),
    ],
)
def test_room(bounds: StorageBounds, room: int | None) -> None:
    """The remaining room is that of the nearest limit."""
    assert bounds.room() == room


def test_total() -> None:
    """Memory and files have limits of their own."""
    limits = ConfiguredLimits(max_memory=1, max_storage=2)
    assert [limits.total(storage) for storage in (StorageType.MEMORY, StorageType.FILE)] == [1, 2]


def test_after() -> None:
    """Free space is computed only for a storage with a limit, and is never negative."""
    asked: list[StorageType] = []

    def reserved(storage: StorageType) -> int:
        asked.append(storage)
        return 4

    limits = ConfiguredLimits(max_storage=10).after(reserved)
    assert [limits.left(storage) for storage in (StorageType.MEMORY, StorageType.FILE)] == [None, 6]
    assert asked == [StorageType.FILE]
    assert ConfiguredLimits(max_memory=3).after(reserved).left(StorageType.MEMORY) == 0
