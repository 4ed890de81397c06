"""
Requests to the JetStream API of a server, and the model's answers to the same.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.consumerupdates import (
    ConsumerChecker,
    CreateForm,
    addressedConsumer,
)
from natsbroker.jetstream.model.documents import toJSON
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.metadata import withServer
from natsbroker.jetstream.model.requests import parseConsumer, parseStream
from natsbroker.jetstream.model.streamchecks import StreamChecker
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.model.streamupdates import createdStream, updatedStream
from natsbroker.steps import finish
from tests.interop.plainclients import Client
from tests.interop.servers import Server

__all__ = ["STORAGE", "Asker", "Model", "answerOf", "storageOf", "wordless"]

STORAGE = 'jetstream { store_dir: "$DIR/js", max_mem: 1GB, max_file: 10GB }'

_DYNAMIC = ("_nats.ver", "_nats.level")
_RANDOM = "RANDOM"
_BOUND = ("d", "d.x")


def storageOf(users: Iterable[str]) -> str:
    """
    @return: a configuration in which each user has an account with JetStream.
    """
    accounts = (
        f"{user} {{ jetstream: enabled, users: [{{user: {user}, password: {user}}}] }}"
        for user in users
    )
    return f"{STORAGE}\naccounts {{ {', '.join(accounts)} }}"


_INVALID_JSON = 10025


def wordless(error: dict[str, Any]) -> dict[str, Any]:
    """
    @return: an error without its text if it is about malformed JSON, for which each server has its
        own text.
    """
    if error.get("err_code") != _INVALID_JSON:
        return error
    return {**error, "description": error["description"].partition(":")[0]}


def answerOf(answer: dict[str, Any]) -> Any:
    """
    @return: the relevant part of an answer: the error, or the configuration in its order.
    """
    if "error" in answer:
        error = wordless(answer["error"])
        return [error["code"], error["err_code"], error["description"]]
    return answer.get("config", answer)


class Asker:
    """
    A client that sends requests one by one.
    """

    def __init__(self, server: Server) -> None:
        self._client = Client(server)
        self._inbox = self._client.subscribe(b"_INBOX.x.*")
        self._replies = (b"_INBOX.x.%d" % number for number in itertools.count())
        for subject in _BOUND:
            self._client.subscribe(subject.encode())

    def ask(self, subject: str, body: bytes = b"") -> dict[str, Any]:
        """
        @return: the answer to a request below C{$JS.API}.
        """
        self._client.publish(f"$JS.API.{subject}".encode(), body, next(self._replies))
        answer = json.loads(self._client.take(self._inbox, 1)[0])
        assert isinstance(answer, dict)
        return answer


@dataclass
class Model:
    """
    An account that consists of configurations only.

    @ivar consumers: the consumers by stream and name.
    """

    streams: dict[str, StreamConfig] = field(default_factory=dict)
    consumers: dict[str, dict[str, ConsumerConfig]] = field(default_factory=dict)

    def stream(self, operation: str, name: str, body: bytes) -> Any:
        """
        @return: the answer to a request to create or update a stream, as of L{answerOf}.
        """
        checker = StreamChecker(self.streams)

        def work() -> dict[str, Any]:
            request = finish(parseStream(body))
            if operation == "CREATE":
                config = finish(createdStream(request, name, checker))
            else:
                config = finish(updatedStream(request, name, checker, {}))
            self.streams[name] = config
            return toJSON(withServer(config))

        return _answered(work)

    def consumer(
        self, form: CreateForm, stream: str, body: bytes, name: str = "", filter_: str = ""
    ) -> Any:
        """
        @return: the answer to a request to create a consumer, as of L{answerOf}.
        """
        consumers = self.consumers.setdefault(stream, {})
        checker = ConsumerChecker(self.streams[stream], consumers, _BOUND.__contains__)

        def work() -> dict[str, Any]:
            request = addressedConsumer(finish(parseConsumer(body)), form, stream, name, filter_)
            return toJSON(withServer(finish(checker.admitted(request, lambda: _RANDOM))))

        return _answered(work)

    def learnConsumer(self, stream: str, answer: dict[str, Any]) -> None:
        """Copy a consumer with its random name from the server's answer."""
        config = finish(parseConsumer(json.dumps({"config": answer["config"]}).encode())).config
        kept = {key: value for key, value in config.metadata.items() if key not in _DYNAMIC}
        self.consumers[stream][answer["name"]] = replace(config, metadata=kept)


def _answered(work: Callable[[], dict[str, Any]]) -> Any:
    try:
        return work()
    except JetStreamError as error:
        return answerOf({"error": error.toJSON()})
