"""
The metadata that the server adds to configurations: the API level that an asset needs, which is
stored, and the level and version of the server, which are added to answers only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from natsbroker import API_LEVEL, NATS_VERSION
from natsbroker.jetstream.model.consumerconfig import AckPolicy, ConsumerConfig, PriorityPolicy
from natsbroker.jetstream.model.streamconfig import PersistMode, StreamConfig
from natsbroker.wire.timestamps import ZERO_TIME, Timestamp

_NEEDED, _LEVEL, _VERSION = "_nats.req.level", "_nats.level", "_nats.ver"

_Config = TypeVar("_Config", StreamConfig, ConsumerConfig)


def streamLevel(config: StreamConfig) -> int:
    """The lowest API level that knows everything the stream uses."""
    if config.allow_batched:
        return 4
    isAsync = config.persist_mode is PersistMode.ASYNC
    if config.allow_msg_counter or config.allow_atomic or config.allow_msg_schedules or isAsync:
        return 2
    return 1 if config.allow_msg_ttl or config.subject_delete_marker_ttl > 0 else 0


def consumerLevel(config: ConsumerConfig) -> int:
    """The lowest API level that knows everything the consumer uses."""
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        return 4
    isPaused = config.pause_until is not None and config.pause_until != ZERO_TIME
    hasGroups = config.priority_policy is not PriorityPolicy.NONE or config.priority_groups
    return 1 if isPaused or hasGroups or config.priority_timeout else 0


def withLevel(config: _Config) -> _Config:
    """The configuration of a request with the level that it needs, as it is stored."""
    level = streamLevel(config) if isinstance(config, StreamConfig) else consumerLevel(config)
    kept = _own(config.metadata)
    kept[_NEEDED] = str(level)
    return replace(config, metadata=kept)


def withPause(config: ConsumerConfig, until: int | None) -> ConsumerConfig:
    """
    The configuration with the end of a pause, in nanoseconds since 1970, as a time in UTC. If this
    changes the configuration, it gets the level that it needs. Otherwise the level stays. It may be
    higher, because the request asked for more.
    """
    paused = replace(config, pause_until=None if until is None else Timestamp(until))
    return paused if until == config.pause_until else withLevel(paused)


def withLevelOf(config: _Config, stored: _Config) -> _Config:
    """The configuration with the level of another, so that the two can be compared."""
    kept = _own(config.metadata)
    kept.pop(_NEEDED, None)
    if _NEEDED in stored.metadata:
        kept[_NEEDED] = stored.metadata[_NEEDED]
    return replace(config, metadata=kept)


def withServer(config: _Config) -> _Config:
    """The configuration with the level and version of the server, as answers show it."""
    added = {_LEVEL: str(API_LEVEL), _VERSION: NATS_VERSION}
    return replace(config, metadata={**config.metadata, **added})


def isSupportedLevel(level: str) -> bool:
    """
    Whether the API level in a request's header is known here. A value that is not a number is
    unknown. A missing header counts as known.
    """
    digits = level[1:] if level[:1] in ("+", "-") else level
    if not level:
        return True
    return digits.isascii() and digits.isdigit() and int(level) <= API_LEVEL


def _own(metadata: Mapping[str, str]) -> dict[str, str]:
    """A copy of the metadata without what servers add to answers."""
    # There may be very many keys: most of the time none has to be left out.
    if _LEVEL not in metadata and _VERSION not in metadata:
        return dict(metadata)
    return {key: value for key, value in metadata.items() if key not in (_LEVEL, _VERSION)}
