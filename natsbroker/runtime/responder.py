"""Answers to requests on a bus, in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import CancelledError, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.interfaces import IMessageBus, ISubscriber, ISubscription
from natsbroker.wire.connect import writeJSON
from natsbroker.wire.values import Message

_log = Logger()

#: Answers a request: bytes, something for JSON, a message to the reply subject, C{None} for no
#: answer, or a Deferred of these.
Answer = Callable[[Message], Any]

#: Gives the description of the answering server.
Describe = Callable[[], Mapping[str, Any]]


@implementer(ISubscriber)
class RequestResponder:
    """Answers requests of one account. An answer that fails is logged."""

    def __init__(self, bus: IMessageBus) -> None:
        self._bus = bus
        self._subscriptions: list[ISubscription] = []

    def on(self, pattern: bytes, answer: Answer, queue: bytes = b"") -> None:
        self._subscriptions.append(self._bus.serve(pattern, self, answer, queue))

    def close(self) -> None:
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            subscription.cancel()

    def say(self, subject: bytes, body: bytes) -> None:
        self._bus.publish(Message(subject, body))

    def ask(self, subject: bytes, body: bytes, reply: bytes) -> int:
        """Publish a request that this responder does not receive."""
        return self._bus.publish(Message(subject, body, reply, origin=self))

    def deliver(self, message: Message, tag: Any) -> None:
        answering = maybeDeferred(tag, message)
        answering.addCallback(self._answered, message.reply)
        answering.addErrback(_failed)

    def subscriptionEnded(self, tag: Any) -> None:
        pass

    def _answered(self, answer: Any, reply: bytes) -> None:
        if answer is None or not reply:
            return
        if isinstance(answer, Message):
            self._bus.publish(answer)
            return
        if not isinstance(answer, bytes):
            answer = writeJSON(answer)
        self.say(reply, answer)


def _failed(why: Failure) -> None:
    """Log a failure, unless nobody waits for the answer any more."""
    if not why.check(CancelledError):
        _log.failure("A service of the broker failed", why)
