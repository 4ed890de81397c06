"""
The limits of accounts and of the server.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.limits import (
    NO_ACCOUNT_LIMITS,
    NO_SERVER_LIMITS,
    ConfiguredLimits,
    JetStreamLimits,
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
    """A stream without a size needs some space, and nothing where there is no limit."""
    config = StreamConfig(max_bytes=-1)
    checkLimits(config, NO_ACCOUNT_LIMITS, NO_SERVER_LIMITS, 0, -1)
    with pytest.raises(JetStreamError, match="insufficient storage resources"):
        checkLimits(config, JetStreamLimits(max_storage=7), NO_SERVER_LIMITS, 7, -1)


def test_spaceOfTheServer() -> None:
    """What the server has left bounds every account."""
    config = StreamConfig(storage=StorageType.MEMORY)
    server = ConfiguredLimits(memory_left=5)
    checkLimits(config, NO_ACCOUNT_LIMITS, server, 100, 5)
    with pytest.raises(JetStreamError, match="insufficient memory resources"):
        checkLimits(config, NO_ACCOUNT_LIMITS, server, 0, 6)
