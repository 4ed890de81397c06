"""
Documents in JSON: their text, and what is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from natsbroker.jetstream.model.bodies import ConsumerRequest, MessageGetRequest
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig, DeliverPolicy
from natsbroker.jetstream.model.documents import (
    Always,
    Int32,
    Int64,
    JsonError,
    LongList,
    UInt64,
    documentOf,
    encodable,
    parsed,
    read,
    reading,
    showing,
    toJSON,
)
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.requests import parseStream
from natsbroker.jetstream.model.streamconfig import (
    DiscardPolicy,
    PersistMode,
    StreamConfig,
    StreamSource,
    SubjectTransformConfig,
)
from natsbroker.steps import PIECE, finish
from natsbroker.wire.timestamps import Timestamp
from tests.jetstream.model.cases import cases

_ALWAYS = (
    "name retention max_consumers max_msgs max_bytes max_age max_msgs_per_subject discard storage"
    " num_replicas compression allow_direct mirror_direct sealed deny_delete deny_purge"
    " allow_rollup_hdrs consumer_limits allow_msg_ttl"
)


@dataclass(frozen=True)
class Sample:
    """A document with a key of each kind of number."""

    small: Int32 = 0
    whole: Int64 = 0
    unsigned: UInt64 = 0
    always: Always[Int64] = 0
    map: Mapping[str, str] = field(default_factory=dict)


@pytest.mark.parametrize(("body", "isRefused"), cases("json"))
def test_recorded(body: str, isRefused: bool) -> None:
    """Exactly those bodies are refused that nats-server cannot parse."""
    try:
        finish(parseStream(body.encode("latin-1")))
    except JetStreamError as error:
        assert (isRefused, error.err_code) == (True, 10025)
    else:
        assert not isRefused


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("small", -(1 << 31)),
        ("small", (1 << 31) - 1),
        ("whole", -(1 << 63)),
        ("whole", (1 << 63) - 1),
        ("unsigned", 0),
        ("unsigned", (1 << 64) - 1),
    ],
)
def test_bounds(key: str, value: int) -> None:
    """A number may have the smallest and the largest value of its type, and none beyond."""
    assert getattr(read(b'{"%b":%d}' % (key.encode(), value), Sample), key) == value
    beyond = value - 1 if value <= 0 else value + 1
    with pytest.raises(JsonError, match=rf"at `\$\.{key}`"):
        read(b'{"%b":%d}' % (key.encode(), beyond), Sample)


@pytest.mark.parametrize("text", [b"1.0", b"1e2", b'"1"', b"true", b"[]", b"9" * 5000, b"1e999"])
def test_noNumber(text: bytes) -> None:
    """A number with a fraction or exponent is refused, and so is a value of another type."""
    with pytest.raises(JsonError):
        read(b'{"whole":%b}' % text, Sample)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "Input data was truncated"),
        (b'{"name":"S"', "Input data was truncated"),
        (b"[]", "Expected an object - at `$`"),
        (b"{}x", "trailing characters"),
        (b'{"name":"a\x01"}', "invalid character (byte 10)"),
        (b'{"name":NaN}', "invalid character (byte 8)"),
        (b'{"zork":1}', 'json: unknown field "zork"'),
        (b'{"sources":[{},{"zork":1}]}', 'json: unknown field "zork"'),
        (b'{"mirror":{"external":{"api":1}}}', "got `int` - at `$.mirror.external.api`"),
        (b'{"subjects":["a",5]}', "got `int` - at `$.subjects[1]`"),
        (b'{"sources":[[[]]]}', "got `array` - at `$.sources[0]`"),
        (b'{"storage":"disk"}', "Invalid enum value 'disk' - at `$.storage`"),
        (b'{"mirror":{"opt_start_time":5}}', "at `$.mirror.opt_start_time`"),
        (b'{"mirror":{"opt_start_time":"today"}}', "'today' is not a time"),
    ],
)
def test_invalidDocuments(text: bytes, problem: str) -> None:
    """The error has the reason and the place."""
    with pytest.raises(JsonError) as caught:
        read(text, StreamConfig)
    assert problem in str(caught.value)


@pytest.mark.parametrize("value", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 900 + b"]" * 900])
def test_deep(value: bytes) -> None:
    """JSON that is nested too deeply is refused."""
    text = b'{"sources":%b}' % value
    with pytest.raises(JsonError):
        read(text, StreamConfig)


def test_loosely() -> None:
    """In the mode that is not strict, unknown keys are ignored, also in nested documents."""
    text = b'{"zork":[1],"sources":[{"name":"X","zork":{}}]}'
    assert read(text, StreamConfig, isStrict=False).sources == (StreamSource("X"),)


def test_keysIgnoreCase() -> None:
    """Keys match in any case. If a key is repeated, its last value counts."""
    assert read(b'{"Name":"a","NAME":"b"}', StreamConfig).name == "b"
    assert read(b'{"name":"a","name":"b"}', StreamConfig).name == "b"


def test_null() -> None:
    """A key with null counts as missing. A null in a list counts as an empty document."""
    text = (
        b'{"max_msgs":null,"subjects":null,"mirror":null,"consumer_limits":null,"sources":[null]}'
    )
    assert read(text, StreamConfig) == StreamConfig(sources=(StreamSource(),))
    assert read(b"null", StreamConfig) == StreamConfig()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\ud83dx\ude00"', "\ufffdx\ufffd"),
        (rb'"\\ud83d\u00e9\/\b\f\""', '\\ud83dé/\b\f"'),
        (b'"a\xff\xfeb"', "a\ufffd\ufffdb"),
        (b'"\xe2\x82"', "\ufffd\ufffd"),
    ],
)
def test_strings(text: bytes, value: str) -> None:
    """Escapes are replaced. Invalid bytes become U+FFFD one by one."""
    assert parsed(text) == value


def test_keysThatAreAlwaysThere() -> None:
    """An empty configuration has the keys that nats-server always sends."""
    assert " ".join(toJSON(StreamConfig())) == _ALWAYS
    assert toJSON(ConsumerConfig()) == {
        "deliver_policy": "all",
        "ack_policy": "none",
        "replay_policy": "instant",
        "num_replicas": 0,
    }


def test_longMap() -> None:
    """A long map is parsed, verified and used in a step each."""
    metadata = {f"k{number}": "v" for number in range(2 * PIECE)}
    steps = reading(encode({"name": "S", "metadata": metadata}), StreamConfig)
    assert sum(1 for _ in steps) == 2
    assert finish(reading(encode({"metadata": metadata}), StreamConfig)).metadata == metadata


def test_showing() -> None:
    """A document of any length is shown in steps as at once."""
    sources = [
        {"name": f"S{number}", "subject_transforms": [{"src": "a", "dest": "b"}]}
        for number in range(3 * PIECE)
    ]
    text = encode({"name": "M", "sources": sources, "metadata": {"b": "1", "a": "2"}})
    config = read(text, StreamConfig)
    steps = showing(config)
    assert sum(1 for _ in steps) > 3
    assert finish(showing(config)) == toJSON(config)
    until = read(b'{"pause_until":"2030-01-01T00:00:00Z"}', ConsumerConfig)
    assert finish(showing(until)) == toJSON(until)


def test_toJSON() -> None:
    """Keys stand in nats-server's order, maps are sorted, and the time 1970 is written."""
    sample = Sample(unsigned=1, map={"b": "1", "a": "2"})
    shown = toJSON(sample)
    assert list(shown.items()) == [
        ("unsigned", 1),
        ("always", 0),
        ("map", {"a": "2", "b": "1"}),
    ]
    assert list(shown["map"]) == ["a", "b"]
    consumer = ConsumerConfig(pause_until=Timestamp(0), backoff=(1, 2))
    assert toJSON(consumer)["pause_until"] == "1970-01-01T00:00:00Z"
    assert toJSON(ConsumerRequest("S", consumer))["config"]["backoff"] == [1, 2]


