"""
Generated histories of a JetStream account: requests, messages, pulls and acknowledgements.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

__all__ = ["PIN", "STREAMS", "Ack", "Ask", "Operation", "Publish", "Pull", "nextOperation", "setUp"]

#: What stands for the pin id that a server has given last.
PIN = "<pin>"

STREAMS = ("S1", "S2")
_CONSUMERS = ("a", "b", "c")
_TAILS = ("x", "y", "x.z")
_SECOND = 1_000_000_000

_STREAM: dict[str, tuple[Any, ...]] = {
    "description": ("", "d"),
    "retention": ("limits", "limits", "limits", "interest", "workqueue"),
    "storage": ("file", "file", "memory"),
    "max_msgs": (-1, 3, 8),
    "max_bytes": (-1, 200, 600),
    "max_msgs_per_subject": (-1, 1, 2),
    "max_msg_size": (-1, 30),
    "max_age": (0, 3600 * _SECOND),
    "discard": ("old", "new"),
    "discard_new_per_subject": (False, True),
    "first_seq": (0, 7),
    "allow_rollup_hdrs": (True, True, False),
    "deny_delete": (False, True),
    "deny_purge": (False, True),
    "compression": ("none", "s2"),
    "max_consumers": (-1, 2),
    "consumer_limits": ({}, {"max_ack_pending": 4}, {"inactive_threshold": 900 * _SECOND}),
    "subject_transform": ({"src": "S1.x", "dest": "S1.t"}, {"src": "S1.*", "dest": "t.$1"}),
    "sealed": (False, False, False, True),
    "metadata": ({"k": "v"}, {}),
}

_CONSUMER: dict[str, tuple[Any, ...]] = {
    "durable_name": ("",),
    "deliver_policy": ("all", "all", "last", "new", "last_per_subject", "by_start_sequence"),
    "opt_start_seq": (1, 3, 20),
    "ack_policy": ("explicit", "explicit", "explicit", "all", "none"),
    "max_deliver": (-1, 1, 2, 3),
    "max_ack_pending": (1, 2, 50),
    "max_waiting": (1, 5),
    "filter_subject": ("S1.x", "S1.*", "S2.x.>", "S2.>", "nothing"),
    "filter_subjects": (["S1.x", "S1.y"], ["S2.x", "S2.x.z"], ["S1.x.>", "S1.y"]),
    "headers_only": (True, False),
    "max_batch": (2, 0),
    "max_expires": (_SECOND, 0),
    "max_bytes": (100, 0),
    "inactive_threshold": (500 * _SECOND,),
    "deliver_subject": ("d.1", "d.2"),
    "deliver_group": ("g",),
    "idle_heartbeat": (60 * _SECOND,),
    "flow_control": (True, False),
    "priority_groups": (["g"],),
    "priority_policy": ("overflow", "pinned_client", "prioritized"),
    "mem_storage": (True, False),
    "backoff": ([30 * _SECOND], [30 * _SECOND, 60 * _SECOND]),
    "pause_until": ("2024-01-01T00:00:00Z", "2044-01-01T00:00:00Z"),
    "sample_freq": ("100",),
    "replay_policy": ("instant", "original"),
    "metadata": ({"k": "v"},),
    "description": ("d",),
}

_PULL: dict[str, tuple[Any, ...]] = {
    "batch": (0, 1, 2, 3, 10),
    "max_bytes": (0, 1, 90, 200, 5000),
    "no_wait": (True, True, False),
    "group": ("g", "h"),
    "id": (PIN, "zork"),
    "priority": (0, 3, 9, 10, -1),
    "min_pending": (1, 4, -1),
    "min_ack_pending": (1, 2),
    "idle_heartbeat": (40_000_000, 10 * _SECOND),
    "zork": (1,),
}

_HEADERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Nats-Msg-Id", ("1", "2", "3", "4", "")),
    ("Nats-Expected-Stream", ("S1", "S2")),
    ("Nats-Expected-Last-Sequence", ("0", "1", "2", "3", "4", "5", "zork")),
    ("Nats-Expected-Last-Subject-Sequence", ("0", "1", "2", "3", "4")),
    ("Nats-Expected-Last-Subject-Sequence-Subject", ("S1.x", "S1.>", "S2.*")),
    ("Nats-Expected-Last-Msg-Id", ("1", "2")),
    ("Nats-Rollup", ("sub", "all", "SUB", "zork")),
    ("Other", ("value", "")),
)

_ACKS = (
    *(b"", b"+ACK", b"+ACK", b"+ACK", b"-NAK", b"-NAK", b"+WPI", b"+TERM", b"+TERM why"),
    *(b'-NAK {"delay": 60000000000}', b"-NAK zork", b"+NXT", b'+NXT {"batch":2,"no_wait":true}'),
    *(b"+NXT 3", b"zork"),
)


@dataclass(frozen=True)
class Ask:
    """
    A request below C{$JS.API}.

    @ivar isReading: whether the request changes nothing and may be repeated.
    @ivar isSilent: whether there may be no answer.
    """

    subject: str
    body: bytes = b""
    isReading: bool = False
    isSilent: bool = False


@dataclass(frozen=True)
class Publish:
    """
    A message to a stream.
    """

    subject: str
    headers: bytes = b""
    payload: bytes = b""


@dataclass(frozen=True)
class Pull:
    """
    A request for messages of a consumer.

    @ivar batch: the maximum number of messages.
    @ivar meanwhile: the messages that are published while it waits.
    """

    subject: str
    body: bytes
    batch: int
    meanwhile: tuple[Publish, ...] = ()


@dataclass(frozen=True)
class Ack:
    """
    @ivar place: the index of the delivered message, counted from the newest one.
    """

    place: int
    payload: bytes


Operation = Ask | Publish | Pull | Ack


def _some(random: Random, pool: dict[str, tuple[Any, ...]], counts: list[int]) -> dict[str, Any]:
    keys = random.sample(list(pool), random.choice(counts))
    return {key: random.choice(pool[key]) for key in keys}


def _streamConfig(random: Random, name: str) -> dict[str, Any]:
    config = {"name": name, "subjects": [f"{name}.>"], **_some(random, _STREAM, [0, 1, 2, 3, 4])}
    if random.random() < 0.3:  # What consumers do not want and what they settle goes.
        config["retention"] = random.choice(("interest", "interest", "workqueue"))
    return config


def setUp(random: Random) -> list[Operation]:
    """
    @return: the first operations of a history.
    """
    made: list[Operation] = [
        Ask(f"STREAM.CREATE.{name}", json.dumps(_streamConfig(random, name)).encode())
        for name in STREAMS
    ]
    made += [_publish(random, random.choice(STREAMS)) for _ in range(random.choice([0, 3, 8]))]
    made += [_createConsumer(random, random.choice(STREAMS)) for _ in range(2)]
    return made


def _publish(random: Random, stream: str) -> Publish:
    headers = b""
    if random.random() < 0.4:
        picked = random.sample(_HEADERS, random.choice([1, 1, 1, 2, 3]))
        lines = "".join(f"{name}: {random.choice(values)}\r\n" for name, values in picked)
        headers = f"NATS/1.0\r\n{lines}\r\n".encode()
    payload = b"p" * random.choice([0, 1, 5, 20, 40])
    return Publish(f"{stream}.{random.choice(_TAILS)}", headers, payload)


def _createConsumer(random: Random, stream: str) -> Ask:
    name = random.choice(_CONSUMERS)
    config = {"name": name, "ack_policy": "explicit", "inactive_threshold": 800 * _SECOND}
    config.update(_some(random, _CONSUMER, [0, 1, 1, 2, 3]))
    if "durable_name" in config:
        config["durable_name"] = name
    if "opt_start_seq" in config:
        config["deliver_policy"] = "by_start_sequence"
    if "priority_groups" in config:
        config.setdefault("priority_policy", random.choice(_CONSUMER["priority_policy"]))
    if "priority_policy" in config:
        config.setdefault("priority_groups", ["g"])
    if "filter_subject" in config:
        config.pop("filter_subjects", None)
    if {"idle_heartbeat", "flow_control", "deliver_group"} & set(config):
        config.setdefault("deliver_subject", "d.1")
    body = json.dumps({"stream_name": stream, "config": config}).encode()
    tail = f".{config['filter_subject']}" if config.get("filter_subject") else ""
    return Ask(f"CONSUMER.CREATE.{stream}.{name}{tail}", body)


def _pull(random: Random, stream: str) -> Pull:
    name = random.choice(_CONSUMERS)
    options = _some(random, _PULL, [0, 1, 2, 2, 3])
    chance = random.random()
    if chance < 0.05:
        body, batch = random.choice([b"", b"2", b"zork", b"{}", b"-1", b'{"batch":"x"}']), 2
        if body != b"2":
            batch = 1
        return Pull(f"CONSUMER.MSG.NEXT.{stream}.{name}", body, batch)
    if not options.get("no_wait") or random.random() < 0.2:
        options["expires"] = random.choice([120_000_000, 120_000_000, 120_000_000, 2 * _SECOND])
        if options["expires"] > _SECOND:
            options["no_wait"] = True
    body = json.dumps(options).encode()
    meanwhile: tuple[Publish, ...] = ()
    if "expires" in options and not options.get("no_wait") and random.random() < 0.5:
        meanwhile = tuple(_publish(random, stream) for _ in range(random.choice([1, 3])))
    batch = max(options.get("batch", 1), 1)
    return Pull(f"CONSUMER.MSG.NEXT.{stream}.{name}", body, batch, meanwhile)


def _streamRequest(random: Random, stream: str) -> Ask:
    chance = random.random()
    if chance < 0.3:
        options = random.choice(
            [
                b"",
                b'{"deleted_details":true}',
                b'{"subjects_filter":">"}',
                b'{"subjects_filter":"S1.*","offset":1}',
                b'{"subjects_filter":">","deleted_details":true}',
            ]
        )
        return Ask(f"STREAM.INFO.{stream}", options, isReading=True)
    if chance < 0.5:
        wanted = random.choice(
            [
                {"seq": random.randrange(12)},
                {"last_by_subj": f"{stream}.{random.choice(('x', 'y', '>', '*'))}"},
                {"next_by_subj": f"{stream}.{random.choice(('x', 'y', '>'))}", "seq": 3},
                {"next_by_subj": f"{stream}.*"},
                {"next_by_subj": f"{stream}.>", "seq": random.randrange(12)},
                {"start_time": "2024-01-01T00:00:00Z"},
                {"start_time": "2044-01-01T00:00:00Z"},
                {"seq": 2, "no_hdr": True},
                {"seq": 2, "last_by_subj": "S1.x"},
                {},
            ]
        )
        return Ask(f"STREAM.MSG.GET.{stream}", json.dumps(wanted).encode(), isReading=True)
    if chance < 0.65:
        wanted = {"seq": random.randrange(12), "no_erase": random.random() < 0.5}
        return Ask(f"STREAM.MSG.DELETE.{stream}", json.dumps(wanted).encode())
    if chance < 0.75:
        wanted = _some(
            random,
            {
                "filter": (f"{stream}.x", f"{stream}.>", "zz", "S1..x", ">"),
                "seq": (0, 3, 6, 30),
                "keep": (0, 1, 3),
            },
            [0, 1, 1, 2, 2],
        )
        return Ask(f"STREAM.PURGE.{stream}", json.dumps(wanted).encode() if wanted else b"")
    if chance < 0.88:
        operation = random.choice(["UPDATE", "UPDATE", "CREATE"])
        body = json.dumps(_streamConfig(random, stream)).encode()
        return Ask(f"STREAM.{operation}.{stream}", body)
    if chance < 0.92:
        return Ask(f"STREAM.DELETE.{stream}")
    if chance < 0.96:
        return Ask("STREAM.NAMES", random.choice([b"", b'{"subject":"S1.x"}']), isReading=True)
    return Ask("STREAM.LIST", random.choice([b"", b'{"offset":1}']), isReading=True)


def _consumerRequest(random: Random, stream: str) -> Ask:
    name, chance = random.choice(_CONSUMERS), random.random()
    place = f"{stream}.{name}"
    if chance < 0.35:
        return Ask(f"CONSUMER.INFO.{place}", isReading=True)
    if chance < 0.65:
        return _createConsumer(random, stream)
    if chance < 0.75:
        return Ask(f"CONSUMER.DELETE.{place}")
    if chance < 0.83:
        until = random.choice(["2024-01-01T00:00:00Z", "2044-01-01T00:00:00Z"])
        body = random.choice([b"", b"{}", json.dumps({"pause_until": until}).encode()])
        return Ask(f"CONSUMER.PAUSE.{place}", body)
    if chance < 0.9:
        body = random.choice([b"", b'{"seq":1}', b'{"seq":3}', b'{"seq":40}', b"{}"])
        return Ask(f"CONSUMER.RESET.{place}", body, isSilent=True)
    if chance < 0.93:
        return Ask(f"CONSUMER.UNPIN.{place}", random.choice([b'{"group":"g"}', b"{}", b""]))
    if chance < 0.96:
        return Ask(f"CONSUMER.NAMES.{stream}", isReading=True)
    return Ask(f"CONSUMER.LIST.{stream}", isReading=True)


def nextOperation(random: Random, delivered: int) -> Operation:
    """
    @param delivered: the number of messages that could be acknowledged.
    @return: the next operation.
    """
    stream, chance = random.choice(("S1", "S1", "S1", "S2")), random.random()
    if chance < 0.28:
        return _publish(random, stream)
    if chance < 0.48:
        return _pull(random, stream)
    if chance < 0.68 and delivered:
        place = random.choice([1, 1, 2, 3, 5])
        return Ack(min(place, delivered), random.choice(_ACKS))
    if chance < 0.84:
        return _consumerRequest(random, stream)
    return _streamRequest(random, stream)
