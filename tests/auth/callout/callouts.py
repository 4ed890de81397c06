"""An auth callout service on a bus, with its surroundings."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from natsbroker.auth.callout.callouts import SUBJECT, Callouts
from natsbroker.auth.callout.xkeys import CurveKeys
from natsbroker.auth.nkeys import Signer
from natsbroker.errors import Unauthorized
from natsbroker.interfaces import IMessageBus, ISubscriber
from natsbroker.wire.headers import Headers
from natsbroker.wire.nkeys import Role
from natsbroker.wire.values import Message
from tests.auth.buses import busOf
from tests.auth.callout.questions import Curve, Question

__all__ = ["NOW", "CalloutWorld", "outcomeOf"]

NOW = 1_700_000_000.0


def outcomeOf(call: Callable[[], Any]) -> list[Any]:
    """A list that will contain the result of a call, or its error."""
    outcome: list[Any] = []
    try:
        answer = call()
    except Unauthorized as error:
        return [error]
    if not isinstance(answer, Deferred):
        return [answer]
    answer.addCallbacks(outcome.append, lambda why: outcome.append(why.value))
    return outcome


@implementer(ISubscriber)
class CalloutWorld:
    """
    A server that sends requests, and a callout service in an account that answers.

    @ivar decide: makes the answer, or returns C{None} for no answer.
    @ivar questions: the requests received.
    """

    def __init__(self, account: str, curve: Curve | None = None) -> None:
        self.clock = Clock()
        self.clock.rightNow = NOW
        self.signer = Signer(Role.SERVER)
        self.keys = CurveKeys()
        self.bus = busOf(account)
        self.questions: list[Question] = []
        self.decide: Callable[[Question], bytes | None] = lambda question: None
        self._curve = curve
        self.callouts = Callouts(
            self.signer, self.keys, self.describe, self.busFor, self.clock, lambda: 2.0, os.urandom
        )

    def describe(self) -> dict[str, Any]:
        """The description of the server in a request."""
        return {"name": "s", "host": "h", "id": self.signer.publicKey, "version": "2.15.1"}

    def busFor(self, account: str) -> IMessageBus:
        """The bus of an account."""
        if account != self.bus.account:
            raise KeyError(account)
        return self.bus

    def serve(self) -> CalloutWorld:
        """Subscribe the service to the requests."""
        self.bus.subscribe(SUBJECT, self)
        return self

    def deliver(self, message: Message, tag: Any) -> None:
        headers = dict(Headers.fromBlock(message.headers).items()) if message.headers else {}
        question = Question(message.payload, headers, self._curve)
        self.questions.append(question)
        answer = self.decide(question)
        if answer is not None:
            self.bus.publish(Message(message.reply, answer))

    def subscriptionEnded(self, tag: Any) -> None:
        pass
