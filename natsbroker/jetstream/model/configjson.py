"""
The JSON of both configurations: their keys, types and order, and which keys are always there.
"""

from __future__ import annotations

from typing import Any, Final

from natsbroker.jetstream.model.consumerconfig import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    PriorityPolicy,
    ReplayPolicy,
)
from natsbroker.jetstream.model.streamconfig import (
    ConsumerLimits,
    ConsumerSource,
    DiscardPolicy,
    External,
    PersistMode,
    Placement,
    Republish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamSource,
    SubjectTransformConfig,
)
from natsbroker.wire.shapes import (
    BOOL,
    DURATION,
    INT,
    INT32,
    INT64,
    STRING,
    TIME,
    UINT64,
    Choice,
    Field,
    ListOf,
    MapOf,
    Optional,
    StringChoice,
    Struct,
)

SUBJECT_TRANSFORM: Final = Struct(
    "SubjectTransformConfig",
    SubjectTransformConfig,
    [Field("src", STRING, always=True), Field("dest", STRING, always=True)],
)

EXTERNAL: Final = Struct(
    "ExternalStream",
    External,
    [Field("api", STRING, always=True), Field("deliver", STRING, always=True)],
)

_SOURCE: Final = Struct(
    "StreamSource",
    StreamSource,
    [
        Field("name", STRING, always=True),
        Field("opt_start_seq", UINT64),
        Field("opt_start_time", Optional(TIME)),
        Field("filter_subject", STRING),
        Field("subject_transforms", ListOf(SUBJECT_TRANSFORM)),
        Field("external", Optional(EXTERNAL)),
        Field(
            "consumer",
            Optional(
                Struct(
                    "StreamConsumerSource",
                    ConsumerSource,
                    [Field("name", STRING), Field("deliver_subject", STRING)],
                )
            ),
        ),
    ],
)

PLACEMENT: Final = Struct(
    "Placement",
    Placement,
    [Field("cluster", STRING), Field("tags", ListOf(STRING)), Field("preferred", STRING)],
)

_REPUBLISH: Final = Struct(
    "RePublish",
    Republish,
    [Field("src", STRING), Field("dest", STRING, always=True), Field("headers_only", BOOL)],
)

_CONSUMER_LIMITS: Final = Struct(
    "StreamConsumerLimits",
    ConsumerLimits,
    [Field("inactive_threshold", DURATION), Field("max_ack_pending", INT)],
)

_COMPRESSION: Final = StringChoice(
    StoreCompression, refusal=lambda text: "unknown compression algorithm"
)

_PRIORITY_POLICY: Final = Choice(
    PriorityPolicy,
    refusal=lambda text: f"unknown priority policy: {text.decode('utf-8', 'replace')}",
)

STREAM_CONFIG: Final = Struct(
    "StreamConfig",
    StreamConfig,
    [
        Field("name", STRING, always=True),
        Field("description", STRING),
        Field("subjects", ListOf(STRING)),
        Field("retention", Choice(RetentionPolicy), always=True),
        Field("max_consumers", INT, always=True),
        Field("max_msgs", INT64, always=True),
        Field("max_bytes", INT64, always=True),
        Field("max_age", DURATION, always=True),
        Field("max_msgs_per_subject", INT64, always=True),
        Field("max_msg_size", INT32),
        Field("discard", Choice(DiscardPolicy, fold=True), always=True),
        Field("storage", Choice(StorageType), always=True),
        Field("num_replicas", INT, always=True),
        Field("no_ack", BOOL),
        Field("duplicate_window", DURATION),
        Field("placement", Optional(PLACEMENT)),
        Field("mirror", Optional(_SOURCE)),
        Field("sources", ListOf(Optional(_SOURCE))),
        Field("compression", _COMPRESSION, always=True),
        Field("first_seq", UINT64),
        Field("subject_transform", Optional(SUBJECT_TRANSFORM)),
        Field("republish", Optional(_REPUBLISH)),
        Field("allow_direct", BOOL, always=True),
        Field("mirror_direct", BOOL, always=True),
        Field("discard_new_per_subject", BOOL),
        Field("sealed", BOOL, always=True),
        Field("deny_delete", BOOL, always=True),
        Field("deny_purge", BOOL, always=True),
        Field("allow_rollup_hdrs", BOOL, always=True),
        Field("consumer_limits", _CONSUMER_LIMITS, always=True),
        Field("allow_msg_ttl", BOOL, always=True),
        Field("subject_delete_marker_ttl", DURATION),
        Field("allow_msg_counter", BOOL),
        Field("allow_atomic", BOOL),
        Field("allow_msg_schedules", BOOL),
        Field("persist_mode", Choice(PersistMode, aliases={b'""': PersistMode.DEFAULT})),
        Field("allow_batched", BOOL),
        Field("metadata", MapOf(STRING)),
    ],
)

CONSUMER_CONFIG: Final = Struct(
    "ConsumerConfig",
    ConsumerConfig,
    [
        Field("durable_name", STRING),
        Field("name", STRING),
        Field("description", STRING),
        Field(
            "deliver_policy",
            Choice(DeliverPolicy, aliases={b'"undefined"': DeliverPolicy.ALL}),
            always=True,
        ),
        Field("opt_start_seq", UINT64),
        Field("opt_start_time", Optional(TIME)),
        Field("ack_policy", Choice(AckPolicy), always=True),
        Field("ack_wait", DURATION),
        Field("max_deliver", INT),
        Field("backoff", ListOf(DURATION)),
        Field("filter_subject", STRING),
        Field("filter_subjects", ListOf(STRING)),
        Field("replay_policy", Choice(ReplayPolicy), always=True),
        Field("rate_limit_bps", UINT64),
        Field("sample_freq", STRING),
        Field("max_waiting", INT),
        Field("max_ack_pending", INT),
        Field("flow_control", BOOL),
        Field("headers_only", BOOL),
        Field("max_batch", INT),
        Field("max_expires", DURATION),
        Field("max_bytes", INT),
        Field("deliver_subject", STRING),
        Field("deliver_group", STRING),
        Field("idle_heartbeat", DURATION),
        Field("inactive_threshold", DURATION),
        Field("num_replicas", INT, always=True),
        Field("mem_storage", BOOL),
        Field("direct", BOOL),
        Field("sourcing", BOOL),
        Field("metadata", MapOf(STRING)),
        Field("pause_until", Optional(TIME)),
        Field("priority_groups", ListOf(STRING)),
        Field("priority_policy", _PRIORITY_POLICY),
        Field("priority_timeout", DURATION),
    ],
)


def streamConfigJSON(config: StreamConfig) -> dict[str, Any]:
    """
    @return: the configuration in the order of the wire, as answers and the stored copy have it.
    """
    return STREAM_CONFIG.toJSON(config)


def consumerConfigJSON(config: ConsumerConfig) -> dict[str, Any]:
    """
    @return: the configuration in the order of the wire, as answers and the stored copy have it.
    """
    return CONSUMER_CONFIG.toJSON(config)