def test_thereAndBack() -> None:
    """A stored configuration is read back as it was."""
    body = (
        b'{"name":"S","subjects":["x.\\u003e"],"retention":"limits","max_consumers":0,"max_msgs":0,'
        b'"max_bytes":0,"max_age":0,"max_msgs_per_subject":0,"discard":"old","storage":"file",'
        b'"num_replicas":0,"sources":[{"name":"X","opt_start_time":"2024-01-01T00:00:00.12+02:00",'
        b'"subject_transforms":[{"src":"","dest":"a"}],"external":{"api":"","deliver":"d"}}],'
        b'"compression":"s2","allow_direct":false,"mirror_direct":false,"sealed":false,'
        b'"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,'
        b'"consumer_limits":{"max_ack_pending":5},"allow_msg_ttl":false,"persist_mode":"async",'
        b'"metadata":{"a":"1","b":"2"}}'
    )
    config = read(body, StreamConfig)
    assert config.persist_mode is PersistMode.ASYNC
    assert encode(toJSON(config)) == body
    assert finish(documentOf(toJSON(config), StreamConfig)) == config


def test_timesThereAndBack() -> None:
    """A consumer's times and lists are read back as they were."""
    config = ConsumerConfig(backoff=(1, 2), pause_until=Timestamp(5), filter_subjects=("a",))
    assert read(encode(toJSON(config)), ConsumerConfig) == config


