"""
The model of JetStream, which computes nats-server's answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from natsbroker.jetstream.model.consumerupdates import CreateForm
from natsbroker.jetstream.model.documents import toJSON
from tests.interop.jetstream.asking import STORAGE, Asker, Model, answerOf
from tests.interop.jetstream.generated import (
    CONSUMERS,
    FORMS,
    NAMES,
    QUEUES,
    broken,
    consumerBody,
    streamBody,
)
from tests.interop.servers import REAL, Server
from tests.jetstream.model.cases import cases, expanded

_CASES = 600


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    """
    A client of a nats-server with JetStream.
    """
    server = Server(REAL, tmp_path, STORAGE).start()
    yield Asker(server)
    server.stop()


def _body(request: Any) -> bytes:
    return json.dumps(expanded(request)).encode()


def _same(one: Any, other: Any) -> bool:
    """Whether two answers are the same, in the same order."""
    return json.dumps(one) == json.dumps(other)


def test_recordedStreams(asker: Asker) -> None:
    """nats-server gives the recorded answers about streams."""
    recorded = cases("stream")
    asker.ask("STREAM.CREATE.O", _body(recorded["origin"]))
    for request, answer in recorded["creates"]:
        assert _same(answerOf(asker.ask("STREAM.CREATE.S", _body(request))), answer), request
        asker.ask("STREAM.DELETE.S")
    for old, new, answer in recorded["updates"]:
        isSealed = old.pop("sealed", False)
        asker.ask("STREAM.CREATE.S", _body(old))
        if isSealed:
            asker.ask("STREAM.UPDATE.S", _body({**old, "sealed": True}))
        assert _same(answerOf(asker.ask("STREAM.UPDATE.S", _body(new))), answer), new
        asker.ask("STREAM.DELETE.S")


def test_recordedConsumers(asker: Asker) -> None:
    """nats-server gives the recorded answers about consumers."""
    recorded = cases("consumer")
    for stream in recorded["streams"]:
        asker.ask(f"STREAM.CREATE.{stream['name']}", _body(stream))
    for tail, request, answer in recorded["creates"]:
        subject = f"CONSUMER.{tail.replace('n*256', 'n' * 256)}"
        reply = asker.ask(subject, _body(request))
        assert _same(answerOf(reply), answer), request
        if "name" in reply:
            asker.ask(f"CONSUMER.DELETE.{request['stream_name']}.{reply['name']}")
    for old, new, answer in recorded["updates"]:
        asker.ask("CONSUMER.CREATE.L.c", _body(old))
        assert _same(answerOf(asker.ask("CONSUMER.CREATE.L.c", _body(new))), answer), new
        asker.ask("CONSUMER.DELETE.L.c")


def test_recordedRefusals(asker: Asker) -> None:
    """nats-server refuses the recorded malformed JSON, and accepts the other bodies."""
    for body, isRefused in cases("json"):
        error = asker.ask("STREAM.CREATE.S", body.encode("latin-1")).get("error", {})
        assert (error.get("err_code") == 10025) is isRefused, body


@pytest.mark.parametrize("seed", [1, 2])
def test_generatedStreams(asker: Asker, seed: int) -> None:
    """
    The model gives nats-server's answers to any sequence of creations, changes and deletions of
    streams.
    """
    random, model, configs = Random(seed), Model(), 0
    for _ in range(_CASES):
        name = random.choice(NAMES)
        if random.random() < 0.06:
            asker.ask(f"STREAM.DELETE.{name}")
            model.streams.pop(name, None)
            continue
        operation = "UPDATE" if random.random() < 0.35 else "CREATE"
        present = model.streams.get(name) if operation == "UPDATE" else None
        body = streamBody(random, name, toJSON(present) if present else None)
        if random.random() < 0.1:
            body = broken(random, body)
        answer = answerOf(asker.ask(f"STREAM.{operation}.{name}", body))
        configs += isinstance(answer, dict)
        assert _same(model.stream(operation, name, body), answer), (operation, body[:2000])
    assert configs > _CASES // 10


@pytest.mark.parametrize("seed", [1, 2])
def test_generatedConsumers(asker: Asker, seed: int) -> None:
    """
    The model gives nats-server's answers to any sequence of creations and changes of consumers.
    """
    random, model, configs = Random(seed), Model(), 0
    for turn in range(_CASES):
        if turn % 100 == 0:
            # Ephemeral consumers end after five seconds, so each round has new streams.
            model = Model()
            for queue in QUEUES:
                asker.ask(f"STREAM.DELETE.{queue['name']}")
                asker.ask(f"STREAM.CREATE.{queue['name']}", _body(queue))
                model.stream("CREATE", queue["name"], _body(queue))
        stream, name = random.choice("LLLIWX"), random.choice(CONSUMERS)
        form = CreateForm[random.choice(FORMS)]
        filter_ = random.choice(["", "", "", "q.a", "q.>"]) if form is CreateForm.NAMED else ""
        present = model.consumers.get(stream, {}).get(name) if random.random() < 0.6 else None
        shown = toJSON(present) if present else None
        body = consumerBody(random, stream, form.name, name, filter_, shown)
        tail = {
            CreateForm.EPHEMERAL: f"CREATE.{stream}",
            CreateForm.NAMED: ".".join(filter(None, ["CREATE", stream, name, filter_])),
            CreateForm.DURABLE: f"DURABLE.CREATE.{stream}.{name}",
        }[form]
        answer = asker.ask(f"CONSUMER.{tail}", body)
        expected = model.consumer(form, stream, body, name, filter_)
        description = answerOf(answer)
        if "config" in answer:
            configs += 1
            model.learnConsumer(stream, answer)
            if isinstance(expected, dict) and "-RANDOM" in expected.get("name", ""):
                description["name"] = expected["name"]
            if answer["name"] not in CONSUMERS or random.random() < 0.1:
                asker.ask(f"CONSUMER.DELETE.{stream}.{answer['name']}")
                del model.consumers[stream][answer["name"]]
        assert _same(expected, description), (tail, body[:2000])
    assert configs > _CASES // 10
