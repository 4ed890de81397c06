"""
Tests for L{natsbroker.streaming.settings}.
"""

from __future__ import annotations

from natsbroker.streaming.settings import ChannelLimits, Streaming


def test_defaults() -> None:
    """The defaults are nats-streaming-server's."""
    streaming = Streaming()
    assert (streaming.cluster_id, streaming.store) == ("test-cluster", "memory")
    assert (streaming.max_channels, streaming.max_subs) == (100, 1000)
    assert (streaming.max_msgs, streaming.max_bytes) == (1_000_000, 1_024_000_000)
    assert (streaming.max_age, streaming.max_inactivity) == (0, 0)
    assert (streaming.hb_interval, streaming.hb_timeout, streaming.hb_fail_count) == (30, 10, 10)


def test_channelsSayNothing() -> None:
    """Of a channel nothing is said by default."""
    assert set(ChannelLimits.__dataclass_fields__) == {
        "max_subs",
        "max_msgs",
        "max_bytes",
        "max_age",
        "max_inactivity",
    }
    assert ChannelLimits().max_msgs is None