@pytest.mark.parametrize(
    ("text", "kind", "key", "value"),
    [
        (b'{"deliver_policy":"undefined"}', ConsumerConfig, "deliver_policy", DeliverPolicy.ALL),
        (b'{"discard":"NeW"}', StreamConfig, "discard", DiscardPolicy.NEW),
        (b'{"persist_mode":""}', StreamConfig, "persist_mode", PersistMode.DEFAULT),
        (b'{"multi_last":["a"]}', MessageGetRequest, "multi_last", ("a",)),
    ],
)
def test_otherSpellings(text: bytes, kind: type, key: str, value: Any) -> None:
    """Values may be spelt in all ways that nats-server accepts."""
    assert getattr(read(text, kind), key) == value


LONG = (
    StreamConfig(subjects=tuple(f"a.{number}<" for number in range(PIECE + 1))),
    StreamConfig(sources=tuple(StreamSource(f"S{number}") for number in range(2 * PIECE + 1))),
    StreamConfig(
        mirror=StreamSource(
            "S", subject_transforms=(SubjectTransformConfig("a", "b"),) * (PIECE + 1)
        )
    ),
)


@pytest.mark.parametrize("config", LONG)
def test_longLists(config: StreamConfig) -> None:
    """A long list is read in steps, and keeps its JSON text for the encoder."""
    text = encode(toJSON(config))
    longer = text[:-1] + b',"metadata":{"k":"v"}}'
    steps = documentOf(parsed(text), StreamConfig)
    assert sum(1 for _ in steps) >= 2
    made, other = read(text, StreamConfig), read(longer, StreamConfig)
    assert made == config and replace(made, metadata={"k": "v"}) == other
    assert toJSON(made) == toJSON(config)
    shown = encodable(made)
    assert encode(shown) == text
    assert (shown == encodable(config), shown == encodable(read(text, StreamConfig))) == (
        False,
        True,
    )


def test_longListsAreCompared() -> None:
    """Long lists are compared by their JSON text, so that one time in two notations differs."""
    lists: list[Any] = []
    for time in ("2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00"):
        sources = [{"name": "S", "opt_start_time": time}] * (PIECE + 1)
        body = json.dumps({"sources": sources}).encode()
        lists += [read(body, StreamConfig).sources, read(body, StreamConfig).sources]
    assert all(type(made) is LongList for made in lists)
    first, same, other, _ = lists
    assert (first == same, first != same) == (True, False)
    assert (first == other, first != other) == (False, True)
    assert hash(lists[0]) == hash(lists[1])
    assert lists[0] == tuple(lists[0]) and lists[0] != ()
