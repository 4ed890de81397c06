"""
Services on a bus that answer requests with JSON.

A request gets one answer, at once or later, and none if it names no place for it; a
service that fails is logged and answers nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.interfaces import IMessageBus, ISubscriber, ISubscription
from natsbroker.wire.values import Message

__all__ = ["Answer", "Describe", "RequestResponder"]

_log = Logger()

#: Answers a request: bytes, something for JSON, C{None} for no answer, or a Deferred of these.
Answer = Callable[[Message], Any]

#: What answers say about the server that gives them.
Describe = Callable[[], Mapping[str, Any]]


@implementer(ISubscriber)
class RequestResponder:
    """
    The services of one account's bus.
    """

    def __init__(self, bus: IMessageBus) -> None:
        self._bus = bus
        self._subscriptions: list[ISubscription] = []

    def on(self, pattern: bytes, answer: Answer, queue: bytes = b"") -> None:
        """
        Have requests answered.

        @param pattern: the subjects that they come to.
        @param queue: the group of those of whom one answers.
        """
        self._subscriptions.append(self._bus.subscribe(pattern, self, answer, queue))

    def close(self) -> None:
        """
        Answer no more.
        """
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            subscription.cancel()

    def say(self, subject: bytes, body: bytes) -> None:
        """
        Publish something.
        """
        self._bus.publish(Message(subject, body))

    def ask(self, subject: bytes, body: bytes, reply: bytes) -> int:
        """
        Publish a question that these services shall not answer, if it is one for them.

        @return: how many others it reached.
        """
        return self._bus.publish(Message(subject, body, reply, origin=self))

    def deliver(self, message: Message, tag: Any) -> None:
        answering = maybeDeferred(tag, message)
        answering.addCallback(self._answered, message.reply)
        answering.addErrback(lambda why: _log.failure("A service of the broker failed", why))

    def subscriptionEnded(self, tag: Any) -> None:
        """
        See L{ISubscriber.subscriptionEnded}.
        """

    def _answered(self, answer: Any, reply: bytes) -> None:
        if answer is None or not reply:
            return
        if not isinstance(answer, bytes):
            answer = json.dumps(answer, separators=(",", ":")).encode("utf-8")
        self.say(reply, answer)
