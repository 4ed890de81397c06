"""
Requests between brokers.
"""

from __future__ import annotations

from typing import Any

from natsbroker.errors import NoResponders, RequestTimeout
from natsbroker.jetstream.cluster.peers import PATIENCE, BrokerRequests
from natsbroker.jetstream.model.members import peerId
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.wire.values import Kind
from tests.jetstream.support import Stage


class Channels(Stage):
    """
    Two brokers.
    """

    def __init__(self) -> None:
        super().__init__()
        bus, deadlines = (
            self.account.busFor(Kind.INTERNAL),
            Deadlines(self.clock, self.clock.seconds),
        )
        self.one, self.two = (BrokerRequests(bus, name, deadlines) for name in ("one", "two"))
        self.one.open()
        self.two.open()

    def failure(self, asking: Any) -> Any:
        """The type of the exception with which a request ends."""
        outcome: list[Any] = []
        asking.addErrback(lambda failure: outcome.append(failure.type))
        self.settle()
        self.clock.advance(PATIENCE)
        return outcome[0]


def test_answer() -> None:
    """A request has the answer of the handler, which receives its fields and its body."""
    stage = Channels()

    async def add(fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        return {"sum": fields["a"] + len(body)}

    stage.two.handlers["add"] = add
    assert stage.wait(stage.one.ask("two", "add", b"x\ny", a=1)) == {"sum": 4}


def test_nobody() -> None:
    """A request to a broker that is gone fails at once."""
    stage = Channels()
    stage.two.close()
    assert stage.failure(stage.one.ask("two", "add")) is NoResponders


def test_foreign() -> None:
    """A malformed request between brokers is ignored."""
    stage = Channels()
    stage.send(b"$NB.JS.PEER." + peerId("two").encode(), b"hello")
    assert stage.failure(stage.one.ask("two", "unknown")) is RequestTimeout


def test_late() -> None:
    """A request that gets no answer times out, and fails at once if its own broker closes."""
    stage = Channels()
    assert stage.failure(stage.one.ask("two", "unknown")) is RequestTimeout
    asking = stage.one.ask("two", "unknown")
    stage.one.close()
    assert stage.failure(asking) is NoResponders
