"""
Requests to create and change streams get nats-server's answers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.jetstream.model.bodies import StreamRequest
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.documents import toJSON
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.limits import ConfiguredLimits, JetStreamLimits
from natsbroker.jetstream.model.metadata import withServer
from natsbroker.jetstream.model.requests import parseStream
from natsbroker.jetstream.model.streamchecks import StreamChecker
from natsbroker.jetstream.model.streamconfig import (
    ConsumerLimits,
    StorageType,
    StreamConfig,
    StreamSource,
)
from natsbroker.jetstream.model.streamupdates import (
    createdStream,
    isIdenticalStream,
    updatedStream,
)
from natsbroker.steps import finish
from tests.jetstream.model.cases import answerOf, cases, expanded

_CASES = cases("stream")


def _parsed(request: dict[str, Any]) -> StreamRequest:
    return finish(parseStream(json.dumps(expanded(request)).encode()))


def _created(request: dict[str, Any], name: str = "S", **streams: StreamConfig) -> StreamConfig:
    return finish(createdStream(_parsed(request), name, StreamChecker(streams)))


_ORIGIN = _created(_CASES["origin"], "O")


def _shown(config: StreamConfig) -> dict[str, Any]:
    return toJSON(withServer(config))


@pytest.mark.parametrize(("request_", "answer"), _CASES["creates"])
def test_create(request_: dict[str, Any], answer: Any) -> None:
    """A new stream gets the defaults of nats-server, or is refused with its text."""
    try:
        reply = answerOf({"config": _shown(_created(request_, O=_ORIGIN))})
    except JetStreamError as error:
        reply = answerOf({"error": error.toJSON()})
    assert json.dumps(reply) == json.dumps(answer)


@pytest.mark.parametrize(("old", "new", "answer"), _CASES["updates"])
def test_update(old: dict[str, Any], new: dict[str, Any], answer: Any) -> None:
    """A changed stream is stored as nats-server stores it, or refused with its text."""
    isSealed = old.get("sealed", False)
    stored = _created({**old, "sealed": False})
    if isSealed:
        streams = {"O": _ORIGIN, "S": stored}
        stored = finish(updatedStream(_parsed(old), "S", StreamChecker(streams), {}))
    try:
        checker = StreamChecker({"O": _ORIGIN, "S": stored})
        reply = answerOf({"config": _shown(finish(updatedStream(_parsed(new), "S", checker, {})))})
    except JetStreamError as error:
        reply = answerOf({"error": error.toJSON()})
    assert json.dumps(reply) == json.dumps(answer)


def test_createAgain() -> None:
    """
    A second request with the same configuration returns the existing stream. A different one is
    refused.
    """
    stored = _created({"name": "S", "max_msgs": 5})
    assert _created({"name": "S", "max_msgs": 5, "metadata": {}}, S=stored) is stored
    with pytest.raises(JetStreamError, match="name already in use with a different"):
        _created({"name": "S", "max_msgs": 6}, S=stored)


def test_identicalButForTheOffset() -> None:
    """Configurations whose start times differ only in the time zone are not identical."""
    source = {"name": "X", "opt_start_time": "2024-01-01T02:00:00+02:00"}
    one = _created({"name": "S", "sources": [source]})
    other = _created(
        {"name": "S", "sources": [{**source, "opt_start_time": "2024-01-01T00:00:00Z"}]}
    )
    assert one.sources == other.sources
    assert not isIdenticalStream(one, other)


def test_updateOfNothing() -> None:
    """A stream that does not exist cannot be changed."""
    with pytest.raises(JetStreamError, match="stream not found"):
        finish(updatedStream(_parsed({"name": "S"}), "S", StreamChecker({}), {}))


def test_streamsOfAnAccount() -> None:
    """
    The number of streams is limited. Creating an existing stream again does not exceed the limit.
    """
    stored = _created({"name": "S"})
    checker = StreamChecker({"S": stored}, JetStreamLimits(max_streams=1))
    assert finish(createdStream(_parsed({"name": "S"}), "S", checker)) is stored
    with pytest.raises(JetStreamError) as caught:
        finish(createdStream(_parsed({"name": "T"}), "T", checker))
    assert caught.value.err_code == 10027


def test_reservedSpace() -> None:
    """The max_bytes of all streams of one storage may not exceed the account's limit."""
    other = _created({"name": "O", "max_bytes": 600, "storage": "memory"}, "O")
    checker = StreamChecker({"O": other}, JetStreamLimits(max_memory=1000, max_storage=1000))
    request = {"name": "S", "max_bytes": 500}
    assert finish(createdStream(_parsed(request), "S", checker)).max_bytes == 500
    with pytest.raises(JetStreamError, match="insufficient memory resources available"):
        finish(createdStream(_parsed({**request, "storage": "memory"}), "S", checker))
    with pytest.raises(JetStreamError, match="insufficient storage resources available"):
        finish(createdStream(_parsed({**request, "max_bytes": 1001}), "S", checker))


def test_updateCountsGrowth() -> None:
    """
    An update of max_bytes may use what is left of the account's and the server's limits. Shrinking
    is always accepted.
    """
    stored = _created({"name": "S", "max_bytes": 600})
    server = ConfiguredLimits(max_storage=50)
    checker = StreamChecker({"S": stored}, JetStreamLimits(max_storage=700), server)
    for size in (1, 600, 650):
        request = _parsed({"name": "S", "max_bytes": size})
        assert finish(updatedStream(request, "S", checker, {})).max_bytes == size
    for size in (651, 701):
        with pytest.raises(JetStreamError, match="insufficient storage"):
            finish(updatedStream(_parsed({"name": "S", "max_bytes": size}), "S", checker, {}))


def test_maxConsumersOfAnAccount() -> None:
    """A stream with more max_consumers than its account is refused."""
    checker = StreamChecker({}, JetStreamLimits(max_consumers=3))
    with pytest.raises(JetStreamError, match="maximum consumers limit reached"):
        finish(
            createdStream(_parsed({"name": "S", "max_consumers": 4, "max_age": -1}), "S", checker)
        )


def test_limitsViolateConsumers() -> None:
    """
    New consumer limits that an existing consumer exceeds are refused, with the consumers' names in
    order.
    """
    stored = _created({"name": "S"})
    consumers = {
        "b": ConsumerConfig(max_ack_pending=11),
        "a": ConsumerConfig(inactive_threshold=6),
        "c": ConsumerConfig(max_ack_pending=10, inactive_threshold=5),
    }
    limits = {"max_ack_pending": 10, "inactive_threshold": 5}
    request = _parsed({"name": "S", "consumer_limits": limits})
    with pytest.raises(JetStreamError) as caught:
        finish(updatedStream(request, "S", StreamChecker({"S": stored}), consumers))
    assert caught.value.description == "change to limits violates consumers: a, b"
    config = finish(
        updatedStream(request, "S", StreamChecker({"S": stored}), {"c": consumers["c"]})
    )
    assert config.consumer_limits == ConsumerLimits(5, 10)


def test_mirrorOfAnOrigin() -> None:
    """A mirror has mirror_direct set if its origin allows direct get."""
    mirror = _created({"name": "S", "mirror": {"name": "O"}}, O=_ORIGIN)
    assert mirror.mirror == StreamSource("O")
    assert mirror.mirror_direct
    assert mirror.storage is StorageType.FILE
