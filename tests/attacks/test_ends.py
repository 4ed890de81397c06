"""
Work without a receiver ends. Each kind of long request to read is sent many times, and then its
client disconnects or unsubscribes, or its stream is deleted. The broker counts the rest of the
work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from natsbroker.connections.turns import SLICE
from natsbroker.jetstream.service import ROUTES
from natsbroker.testing.memory import MemoryConnection
from tests.attacks.stage import CHUNK, Attacked, encoded, requests
from tests.attacks.test_requests import API, DIRECT, EXPORTS

COUNT = 30

ENDS: dict[str, Callable[[Attacked, MemoryConnection], object]] = {
    "unsubscribed": lambda stage, client: client.send(b"UNSUB 1\r\n"),
    "closed": lambda stage, client: client.close(),
    "deleted": lambda stage, client: stage.victim.send(
        b"PUB $JS.API.STREAM.DELETE.S _R.a 0\r\n\r\n"
    ),
}


def _rows() -> Iterator[Any]:
    reading = {route.subject: API[route.subject] for route in ROUTES if route.isRead}
    exports = {verb: EXPORTS[verb][0] for verb in ("EXPORT", "DIGEST")}
    for name, (subject, body, *_) in {**reading, **DIRECT}.items():
        # What is about the account goes on without one of its streams.
        ends = ENDS if ".S" in subject else ("unsubscribed", "closed")
        if name != "illegal":
            for end in ends:
                yield pytest.param(f"$JS.API.{subject}", body, end, id=f"{name}-{end}")
    nothing = {"start": 1, "subjects": ["s.*.nope"]}
    for name, body in {**exports, "EXPORT nothing": nothing}.items():
        for end in ("unsubscribed", "closed"):
            subject = f"$NB.API.STREAM.{name.split()[0]}._.S"
            yield pytest.param(subject, body, end, id=f"{name}-{end}")


class Metered(Attacked):
    """
    @ivar spent: what slices have cost, in the units of the backlog.
    """

    def __init__(self) -> None:
        super().__init__()
        turns: Any = self._memory.broker.turns
        self.spent, self._spend = 0, turns.spend
        turns.spend = self._count

    def _count(self, cost: int) -> None:
        self.spent += cost
        self._spend(cost)

    def rest(self) -> None:
        """Run turns until no call is due."""
        while any(call.getTime() <= self.reactor.seconds() for call in self.reactor.calls):
            self.turn()


@cache
def _cost(subject: str, body: bytes, end: str = "") -> int:
    """The cost of some requests, with or without their end."""
    stage = Metered()
    client = stage.client()
    client.send(b"SUB _I.> 1\r\n")
    stage.rest()
    data = requests(subject, body, b"_I.q", COUNT)
    for place in range(0, len(data), CHUNK):
        client.send(data[place : place + CHUNK])
        stage.turn()
    stage.spent = 0
    if end:
        ENDS[end](stage, client)
    stage.rest()
    spent = stage.spent
    stage.stopped()
    return spent


@pytest.mark.parametrize(("subject", "body", "end"), list(_rows()))
def test_ended(subject: str, body: Any, end: str) -> None:
    """
    When the client of a request has gone, begun work ends at its next slice, and waiting work does
    not begin.
    """
    asked = encoded(body)[0]
    assert _cost(subject, asked, end) <= _cost(subject, asked) // 3 + 8 * SLICE
