"""
Requests to create and change consumers get nats-server's answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from natsbroker.jetstream.model.bodies import ConsumerRequest
from natsbroker.jetstream.model.consumerconfig import AckPolicy, ConsumerConfig
from natsbroker.jetstream.model.consumerupdates import (
    ConsumerChecker,
    CreateForm,
    addressedConsumer,
)
from natsbroker.jetstream.model.documents import toJSON
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.limits import JetStreamLimits
from natsbroker.jetstream.model.metadata import withServer
from natsbroker.jetstream.model.requests import parseConsumer, parseStream
from natsbroker.jetstream.model.streamchecks import StreamChecker
from natsbroker.jetstream.model.streamconfig import RetentionPolicy, StreamConfig
from natsbroker.jetstream.model.streamupdates import createdStream
from natsbroker.steps import finish
from tests.jetstream.model.cases import answerOf, cases, expanded

_CASES = cases("consumer")


def _stream(request: dict[str, Any]) -> StreamConfig:
    parsed = finish(parseStream(json.dumps(request).encode()))
    return finish(createdStream(parsed, request["name"], StreamChecker({})))


_STREAMS = {stream["name"]: _stream(stream) for stream in _CASES["streams"]}


def _addressed(tail: str, body: dict[str, Any]) -> ConsumerRequest:
    request = finish(parseConsumer(json.dumps(expanded(body)).encode()))
    isDurable = tail.startswith("DURABLE.")
    stream, _, rest = tail.removeprefix("DURABLE.").removeprefix("CREATE.").partition(".")
    name, _, filter_ = rest.partition(".")
    form = CreateForm.DURABLE if isDurable else CreateForm.NAMED if name else CreateForm.EPHEMERAL
    return addressedConsumer(request, form, stream, expanded(name), filter_)


def _checker(stream: str, **consumers: ConsumerConfig) -> ConsumerChecker:
    return ConsumerChecker(_STREAMS[stream], consumers, lambda subject: subject == "d")


def _answer(
    tail: str, body: dict[str, Any], consumers: Mapping[str, ConsumerConfig]
) -> tuple[ConsumerConfig | None, Any]:
    """
    @return: the configuration that is stored, and the recorded form of the answer.
    """
    try:
        request = _addressed(tail, body)
        stream = tail.removeprefix("DURABLE.").split(".")[1]
        config = finish(_checker(stream, **consumers).admitted(request, lambda: "random"))
    except JetStreamError as error:
        return None, answerOf({"error": error.toJSON()})
    return config, answerOf({"config": toJSON(withServer(config))})


@pytest.mark.parametrize(("tail", "body", "answer"), _CASES["creates"])
def test_create(tail: str, body: dict[str, Any], answer: Any) -> None:
    """A new consumer gets the defaults of nats-server, or is refused with its text."""
    assert json.dumps(_answer(tail, body, {})[1]) == json.dumps(answer)


@pytest.mark.parametrize(("old", "new", "answer"), _CASES["updates"])
def test_update(old: dict[str, Any], new: dict[str, Any], answer: Any) -> None:
    """A changed consumer is stored as nats-server stores it, or refused with its text."""
    stored, _ = _answer("CREATE.L.c", old, {})
    assert stored is not None
    assert json.dumps(_answer("CREATE.L.c", new, {"c": stored})[1]) == json.dumps(answer)


@pytest.mark.parametrize("form", [CreateForm.NAMED, CreateForm.DURABLE])
def test_bytes(form: CreateForm) -> None:
    """A consumer name that is not UTF-8 is refused, because no JSON could name the consumer."""
    body = {"stream_name": "L", "config": {"durable_name": "c\udcff"}}
    request = finish(parseConsumer(json.dumps(body).encode()))
    with pytest.raises(JetStreamError) as caught:
        addressedConsumer(request, form, "L", "c\udcff")
    assert caught.value.err_code == 10017


def _queued(name: str, **config: Any) -> ConsumerConfig:
    body = {"stream_name": "W", "config": {"ack_policy": "explicit", **config}}
    return finish(_checker("W").admitted(_addressed(f"CREATE.W.{name}", body), lambda: "random"))


@pytest.mark.parametrize(
    ("config", "errCode"),
    [
        ({}, 10099),
        ({"filter_subject": "w.a"}, 10100),
        ({"filter_subject": "w.*"}, 10100),
        ({"filter_subject": "w.b"}, 0),
        ({"filter_subjects": ["w.b", "w.a"]}, 10100),
        ({"deliver_subject": "d", "direct": True, "ack_policy": "none"}, 0),
    ],
)
def test_workQueue(config: dict[str, Any], errCode: int) -> None:
    """A consumer of a work queue whose filter overlaps with that of another consumer is refused."""
    body = {"stream_name": "W", "config": {"ack_policy": "explicit", **config}}
    request = _addressed("CREATE.W.c", body)
    checker = _checker("W", a=_queued("a", filter_subject="w.a"))
    if errCode:
        with pytest.raises(JetStreamError) as caught:
            finish(checker.admitted(request, lambda: "random"))
        assert caught.value.err_code == errCode
    else:
        assert finish(checker.admitted(request, lambda: "random")).name == "c"


def test_workQueueUpdate() -> None:
    """
    An update of a consumer of a work queue is refused if the new filter overlaps with that of
    another consumer.
    """
    consumers = {name: _queued(name, filter_subject=f"w.{name}") for name in "ab"}
    assert _answer(
        "CREATE.W.a",
        {"stream_name": "W", "config": toJSON(consumers["a"])},
        consumers,
    )[0]
    body = {"stream_name": "W", "config": {"ack_policy": "explicit", "filter_subject": "w.>"}}
    assert _answer("CREATE.W.a", body, consumers)[1][1] == 10100


def test_workQueueWithUnfilteredConsumer() -> None:
    """A work queue with a consumer of all messages accepts no other consumer."""
    body = {"stream_name": "W", "config": {"ack_policy": "explicit", "filter_subject": "w.x"}}
    assert _answer("CREATE.W.b", body, {"a": _queued("a")})[1][1] == 10100


def test_maxConsumers() -> None:
    """
    The lower max_consumers of stream and account counts. Consumers of mirrors and sources are
    exempt.
    """
    body = {"stream_name": "X", "config": {}}
    request = _addressed("CREATE.X.c", body)
    direct = ConsumerConfig(name="m", direct=True, sourcing=True)
    assert finish(_checker("X", m=direct).admitted(request, lambda: "")).name == "c"
    with pytest.raises(JetStreamError, match="maximum consumers limit reached"):
        finish(_checker("X", a=ConsumerConfig(name="a")).admitted(request, lambda: ""))
    sourcing = _addressed("CREATE.X.c", {**body, "config": {"sourcing": True}})
    assert finish(_checker("X", a=ConsumerConfig(name="a")).admitted(sourcing, str)).sourcing
    unlimited = ConsumerChecker(
        StreamConfig(name="X"),
        {"a": ConsumerConfig(name="a")},
        lambda subject: False,
        JetStreamLimits(max_consumers=1),
    )
    with pytest.raises(JetStreamError, match="replica count exceeds parent"):
        finish(
            unlimited.admitted(
                _addressed("CREATE.X.c", {**body, "config": {"num_replicas": 1}}), str
            )
        )
    with pytest.raises(JetStreamError, match="maximum consumers limit reached"):
        finish(unlimited.admitted(request, str))


def test_consumerOfAMirror() -> None:
    """
    A mirror's request to create its consumer always gets a new consumer, whose name has a random
    end.
    """
    config = {"direct": True, "sourcing": True, "deliver_subject": "m"}
    request = _addressed("CREATE.L.JS", {"stream_name": "L", "config": config})
    assert finish(_checker("L").admitted(request, lambda: "x1")).name == "JS-x1"


def test_consumerOfAMirrorOfInterest() -> None:
    """
    On a stream with interest retention, the consumer of a mirror becomes durable, with flow control
    acknowledgements.
    """
    stream = StreamConfig(name="I", num_replicas=1, retention=RetentionPolicy.INTEREST)
    checker = ConsumerChecker(stream, {}, lambda subject: False)
    config = {"direct": True, "sourcing": True, "deliver_subject": "m", "ack_policy": "none"}
    config |= {"inactive_threshold": 10, "ack_wait": 5, "max_deliver": 1}
    request = _addressed("CREATE.L.JS", {"stream_name": "L", "config": config})
    made = finish(checker.admitted(request, lambda: "x1"))
    assert (made.durable_name, made.direct, made.ack_policy) == (
        "JS",
        False,
        AckPolicy.FLOW_CONTROL,
    )
    assert (made.ack_wait, made.max_deliver, made.inactive_threshold) == (0, -1, 0)
