"""Workers of one host, and the buses of their accounts, in one process."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, execute, succeed

from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.config.model import JetStream
from natsbroker.jetstream.cluster.workerstreams import WorkerStreams
from natsbroker.jetstream.model.limits import AccountAllowance
from natsbroker.jetstream.service import JetStreamService
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.storage.memory import MemoryStore
from natsbroker.wire.values import Kind
from tests.jetstream.support import Stage, hostOf
from tests.support import Router


class LastingStore(MemoryStore):
    """A store that survives its worker."""

    def close(self) -> Deferred[None]:
        return execute(lambda: None)


def atOnce(call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
    """Call a function that would run in a thread."""
    return execute(call, *arguments)


class WorkerStage(Stage):
    """
    Workers, each of which receives every message.

    @ivar services: the JetStream of the workers that are there, by number.
    @ivar workers: their parts of the streams.
    """

    def __init__(self, folder: Path, count: int = 3, block: JetStream | None = None) -> None:
        super().__init__()
        self.block = block or JetStream()
        self.folder = folder
        self.count = count
        self.system = Account("SYS", Router(), AccountDependencies(self._turn, Random(2)))
        self.stores: dict[int, LastingStore] = {}
        self.services: dict[int, JetStreamService] = {}
        self.workers: dict[int, WorkerStreams] = {}
        for number in range(1, count + 1):
            self.add(number)

    def add(self, number: int) -> None:
        """Start a worker, again if it was there."""
        store: Any = self.stores.setdefault(number, LastingStore(self.clock, now=self.now))

        def join(deadlines: Deadlines) -> WorkerStreams:
            bus = self.system.busFor(Kind.INTERNAL)
            place = self.folder, number, self.count
            self.workers[number] = WorkerStreams(*place, "S1", bus, deadlines, atOnce)
            return self.workers[number]

        host = hostOf(self.account, self.clock, "S1")
        service = JetStreamService(host, self.block, partial(succeed, store), joinWorkers=join)
        self.services[number] = service
        service.change("A", AccountAllowance())
        service.startService()
        self.settle()

    def stop(self, number: int) -> None:
        """Stop a worker."""
        del self.workers[number]
        self.wait(self.services.pop(number).stopService())

    def answers(self, subject: str, body: Any = b"") -> list[Any]:
        """All answers to a request behind C{$JS.API.}."""
        inbox = self.inbox(b"_INBOX.api")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(f"$JS.API.{subject}".encode(), data, b"_INBOX.api")
        for _ in range(5):
            self.settle()
        return [json.loads(payload) for payload in inbox.payloads]

    def ask(self, subject: str, body: Any = b"") -> Any:
        """The one answer to a request."""
        (answer,) = self.answers(subject, body)
        return answer

    def make(self, name: str = "S", **config: Any) -> Any:
        """Create a stream with a subject of its own."""
        config = {"name": name, "subjects": [f"{name.lower()}.>"], **config}
        return self.ask(f"STREAM.CREATE.{name}", config)

    def streamsOf(self) -> dict[int, list[str]]:
        """The streams of each worker."""
        return {
            number: sorted(service.accounts["A"].streams)
            for number, service in self.services.items()
        }

    def end(self) -> None:
        """Stop all."""
        for number in list(self.services):
            self.stop(number)
