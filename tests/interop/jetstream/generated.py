"""
Generated requests to create and change streams and consumers: valid ones, limits, and malformed
ones. They omit cases that nats-server decides by accident. In memory it distinguishes an empty list
from a missing one, but not on disk. It accepts subjects with spaces as destinations of
republishing. Names of 256 bytes fail in the file system. They also omit the byte 0x7f, which
subjects of natsbroker cannot have.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

__all__ = [
    "CONSUMERS",
    "FORMS",
    "NAMES",
    "QUEUES",
    "STREAMS",
    "broken",
    "consumerBody",
    "streamBody",
]

_SECOND = 1_000_000_000
_LONG = "v" * 131_072
NAMES = ("S1", "S2", "S3", "S4")
CONSUMERS = ("c1", "c2", "c3", "c4", "p\\q")
FORMS = ("EPHEMERAL", "NAMED", "NAMED", "NAMED", "DURABLE")

_BOOLS = (True, False)
_SUBJECTS = (
    *("a", "a.b", "a.*", "a.>", "b", "b.*", "*.b", "c.d.e", "c.>", ">", "*", "x.*.y", "foo*"),
    *("$JS.API.>", "$JS.>", "$JS.EVENT.>", "$JS.EVENT.a", "$SYS.>", "$SYS.ACCOUNT.x", "$SYS.a"),
    *("$JSC.a", "$NRG.a", "", "a..b", " a", "a b", ".a", "a.", "a.>.b", "$KV.x.>", "S1", "S2"),
)
_TRANSFORMS: tuple[Any, ...] = (
    *(
        {"src": "a", "dest": destination}
        for destination in ("b", "z.{{wildcard(1)}}", "z.{{partition(5)}}")
    ),
    *(
        {"src": "a.*", "dest": f"z.{function}"}
        for function in (
            *("{{wildcard(1)}}", "$1", "$2", "{{wildcard(3)}}", "{{zork(1)}}", "{{left(1,2)}}"),
            *("{{partition(3,1)}}", "{{split(1,-)}}", "{{wildcard()}}", "{{wildcard(1,2)}}"),
            *("{{wildcard(x)}}", ".a", ">", "*", "{{random(5)}}", "{{splitFromLeft(1,2)}}"),
            *("{{sliceFromRight(1)}}", ">.b"),
        )
    ),
    *({"src": "a.>", "dest": destination} for destination in ("z.>", ">")),
    *({"src": "a..b", "dest": "c"}, {"src": "", "dest": "q.>"}, {"dest": "q.>"}, {"src": "a.*"}),
    *({"src": ">", "dest": "m.>"}, {"src": "b.*.*", "dest": "r.$2.$1"}, None, 5, "x", {}),
)

_SOURCE: dict[str, tuple[Any, ...]] = {
    "opt_start_seq": (0, 5, -1),
    "opt_start_time": ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.12+02:00", "zork", None),
    "filter_subject": _SUBJECTS,
    "subject_transforms": tuple([transform] for transform in _TRANSFORMS),
    "external": (
        *({"api": "$JS.hub.API", "deliver": "d"}, {"api": "$JS.API"}, {"api": "$JS.*.API"}),
        *({"api": "$JS.>"}, {"api": "JS.x", "deliver": "a.*"}, {}, {"api": 'a"b..c'}),
    ),
    "consumer": (
        # Valid ones are refused here, as the documentation says.
        *({"name": "C"}, {}),
        *({"name": "a.b", "deliver_subject": "d"}, {"name": "D", "deliver_subject": "d.*"}),
    ),
}

STREAMS: dict[str, tuple[Any, ...]] = {
    "description": ("", "hello <&> é \u2028", "x" * 4096, "x" * 4097, "é" * 2049),
    "retention": ("limits", "interest", "workqueue", "zork", ""),
    "max_consumers": (0, -1, -2, 5),
    "max_msgs": (0, -1, -5, 10, "x", 1.5, 2**63),
    "max_bytes": (0, -1, -7, 1000, 10**6),
    "max_age": (0, -1, 1, 99_999_999, 10**8, 60 * _SECOND, 119 * _SECOND, 3600 * _SECOND),
    "max_msgs_per_subject": (0, -1, -9, 1, 64),
    "max_msg_size": (0, -1, -9, 1, 1000),
    "discard": ("old", "new", "NEW", "zork"),
    "storage": ("file", "memory", "memory", "zork", ""),
    "num_replicas": (0, 1, 1, 1, 3, 5, 6, -1),
    "no_ack": _BOOLS,
    "duplicate_window": (0, -1, 1, 10**8, 99_999_999, 60 * _SECOND, 120 * _SECOND, 3600 * _SECOND),
    "placement": ({}, {"cluster": "c"}, {"tags": ["a"]}, {"preferred": "x"}, None),
    "compression": ("none", "s2", "s2", "zork", ""),
    "first_seq": (0, 1, 50),
    "subject_transform": _TRANSFORMS,
    "republish": (*_TRANSFORMS, {"src": ">", "dest": ">"}, {"dest": "rp.>", "headers_only": True}),
    "allow_direct": _BOOLS,
    "mirror_direct": (True, False, False),
    "discard_new_per_subject": _BOOLS,
    "sealed": (True, False, False),
    "deny_delete": _BOOLS,
    "deny_purge": _BOOLS,
    "allow_rollup_hdrs": _BOOLS,
    "consumer_limits": (
        *({}, {"max_ack_pending": 5}),
        *({"inactive_threshold": _SECOND}, {"max_ack_pending": -1}),
    ),
    "allow_msg_ttl": _BOOLS,
    "subject_delete_marker_ttl": (0, -1, 1, _SECOND - 1, _SECOND, 5 * _SECOND),
    "allow_msg_counter": _BOOLS,
    "allow_atomic": _BOOLS,
    "allow_msg_schedules": _BOOLS,
    "persist_mode": ("", "default", "async", "zork"),
    "allow_batched": _BOOLS,
    "metadata": ({}, {"a": "b", "A": "<&>"}, {"_nats.ver": "x"}, {"k": _LONG}, None),
    "pedantic": (True, True, False),
    "zork": (1,),
}

QUEUES: tuple[dict[str, Any], ...] = (
    {"name": "L", "subjects": ["q.>"]},
    {"name": "I", "subjects": ["i.>"], "retention": "interest"},
    {"name": "W", "subjects": ["w.>"], "retention": "workqueue"},
    {
        "name": "X",
        "subjects": ["x.>"],
        "max_consumers": 3,
        "consumer_limits": {"max_ack_pending": 300, "inactive_threshold": 500 * _SECOND},
    },
)
_FILTERS = ("q.a", "q.*", "q.>", "q.b", "q.*.x", "q.b.*", "w.a", "w.*", "zz", ">", "", "a..b", "q.")

_CONSUMER: dict[str, tuple[Any, ...]] = {
    "durable_name": ("c1", "c2", "c3", "a.b", "n" * 256, "x y", ""),
    "name": ("c1", "c2", "c3", "a.b", "n" * 255, "x y", "", "p/q"),
    "description": ("", "d", "x" * 4097),
    "deliver_policy": (
        *("all", "all", "last", "new", "by_start_sequence", "by_start_time"),
        *("last_per_subject", "undefined", "zork"),
    ),
    "opt_start_seq": (0, 1, 5),
    "opt_start_time": ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5+02:00", None, "zork"),
    "ack_policy": ("none", "all", "explicit", "explicit", "flow_control", "zork"),
    "ack_wait": (0, -1, _SECOND, 5 * _SECOND),
    "max_deliver": (0, -1, -2, 1, 3),
    "backoff": ([_SECOND], [_SECOND, 2 * _SECOND], [_SECOND] * 4, [-1]),
    "filter_subject": _FILTERS,
    "filter_subjects": (["q.a"], ["q.*.x", "q.b.*"], ["q.*", "q.b"], [""], ["q.a", "q."]),
    "replay_policy": ("instant", "original", "zork"),
    "rate_limit_bps": (0, 1000),
    "sample_freq": ("50", "50%", "zork", "-5", "", "%", "+5", "9" * 23, "5%%"),
    "max_waiting": (0, -1, 5, 512),
    "max_ack_pending": (0, -1, -5, 10, 301, 5000),
    "flow_control": _BOOLS,
    "headers_only": _BOOLS,
    "max_batch": (0, -1, 5, 60),
    "max_expires": (0, -1, 1, _SECOND),
    "max_bytes": (0, -1, 100),
    "deliver_subject": ("d.x", "d.y", "d.*", "q.a", "q.b.c", "d..x", ""),
    "deliver_group": ("", "g"),
    "idle_heartbeat": (0, -1, 1, _SECOND, 5 * _SECOND),
    "inactive_threshold": (0, -1, 100 * _SECOND, 1000 * _SECOND),
    "num_replicas": (0, 1, 1, 2, -1),
    "mem_storage": _BOOLS,
    "direct": (True, False, False, False),
    "sourcing": (True, False, False, False, False),
    "metadata": ({}, {"b": "1", "a": "<"}, {"_nats.ver": "x"}, {"k": _LONG}),
    "pause_until": ("2024-01-01T00:00:00Z", "2034-01-01T00:00:00.5+02:00", None),
    "priority_groups": (["g"], ["g", "h"], [""], ["a b"], ["x" * 17]),
    "priority_policy": ("none", "overflow", "pinned_client", "prioritized", "zork"),
    "priority_timeout": (0, -1, 5 * _SECOND),
    "zork": (5,),
}


def _picked(random: Random, pool: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """
    @return: a few keys with a value each.
    """
    keys = random.sample(list(pool), random.choice([0, 1, 1, 2, 2, 3, 4, 6]))
    return {key: random.choice(pool[key]) for key in keys}


def _source(random: Random) -> dict[str, Any]:
    source = {"name": random.choice(["S1", "S2", "S3", "S4", "O", "", "a.b", "x y"])}
    keys = random.sample(list(_SOURCE), random.choice([0, 0, 0, 1, 1, 2]))
    return {**source, **{key: random.choice(_SOURCE[key]) for key in keys}}


def streamBody(random: Random, name: str, present: dict[str, Any] | None) -> bytes:
    """
    @param present: the present configuration that the request changes, or C{None}.
    @return: a request to create or update a stream.
    """
    body: dict[str, Any] = {"name": name if random.random() < 0.97 else random.choice(["", "a.b"])}
    body.update(_picked(random, STREAMS))
    chance = random.random()
    if chance < 0.08:
        body["mirror"] = _source(random)
    elif chance < 0.16:
        body["sources"] = [_source(random) for _ in range(random.choice([1, 1, 2, 3]))]
    elif chance < 0.4:
        body["subjects"] = random.sample(_SUBJECTS, random.choice([1, 1, 2, 3]))
    elif chance < 0.8:
        body["subjects"] = [f"{name}.{random.randrange(9)}"]
    return json.dumps({**(present or {}), **body}).encode()


def consumerBody(
    random: Random, stream: str, form: str, name: str, filter_: str, present: dict[str, Any] | None
) -> bytes:
    """
    @param present: the present configuration that the request changes, or C{None}.
    @return: a request to create or update a consumer.
    """
    config = {**(present or {}), **_picked(random, _CONSUMER)}
    if random.random() < (0.8 if form == "DURABLE" else 0.3 if form == "NAMED" else 0):
        config["durable_name"] = name
    if filter_ and random.random() < 0.8:
        config["filter_subject"] = filter_
    body: dict[str, Any] = {"stream_name": stream, "config": config}
    if random.random() < 0.3:
        body["action"] = random.choice(["", "create", "update", "zork"])
    if random.random() < 0.15:
        body["pedantic"] = True
    return json.dumps(body).encode()


def broken(random: Random, body: bytes) -> bytes:
    """
    @return: the text with a few bytes added, removed or changed.
    """
    text = bytearray(body)
    for _ in range(random.randrange(1, 3)):
        place = random.randrange(len(text) + 1)
        byte = random.choice(b"{}[]\",:0123.eE+-\\untf \xc3\xe9\xff\x00\x1f`x'")
        text[place : place + random.randrange(2)] = bytes([byte])[: random.randrange(2)]
    return bytes(text)
