"""
Gateways under arbitrary input, in every state of a connection, dialled and accepted.

No exception escapes and no failure is logged, nothing is left of a closed connection, and no other
connection is affected.
"""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.gateways.policies import SwitchingPolicy
from natsbroker.gateways.traffic import GatewayTraffic
from natsbroker.interfaces import IMessageBus
from natsbroker.links.gatewayreplies import GatewayDependencies, ReplyNames
from natsbroker.wire.values import Kind
from tests.gateways.gatewaypeers import GatewayWire, Joined, connect, info
from tests.routes.clusters import FakeBuses
from tests.support import Recorder, Router

SEEDS = [
    connect(),
    info(),
    info(gateway_cmd=1, gateway="C", gateway_urls=["127.0.0.1:9", "x", ""]),
    info(gateway_cmd=2, gateway_cmd_payload="QQ=="),
    info(gateway_cmd=3, gateway_cmd_payload="QQ=="),
    info(gateway_cmd=2, gateway_cmd_payload="*"),
    b"RS+ A foo\r\n",
    b"RS+ A foo.> q 1\r\n",
    b"RS- A foo\r\n",
    b"RS- A foo.> q\r\n",
    b"A+ A\r\n",
    b"A- A\r\n",
    b"A- NOPE\r\n",
    b"RMSG A foo 2\r\nhi\r\n",
    b"RMSG A foo _GR_.AAAAAA.BBBBBB.x 2\r\nhi\r\n",
    b"RMSG A _GR_.AAAAAA.BBBBBB.foo 2\r\nhi\r\n",
    b"RMSG A $GR.AAAA.foo 2\r\nhi\r\n",
    b"RMSG A foo + r q 2\r\nhi\r\n",
    b"RMSG NOPE foo | q 2\r\nhi\r\n",
    b"HMSG A foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
]

TOKENS = [
    b" ",
    b"\r\n",
    b"\x00",
    b"\xff",
    b".",
    b"*",
    b">",
    b"|",
    b"+",
    b"-1",
    b"{",
    b'"',
    b"[" * 99,
]


class FuzzedBuses(FakeBuses):
    """The buses of accounts for gateways."""

    def __init__(self, batch: Any, clock: Any) -> None:
        self._clock = clock
        self._batch = batch
        super().__init__(batch, ["A", "B"])

    def add(self, name: str) -> None:
        self.accounts[name] = Account(
            name, Router(), AccountDependencies(self._batch, Random(1), self._clock)
        )

    def busOf(self, account: str) -> IMessageBus | None:
        known = self.accounts.get(account)
        return None if known is None else known.busFor(Kind.GATEWAY)


def made() -> tuple[Joined, FuzzedBuses]:
    """A broker with accounts, one of which has a subscription."""
    batch = hot.FlushBatch(lambda call: None)
    clock = Clock()
    buses = FuzzedBuses(batch, clock)
    member: Any = lambda server, account: None  # noqa: E731
    traffic = GatewayTraffic(
        GatewayDependencies(
            "A", cast(Any, buses), SwitchingPolicy(3), ReplyNames("A", "ID"), member, lambda: 1.0
        )
    )
    node = Joined(traffic=traffic, clock=clock)
    for subject, queue in ((b"foo", b""), (b"foo.*", b"q"), (b"ears", b"")):
        buses.accounts["A"].busFor(Kind.CLIENT).subscribe(subject, Recorder(), None, queue)
    return node, buses


def opened(node: Joined, state: int) -> GatewayWire:
    """A connection in one of its states."""
    if state == 0:
        return node.accepted()
    if state == 1:
        return node.arrived()
    return node.dialling() if state == 2 else node.reached()


def mutated(random: Random) -> bytes:
    """A line that a gateway could send, possibly mutated."""
    data = bytearray(b"".join(random.choices(SEEDS, k=random.randint(1, 6))))
    for _ in range(random.choice([0, 0, 1, 3])):
        place = random.randrange(len(data) + 1)
        action = random.randrange(3)
        if action == 0:
            data[place:place] = random.choice(TOKENS)
        elif action == 1:
            del data[place : place + random.randint(1, 9)]
        else:
            data[place : place + 1] = bytes([random.randrange(256)])
    return bytes(data)


@pytest.mark.parametrize("state", range(4), ids=["accepted", "let-in", "dialling", "reached"])
def test_survives(state: int) -> None:
    """Any input is handled without a failure, and leaves nothing behind."""
    random = Random(state)
    node, buses = made()
    before = {name: len(account) for name, account in buses.accounts.items()}
    for _ in range(400):
        wire = opened(node, state)
        data = mutated(random)
        cut = random.randrange(len(data) + 1)
        for piece in (data[:cut], data[cut:]):
            wire.transport.send(piece)
        node.settle()
        wire.transport.take()
        if wire.transport.connected:
            wire.hangUp()
        node.settle(0.0)
    node.settle(2.0)
    assert len(node.gateways) == 0 and not node.gateways.inbound and not node.gateways.outbound
    assert {name: len(account) for name, account in buses.accounts.items()} == before
    wire = node.arrived()
    wire.take()
    wire.send(b"RMSG A foo 2\r\nhi\r\nPING\r\n")
    assert wire.lines() == [b"PONG"]
