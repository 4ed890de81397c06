"""
Requests between the brokers that share a JetStream, as messages of the system account.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Raw
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.accounts.requests import ProgramOrigin
from natsbroker.errors import NoResponders, RequestTimeout
from natsbroker.interfaces import IMessageBus, ISubscriber, ISubscription
from natsbroker.jetstream.model.members import peerId
from natsbroker.runtime.deadlines import Deadline, Deadlines
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.jetstream")

PATIENCE = 4.0
"""Seconds to wait for an answer, as long as nats-server waits for the members of its cluster."""

PeerHandler = Callable[[dict[str, Any], bytes], Coroutine[Any, Any, dict[str, Any]]]


def _subject(name: str) -> bytes:
    return b"$NB.JS.PEER." + peerId(name).encode()


@implementer(ISubscriber)
class BrokerRequests:
    """
    Asks other brokers, and answers them.

    @ivar handlers: answer requests, by name, given the other fields and the body.
    """

    def __init__(self, bus: IMessageBus, name: str, deadlines: Deadlines) -> None:
        """@param name: this broker's name. @param bus: that of the system account."""
        self._bus = bus
        self._origin = ProgramOrigin(bus.account)
        self._name = name
        self._deadlines = deadlines
        self._subscription: ISubscription | None = None
        self._number = 0
        self._waiting: dict[int, tuple[Deferred[dict[str, Any]], Deadline]] = {}
        self.handlers: dict[str, PeerHandler] = {}

    def open(self) -> None:
        self._subscription = self._bus.serve(_subject(self._name), self)

    def close(self) -> None:
        """Receive nothing more. Requests that wait for an answer fail."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.cancel()
        for number in list(self._waiting):
            self._end(number).errback(NoResponders(b"closed"))

    def ask(
        self, peer: str, request: str, body: bytes = b"", patience: float = PATIENCE, **fields: Any
    ) -> Deferred[dict[str, Any]]:
        """
        Ask another broker by its name within C{patience} seconds; fails with L{NoResponders} or
        L{RequestTimeout}.

        @param request: the name of the handler.
        """
        self._number += 1
        number = self._number
        fields = {**fields, "do": request, "from": self._name, "id": number}
        answer: Deferred[dict[str, Any]] = Deferred(lambda _: self._gaveUp(number))
        timer = self._deadlines.after(patience, lambda: self._late(number, patience))
        self._waiting[number] = answer, timer
        if not self._send(peer, fields, body) and number in self._waiting:
            self._end(number)
            return fail(NoResponders(_subject(peer)))
        return answer

    def _send(self, peer: str, fields: dict[str, Any], body: bytes) -> int:
        payload = json.dumps(fields, default=_parsed).encode() + b"\n" + body
        return self._bus.publish(Message(_subject(peer), payload, origin=self._origin))

    def _end(self, number: int) -> Deferred[dict[str, Any]]:
        answer, timer = self._waiting.pop(number)
        timer.cancel()
        return answer

    def _gaveUp(self, number: int) -> None:
        self._end(number)

    def _late(self, number: int, patience: float) -> None:
        self._end(number).errback(RequestTimeout(patience))

    def deliver(self, message: Message, tag: Any) -> None:
        head, _, body = message.payload.partition(b"\n")
        try:
            fields = json.loads(head)
        except (ValueError, RecursionError):
            return  # Another program of the system account sent it.
        if "re" in fields:
            if fields["re"] in self._waiting:
                self._end(fields["re"]).callback(fields["answer"])
            return
        handler = self.handlers.get(fields["do"])
        if handler is not None:
            answering = Deferred.fromCoroutine(handler(fields, body))
            answering.addCallback(self._answered, fields).addErrback(self._failed)

    def _answered(self, answer: dict[str, Any], fields: dict[str, Any]) -> None:
        if self._subscription is not None:
            self._send(fields["from"], {"re": fields["id"], "answer": answer}, b"")

    def _failed(self, failure: Failure) -> None:
        _log.failure("A request of another broker failed", failure)

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""


def _parsed(document: Raw) -> Any:
    """The JSON of an encoded document, such as a stream's configuration."""
    return json.loads(bytes(document))
