"""
The keys of a stream's configuration, and the paths of a message on which each is heeded: the checks
of L{natsbroker.jetstream.streams.publish}, the compiled step in front of them, and the copying of a
mirror.

The compiled step and the copying are fast because they do not read the configuration. L{wayOf}
reads it for them, once. A key that is in no row of L{WAYS} counts as one that only the checks heed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import IntEnum

from natsbroker.jetstream.model.streamconfig import DiscardPolicy, RetentionPolicy, StreamConfig


class Way(IntEnum):
    """The shortest path on which a key is heeded. The longer ones heed it too."""

    #: Only the checks handle the key.
    CHECKED = 0

    #: The compiled step handles the key too, or leaves the messages with it to the checks.
    STEP = 1

    #: A mirror applies the key too when it copies, or the key is not about single messages.
    ANY = 2


def isLimited(config: StreamConfig) -> bool:
    """Whether a stream refuses messages for which it has no room."""
    hasLimits = config.max_msgs > 0 or config.max_bytes > 0 or config.discard_new_per_subject
    return config.discard is DiscardPolicy.NEW and hasLimits


WAYS: Mapping[str, Way] = {
    "name": Way.ANY,
    "description": Way.ANY,
    "subjects": Way.ANY,
    "retention": Way.CHECKED,
    "max_consumers": Way.ANY,
    "max_msgs": Way.ANY,
    "max_bytes": Way.ANY,
    "max_age": Way.ANY,
    "max_msgs_per_subject": Way.ANY,
    "max_msg_size": Way.STEP,
    "discard": Way.CHECKED,
    "storage": Way.ANY,
    "num_replicas": Way.ANY,
    "no_ack": Way.ANY,
    "duplicate_window": Way.ANY,
    "placement": Way.ANY,
    "mirror": Way.ANY,
    "sources": Way.ANY,
    "compression": Way.ANY,
    "first_seq": Way.ANY,
    "subject_transform": Way.CHECKED,
    "republish": Way.CHECKED,
    "allow_direct": Way.ANY,
    "mirror_direct": Way.ANY,
    "discard_new_per_subject": Way.ANY,
    "sealed": Way.CHECKED,
    "deny_delete": Way.ANY,
    "deny_purge": Way.ANY,
    "allow_rollup_hdrs": Way.STEP,
    "consumer_limits": Way.ANY,
    "allow_msg_ttl": Way.ANY,
    "subject_delete_marker_ttl": Way.ANY,
    "allow_msg_counter": Way.CHECKED,
    "allow_atomic": Way.ANY,
    "allow_msg_schedules": Way.ANY,
    "persist_mode": Way.ANY,
    "allow_batched": Way.ANY,
    "metadata": Way.ANY,
}

#: The keys that concern messages on another condition than to differ from their default.
#: C{discard} stands for all limits of a stream.
_CONCERNS: Mapping[str, Callable[[StreamConfig], bool]] = {
    "retention": lambda config: config.retention is RetentionPolicy.INTEREST,
    "max_msg_size": lambda config: config.max_msg_size >= 0,
    "discard": isLimited,
}


def wayOf(config: StreamConfig) -> Way:
    """The shortest path on which all keys of a configuration are heeded."""
    shortest = Way.ANY
    for key in fields(config):
        way = WAYS.get(key.name, Way.CHECKED)
        if way < shortest:
            concerns = _CONCERNS.get(key.name)
            if concerns(config) if concerns else getattr(config, key.name) != key.default:
                shortest = way
    return shortest
