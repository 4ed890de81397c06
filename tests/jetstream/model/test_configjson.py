"""
Both configurations as JSON.
"""

from __future__ import annotations

from dataclasses import fields

from natsbroker.jetstream.model.configjson import (
    CONSUMER_CONFIG,
    STREAM_CONFIG,
    consumerConfigJSON,
    streamConfigJSON,
)
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig, DeliverPolicy
from natsbroker.jetstream.model.streamconfig import PersistMode, StreamConfig
from natsbroker.wire.gojson import encode
from natsbroker.wire.shapes import decode
from natsbroker.wire.timestamps import Timestamp

_ALWAYS = (
    "name retention max_consumers max_msgs max_bytes max_age max_msgs_per_subject discard storage"
    " num_replicas compression allow_direct mirror_direct sealed deny_delete deny_purge"
    " allow_rollup_hdrs consumer_limits allow_msg_ttl"
)


def test_keysAreTheFields() -> None:
    """The tables have every field in its order."""
    for table, class_ in ((STREAM_CONFIG, StreamConfig), (CONSUMER_CONFIG, ConsumerConfig)):
        assert [each.name for each in table.fields] == [each.name for each in fields(class_)]


def test_keysThatAreAlwaysThere() -> None:
    """An empty configuration has the keys that nats-server always sends."""
    assert " ".join(streamConfigJSON(StreamConfig())) == _ALWAYS
    assert consumerConfigJSON(ConsumerConfig()) == {
        "deliver_policy": "all",
        "ack_policy": "none",
        "replay_policy": "instant",
        "num_replicas": 0,
    }


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
    config = decode(body, STREAM_CONFIG)
    assert config.persist_mode is PersistMode.ASYNC
    assert encode(streamConfigJSON(config)) == body


def test_consumerThereAndBack() -> None:
    """A consumer's times and lists are read back as they were."""
    config = ConsumerConfig(backoff=(1, 2), pause_until=Timestamp(5), filter_subjects=("a",))
    assert decode(encode(consumerConfigJSON(config)), CONSUMER_CONFIG) == config


def test_undefinedDeliverPolicy() -> None:
    """The word with which old servers stored no policy means everything."""
    config = decode(b'{"deliver_policy":"undefined"}', CONSUMER_CONFIG)
    assert config.deliver_policy is DeliverPolicy.ALL
