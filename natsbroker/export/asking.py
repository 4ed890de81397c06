"""
Who asks, and where answers may go.

Whether somebody may ask was decided when the request was published: its subject names what is asked
for and of which log, and the connection's grant says where it may publish.

An answer goes only where whoever asks may listen; what is asked by somebody who is not
let in any more is not done.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from natsbroker.export.texts import FAILED, Refusal
from natsbroker.interfaces import IMessageBus, IOrigin
from natsbroker.subjects.grammar import isValidLiteral
from natsbroker.subjects.permissions import DENIED
from natsbroker.wire.grants import Grant, Verb
from natsbroker.wire.values import Message

__all__ = ["ApiRequest"]

_log = Logger(namespace="natsbroker.export")


class ApiRequest:
    """
    Whoever sent one request.

    @ivar origin: the origin of the request; C{None} for a service in the broker.
    """

    def __init__(self, bus: IMessageBus, message: Message) -> None:
        self._bus = bus
        self._subject = message.subject
        self._reply = message.reply
        self.origin = message.origin

    @property
    def isThere(self) -> bool:
        """
        Whether it can be answered.
        """
        if not isValidLiteral(self._reply):
            return False
        if self.origin is None:
            return True
        if not IOrigin.providedBy(self.origin):
            return False
        grant: Grant | None = self.origin.grant
        if grant is None:
            return False
        return grant.may(Verb.SUBSCRIBE, self._reply) is not DENIED

    def send(self, answer: bytes) -> bool:
        """
        Answer.

        @return: whether anybody listens.
        """
        return self._bus.post(self._reply, answer) > 0

    def say(self, answer: dict[str, Any]) -> bool:
        """
        The same, in JSON.
        """
        return self.send(json.dumps(answer).encode("utf-8"))

    def attempt(self, serve: Callable[[], object]) -> None:
        """
        Do what is asked for; answer why not, where it is refused or fails.

        @param serve: does it, and answers.
        """
        try:
            serve()
        except Refusal as refusal:
            self.say(refusal.answer())
        except Exception:
            _log.failure("A request on {subject} failed", subject=self._subject)
            self.say(Refusal(FAILED).answer())
