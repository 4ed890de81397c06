"""
Configurations of streams, one for each key at least, and what becomes of messages under them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from natsbroker.jetstream.model.streamconfig import (
    ConsumerLimits,
    DiscardPolicy,
    PersistMode,
    Placement,
    Republish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamSource,
    SubjectTransformConfig,
)
from natsbroker.wire.values import Message
from tests.jetstream.support import SECOND, Stage

#: Header lines: right and wrong expectations, what the step leaves, and blocks that are odd.
LINES = st.sampled_from(
    [
        b"Nats-Msg-Id: a\r\n",
        b"Nats-Msg-Id: b\r\n",
        b"Nats-Msg-Id:\t c \r\n",
        b"Nats-Msg-Id:\r\n",
        b"nats-msg-id: a\r\n",
        b"Nats-Expected-Stream: S\r\n",
        b"Nats-Expected-Stream: T\r\n",
        b"Nats-Expected-Last-Sequence: 0\r\n",
        b"Nats-Expected-Last-Sequence: 002\r\n",
        b"Nats-Expected-Last-Sequence: +1\r\n",
        b"Nats-Expected-Last-Sequence: 18446744073709551617\r\n",
        b"Nats-Expected-Last-Subject-Sequence: 0\r\n",
        b"Nats-Expected-Last-Subject-Sequence: 1\r\n",
        b"Nats-Expected-Last-Subject-Sequence: 2\r\n",
        b"Nats-Expected-Last-Subject-Sequence-Subject: s.*\r\n",
        b"Nats-Expected-Last-Msg-Id: a\r\n",
        b"Nats-Expected-Last-Msg-Id: b\r\n",
        b"Nats-Rollup: sub\r\n",
        b"Nats-Rollup: SUB\r\n",
        b"Nats-Rollup: all\r\n",
        b"Nats-TTL: 1m\r\n",
        b"Nats-TTL: 0\r\n",
        b"Nats-TTL: 060\r\n",
        b"Nats-TTL: 91\r\n",
        b"Nats-TTL: never\r\n",
        b"Nats-Incr: +1\r\n",
        b"Nats-Batch-Id: x\r\n",
        b"Nats-No-Colon\r\n",
        b"A: b\r\n",
        b"A: \n\r Nats-Msg-Id: a\r\n",
        b"\r\n",
        b"A: without an end",
    ]
)

_FIRST = st.sampled_from([b"NATS/1.0\r\n"] * 3 + [b"NATS/1.0 503\r\n", b"NATS/1.0 1\n\r\n"])

BLOCKS = st.one_of(
    st.just(b""),
    st.builds(
        lambda first, lines: first + b"".join(lines) + b"\r\n",
        _FIRST,
        st.lists(LINES, max_size=3),
    ),
    st.lists(LINES, max_size=2).map(b"".join),
)

MESSAGES = st.tuples(
    st.sampled_from([b"s.a", b"s.b"]),
    st.sampled_from([b"", b"_INBOX.1", b"_INBOX.2"]),
    BLOCKS,
    st.sampled_from([b"", b"x", b"y" * 30]),
)

#: What several turns bring, with the seconds before each.
TURNS = st.lists(
    st.tuples(st.sampled_from([0, 1, 70]), st.lists(MESSAGES, min_size=1, max_size=6)), max_size=4
)

#: By key, a configuration in which it asks as much of messages as it can.
RESTRICTING: dict[str, dict[str, Any]] = {
    "name": {"name": "T"},
    "description": {"description": "text"},
    "subjects": {"subjects": ("s.a",)},
    "retention": {"retention": RetentionPolicy.INTEREST},
    "max_consumers": {"max_consumers": 1},
    "max_msgs": {"max_msgs": 2, "discard": DiscardPolicy.NEW},
    "max_bytes": {"max_bytes": 90, "discard": DiscardPolicy.NEW},
    "max_age": {"max_age": 50 * SECOND},
    "max_msgs_per_subject": {
        "max_msgs_per_subject": 1,
        "allow_rollup_hdrs": True,
        "allow_msg_ttl": True,
        "subject_delete_marker_ttl": 90 * SECOND,
    },
    "max_msg_size": {"max_msg_size": 35},
    "discard": {"discard": DiscardPolicy.NEW, "max_msgs": 2},
    "storage": {"storage": StorageType.MEMORY},
    "num_replicas": {"num_replicas": 1},
    "no_ack": {"no_ack": True},
    "duplicate_window": {"duplicate_window": 0},
    "placement": {"placement": Placement("C", ("tag",))},
    "mirror": {"mirror": StreamSource("O")},
    "sources": {"sources": (StreamSource("O"),)},
    "compression": {"compression": StoreCompression.S2},
    "first_seq": {"first_seq": 10},
    "subject_transform": {"subject_transform": SubjectTransformConfig("s.*", "t.{{wildcard(1)}}")},
    "republish": {"republish": Republish("s.*", "_INBOX.{{wildcard(1)}}")},
    "allow_direct": {"allow_direct": True},
    "mirror_direct": {"mirror_direct": True},
    "discard_new_per_subject": {
        "discard_new_per_subject": True,
        "max_msgs_per_subject": 1,
        "discard": DiscardPolicy.NEW,
    },
    "sealed": {"sealed": True},
    "deny_delete": {"deny_delete": True},
    "deny_purge": {"deny_purge": True, "allow_rollup_hdrs": True},
    "allow_rollup_hdrs": {"allow_rollup_hdrs": True},
    "consumer_limits": {"consumer_limits": ConsumerLimits(SECOND, 1)},
    "allow_msg_ttl": {"allow_msg_ttl": True},
    "subject_delete_marker_ttl": {
        "subject_delete_marker_ttl": 90 * SECOND,
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": True,
    },
    "allow_msg_counter": {"allow_msg_counter": True},
    "allow_atomic": {"allow_atomic": True},
    "allow_msg_schedules": {"allow_msg_schedules": True, "allow_rollup_hdrs": True},
    "persist_mode": {"persist_mode": PersistMode.ASYNC},
    "allow_batched": {"allow_batched": True},
    "metadata": {"metadata": {"a": "b"}},
}

_ROLLUP = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"

#: What two turns bring. Each key that can ask something of a message asks it of one of these.
PROBE = [
    (0, [(b"s.a", b"_INBOX.1", b"", b"x"), (b"s.b", b"_INBOX.2", b"", b"y" * 40)]),
    (1, [(b"s.a", b"_INBOX.1", b"", b"z"), (b"s.a", b"_INBOX.2", _ROLLUP, b"")]),
]


def history(config: dict[str, Any], turns: list[Any]) -> tuple[Any, ...]:
    """
    Publish messages; return the answers, the stored messages and the remembered ids and subjects.
    """
    stage = Stage()
    stream = stage.stream(**config)
    inbox = stage.inbox(b"_INBOX.*")
    for seconds, messages in turns:
        stage.clock.advance(seconds)
        for subject, reply, block, payload in messages:
            stage.bus.publish(Message(subject, block + payload, reply, len(block)))
        stage.settle()
    matching = stage.wait(stream.read((), 1))
    duplicates, subjects = stream.publisher.duplicates, stream.publisher.subjects
    now = stage.now() + 60 * SECOND
    remembered = [duplicates.find(msgId, stage.now()) for msgId in (b"a", b"b", b"c ")]
    later = [duplicates.find(msgId, now) for msgId in (b"a", b"b", b"c ")]
    answers = [(message.subject, message.payload) for message in inbox.got]
    return answers, matching, remembered, later, duplicates.last, dict(subjects.known)
