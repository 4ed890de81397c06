"""
The bus of an account, for services that need one.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.interfaces import IMessageBus
from natsbroker.wire.values import Kind, Message
from tests.support import Recorder, Router

__all__ = ["Clients", "busOf"]


def busOf(name: str = "SYS") -> IMessageBus:
    """
    The bus of a new account.
    """
    account = Account(
        name, Router(), AccountDependencies(hot.FlushBatch(lambda call: None), Random(1))
    )
    return account.busFor(Kind.INTERNAL)


class Clients:
    """A client on a bus that sends requests."""

    def __init__(self, bus: IMessageBus) -> None:
        self._bus = bus

    def ask(
        self, subject: str, payload: bytes | str = b"", reply: bytes = b"_INBOX.x"
    ) -> list[bytes]:
        """Send a request, and return the answers that come at once."""
        answers = Recorder()
        subscription = self._bus.subscribe(b"_INBOX.x", answers)
        body = payload.encode() if isinstance(payload, str) else payload
        self._bus.publish(Message(subject.encode(), body, reply, origin=self))
        subscription.cancel()
        return answers.bodies

    def json(self, subject: str, payload: bytes | str = b"") -> Any:
        """Send a request, and decode its only answer."""
        (answer,) = self.ask(subject, payload)
        return json.loads(answer)
