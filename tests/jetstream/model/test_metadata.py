"""
The API levels in metadata.
"""

from __future__ import annotations

import pytest

from natsbroker import NATS_VERSION
from natsbroker.jetstream.model.consumerconfig import AckPolicy, ConsumerConfig, PriorityPolicy
from natsbroker.jetstream.model.metadata import (
    consumerLevel,
    isSupportedLevel,
    streamLevel,
    withLevel,
    withLevelOf,
    withPause,
    withServer,
)
from natsbroker.jetstream.model.streamconfig import PersistMode, StreamConfig
from natsbroker.wire.timestamps import ZERO_TIME, Timestamp


@pytest.mark.parametrize(
    ("config", "level"),
    [
        (StreamConfig(), 0),
        (StreamConfig(allow_msg_ttl=True), 1),
        (StreamConfig(subject_delete_marker_ttl=1), 1),
        (StreamConfig(allow_msg_counter=True, allow_msg_ttl=True), 2),
        (StreamConfig(allow_atomic=True), 2),
        (StreamConfig(allow_msg_schedules=True), 2),
        (StreamConfig(persist_mode=PersistMode.ASYNC), 2),
        (StreamConfig(allow_batched=True, allow_atomic=True), 4),
    ],
)
def test_streamLevel(config: StreamConfig, level: int) -> None:
    """The API level of a stream is that of the newest feature in its configuration."""
    assert streamLevel(config) == level


@pytest.mark.parametrize(
    ("config", "level"),
    [
        (ConsumerConfig(), 0),
        (ConsumerConfig(pause_until=ZERO_TIME), 0),
        (ConsumerConfig(pause_until=Timestamp(5)), 1),
        (ConsumerConfig(priority_policy=PriorityPolicy.OVERFLOW), 1),
        (ConsumerConfig(priority_timeout=5), 1),
        (ConsumerConfig(ack_policy=AckPolicy.FLOW_CONTROL), 4),
    ],
)
def test_consumerLevel(config: ConsumerConfig, level: int) -> None:
    """A consumer needs the level of the newest thing that it uses."""
    assert consumerLevel(config) == level


def test_stored() -> None:
    """Metadata with API levels from a client are replaced by those of the server."""
    sent = {"a": "b", "_nats.ver": "x", "_nats.level": "9", "_nats.req.level": "9"}
    stored = withLevel(StreamConfig(allow_atomic=True, metadata=sent))
    assert stored.metadata == {"a": "b", "_nats.req.level": "2"}
    assert withServer(stored).metadata == {
        "a": "b",
        "_nats.req.level": "2",
        "_nats.level": "5",
        "_nats.ver": NATS_VERSION,
    }


def test_paused() -> None:
    """A pause raises the API level of a consumer to 1. Ending the pause restores the level."""
    config = withLevel(ConsumerConfig(priority_timeout=-1))
    stored = ConsumerConfig(metadata=config.metadata)
    assert withPause(stored, None).metadata == config.metadata
    paused = withPause(withLevel(ConsumerConfig()), 5)
    assert (paused.pause_until, paused.metadata) == (5, {"_nats.req.level": "1"})
    assert withPause(paused, None) == withLevel(ConsumerConfig())


def test_compared() -> None:
    """Two configurations are compared without the level that a server has added."""
    config = ConsumerConfig(metadata={"a": "b", "_nats.req.level": "3"})
    assert withLevelOf(config, ConsumerConfig()).metadata == {"a": "b"}
    stored = ConsumerConfig(metadata={"_nats.req.level": "0"})
    assert withLevelOf(config, stored).metadata == {"a": "b", "_nats.req.level": "0"}


@pytest.mark.parametrize(
    ("level", "isSupported"),
    [("", True), ("0", True), ("5", True), ("+5", True), ("-1", True), ("6", False), ("x", False)],
)
def test_requiredLevel(level: str, isSupported: bool) -> None:
    """A request that requires a higher API level, or not a number, is refused."""
    assert isSupportedLevel(level) is isSupported
