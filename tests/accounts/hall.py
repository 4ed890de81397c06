"""An account for tests of events in an account."""

from __future__ import annotations

from random import Random
from typing import Any

from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.interfaces import IOutboxSubscriber
from natsbroker.wire.values import Kind, Message
from tests.support import Recorder, Router


@implementer(IOutboxSubscriber)
class Connection(Recorder):
    """
    A subscriber with an outbox, as client sessions are.
    """

    def __init__(self, batch: Any) -> None:
        super().__init__()
        self.outbox = hot.Outbox(batch, self, lambda data: None, 1 << 20)

    def outboxOverflowed(self) -> None:
        """Unused by these tests."""
        raise AssertionError("too much was put in")

    def outboxFailed(self) -> None:
        """Unused by these tests."""
        raise AssertionError("sending failed")


class Hall:
    """
    An account with its buses.
    """

    def __init__(self, seed: int = 1) -> None:
        self.soon: list[Any] = []
        self.failures: list[str] = []
        self.batch = hot.FlushBatch(self.soon.append)
        self.router = Router()
        self.account = Account(
            "A",
            self.router,
            AccountDependencies(
                self.batch, Random(seed), failed=lambda what, text: self.failures.append(text)
            ),
        )
        self.bus = self.account.busFor(Kind.CLIENT)

    def busFor(self, kind: Kind) -> Any:
        """The bus for a kind of origin."""
        return self.account.busFor(kind)

    def publish(
        self, subject: bytes, body: bytes = b"", kind: Kind = Kind.CLIENT, **more: Any
    ) -> int:
        """Publish a message with some kind of origin."""
        count: int = self.account.busFor(kind).publish(Message(subject, body, **more))
        return count
