"""
An account with JetStream on a store on disk, in one process and without sockets.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.interfaces import ISubscriber
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.accountcore import JetStreamServer
from natsbroker.jetstream.api.consumers import CONSUMER_ROUTES
from natsbroker.jetstream.api.dispatcher import ApiDispatcher
from natsbroker.jetstream.api.streams import STREAM_ROUTES
from natsbroker.jetstream.streams.recovery import recover
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.storage.memory import MemoryStore
from natsbroker.testing.pumped import PumpedReactor
from natsbroker.wire.headers import Headers
from natsbroker.wire.values import Kind, Message
from tests.jetstream.support import BEGINNING, SECOND
from tests.storage.history import Recorder
from tests.support import Router

T = TypeVar("T")


@implementer(ISubscriber)
class Replies:
    """A subscriber that calls the function that waits for a reply."""

    def __init__(self) -> None:
        self.waiting: dict[bytes, Callable[[Message], object]] = {}

    def deliver(self, message: Message, tag: Any) -> None:
        callback = self.waiting.get(message.subject)
        if callback is not None:
            callback(message)

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""


class Place:
    """
    @ivar watcher: what the store reports.
    @ivar jetstream: the account.
    """

    def __init__(self, directory: Path, age: float = 0) -> None:
        """
        @param age: how many seconds after the beginning this is.
        """
        self.reactor = PumpedReactor()
        self._age = age
        self.files: Any = self.reactor.wait(openLMDB(self.reactor, directory))
        self.watcher = Recorder()
        self.files.watch(self.watcher)
        self._turn = hot.FlushBatch(lambda call: self.reactor.callLater(0, call))
        account = Account("A", Router(), AccountDependencies(self._turn, Random(1)))
        self.bus = account.busFor(Kind.CLIENT)
        reactor = self.reactor
        memory = MemoryStore(reactor, now=self.now)
        deadlines = Deadlines(reactor, reactor.seconds)
        server = JetStreamServer(self.files, memory, deadlines, self.now, "S1")
        self.jetstream = JetStreamAccount("A", account.busFor(Kind.INTERNAL), server)
        self._api = ApiDispatcher(self.jetstream, (*STREAM_ROUTES, *CONSUMER_ROUTES))
        self._api.start()
        self._replies = Replies()
        self._number = 0
        self.bus.subscribe(b"_INBOX.>", self._replies)
        self.result(ensureDeferred(recover(self.jetstream)))

    def now(self) -> int:
        """
        The wall clock, in nanoseconds.
        """
        return BEGINNING + round((self._age + self.reactor.seconds()) * SECOND)

    def until(self, isDone: Callable[[], bool]) -> None:
        """Run the calls that are due until a step is done."""
        for _ in range(5):
            self.reactor.advance(0)
        while not isDone():
            self.reactor.turn()
            self.reactor.advance(0)

    def result(self, deferred: Deferred[T]) -> T:
        """
        Wait for something that may take several turns of the reactor.
        """
        self.until(lambda: deferred.called)
        return self.reactor.wait(deferred)

    def settle(self) -> None:
        """Run the calls that are due now."""
        for _ in range(5):
            self.reactor.advance(0)
            self.reactor.catchUp()

    def pass_(self, seconds: float) -> None:
        """
        Let time pass.
        """
        self.settle()
        self.reactor.advance(seconds)
        self.settle()

    def send(
        self,
        subject: bytes,
        payload: bytes,
        answered: Callable[[Message], object],
        headers: dict[str, str] | None = None,
    ) -> bytes:
        """
        Publish with a reply subject.

        @return: the reply subject.
        """
        self._number += 1
        reply = b"_INBOX.%d" % self._number
        self._replies.waiting[reply] = answered
        block = Headers(headers).block() if headers else b""
        self.bus.publish(Message(subject, block + payload, reply, len(block), self))
        return reply

    def ask(self, subject: str, **fields: Any) -> dict[str, Any]:
        """
        The answer to a request of the API.
        """
        answers: list[bytes] = []
        body = json.dumps(fields).encode() if fields else b""
        self.send(
            f"$JS.API.{subject}".encode(), body, lambda message: answers.append(message.payload)
        )
        self.until(lambda: bool(answers))
        answer: dict[str, Any] = json.loads(answers[0])
        return answer

    def fetch(
        self,
        stream: str,
        consumer: str,
        batch: int,
        received: Callable[[Message], object] = lambda message: None,
    ) -> list[Message]:
        """
        Fetch the messages that a pull consumer has now.

        @param received: called with each when it comes.
        """
        messages: list[Message] = []
        ended: list[Message] = []

        def arrived(message: Message) -> None:
            if not message.reply:
                ended.append(message)
                return
            received(message)
            messages.append(message)

        body = json.dumps({"batch": batch, "no_wait": True}).encode()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}".encode()
        self.send(subject, body, arrived)
        self.until(lambda: bool(ended) or len(messages) >= batch)
        return messages

    def close(self) -> None:
        """
        Stop as a broker does.
        """
        self._api.stop()
        for stream in self.jetstream.streams.values():
            for consumer in stream.consumers.values():
                consumer.stop("shutdown")
            stream.close()
        self.settle()
        self.reactor.wait(self.files.close())
