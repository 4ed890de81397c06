"""
Members of clusters in memory: a cluster object with accounts on a clock that only the test moves,
and peers that say what the test says.

Promises: nothing happens but by the test's doing; what is dialled is written down, or reaches
another member in the same test.
Must never know: what a test is about.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from natsbroker import hot
from natsbroker.client.pipe import connectPipe
from natsbroker.core.account import Account
from natsbroker.interfaces import IMessageBus
from natsbroker.net.cluster import Cluster
from natsbroker.net.clusterterms import ClusterTerms, Identity, RouteTarget
from natsbroker.net.dialects import RouteDialect
from natsbroker.net.linkcontext import LinkContext, LinkLimits
from natsbroker.net.linkprotocol import LinkProtocol
from natsbroker.net.route import Route
from natsbroker.net.wheel import DeadlineWheel
from natsbroker.testing.transport import MemoryTransport
from natsbroker.wire.values import Kind, Message
from tests.support import Recorder, Router

CONNECT = {
    "echo": True,
    "verbose": False,
    "pedantic": False,
    "tls_required": False,
    "headers": True,
    "name": "PEER",
    "cluster": "C1",
    "lnoc": True,
}

INFO = {
    "server_id": "PEER",
    "server_name": "peer",
    "version": "2.15.1",
    "proto": 3,
    "go": "",
    "host": "127.0.0.1",
    "port": 7777,
    "headers": True,
    "max_payload": 1048576,
    "cluster": "C1",
    "lnoc": True,
    "lnocu": True,
}


#: What gnatsd 1.4.1 says when it dials, and what it says of itself.
OLD_CONNECT = {
    "echo": True,
    "verbose": False,
    "pedantic": False,
    "tls_required": False,
    "name": "PEER",
}

OLD_INFO = {
    "server_id": "PEER",
    "version": "1.4.1",
    "proto": 1,
    "go": "go1.11",
    "host": "127.0.0.1",
    "port": 7777,
    "max_payload": 1048576,
}


def oldConnect(**changes: Any) -> bytes:
    """A CONNECT line of a peer that knows the classic dialect only."""
    return b"CONNECT %b\r\n" % json.dumps({**OLD_CONNECT, **changes}).encode()


def oldInfo(**changes: Any) -> bytes:
    """An INFO line of such a peer."""
    return b"INFO %b \r\n" % json.dumps({**OLD_INFO, **changes}).encode()


def connect(**changes: Any) -> bytes:
    """A CONNECT line of a peer."""
    return b"CONNECT %b\r\n" % json.dumps({**CONNECT, **changes}).encode()


def info(**changes: Any) -> bytes:
    """An INFO line of a peer."""
    return b"INFO %b \r\n" % json.dumps({**INFO, **changes}).encode()


class Doors:
    """
    The accounts of a member.
    """

    def __init__(self, turn: Any, names: Iterable[str]) -> None:
        self._turn = turn
        self.accounts: dict[str, Account] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Have one more account."""
        self.accounts[name] = Account(name, Router(), self._turn, Random(1))

    def door(self, account: str) -> IMessageBus | None:
        """See L{natsbroker.net.routeinterest.AccountDoors.door}."""
        found = self.accounts.get(account)
        return None if found is None else found.busFor(Kind.ROUTE)

    def names(self) -> Iterable[str]:
        """See L{natsbroker.net.routeinterest.AccountDoors.names}."""
        return list(self.accounts)


class Node:
    """
    A member of a cluster.

    @ivar dialled: whom it wanted to dial, and after how many seconds.
    @ivar changes: how often it said that clients must be told something.
    @ivar network: others that can be dialled, by their ports.
    """

    def __init__(
        self,
        name: str = "n1",
        port: int = 6222,
        clock: Clock | None = None,
        accounts: Iterable[str] = ("$G", "A", "B"),
        limits: LinkLimits | None = None,
        **terms: Any,
    ) -> None:
        self.clock = clock or Clock()
        self.turn = hot.Turn(lambda call: self.clock.callLater(0, call))
        self.random = Random(7)
        self.doors = Doors(self.turn, accounts)
        self.dialled: list[tuple[RouteTarget, float]] = []
        self.changes = 0
        self.network: dict[int, Node] = {}
        self.isDown = False
        self.context = LinkContext(
            self.clock, self.turn, DeadlineWheel(self.clock), self.random, limits
        )
        self.cluster = Cluster(
            self.context,
            Identity(
                f"ID-{name}",
                name,
                "2.15.1",
                "0.1.0",
                "127.0.0.1",
                port,
                f"nats-route://127.0.0.1:{port}/",
            ),
            self.doors,
            ClusterTerms(**{"name": "C1", "poolSize": -1, **terms}),
            self._dial,
            self._changed,
        )
        self.cluster.urls = (f"127.0.0.1:{port - 2000}",)

    def _dial(self, target: RouteTarget, after: float) -> None:
        self.dialled.append((target, after))
        if self.network:
            self.clock.callLater(after, self._reach, target)

    def _reach(self, target: RouteTarget) -> None:
        other = self.network.get(target.port)
        if self.isDown:
            return
        if other is None or other.isDown:
            if target.isConfigured:
                self.clock.callLater(1.0, self._reach, target)
            return
        ours = LinkProtocol(self.cluster.routeFor(target), None)
        theirs = LinkProtocol(other.cluster.routeFor(None), None)
        connectPipe(self.clock, ours, theirs)

    def _changed(self) -> None:
        self.changes += 1

    @classmethod
    def classic(cls, name: str = "n1", port: int = 6222, **more: Any) -> Node:
        """A member that speaks the classic dialect, with the global account alone."""
        chosen = {"dialect": RouteDialect.CLASSIC, "accounts": ("$G",), **more}
        return cls(name, port, **chosen)

    def use(self, **terms: Any) -> None:
        """Take part in another way."""
        self.cluster.use(replace(self.cluster.terms, **terms))

    def bus(self, account: str = "A") -> Any:
        """A client's door to an account."""
        return self.doors.accounts[account].busFor(Kind.CLIENT)

    def subscribe(self, pattern: bytes, queue: bytes = b"", account: str = "A") -> Recorder:
        """Somebody subscribes."""
        recorder = Recorder()
        recorder.subscription = self.bus(account).subscribe(pattern, recorder, None, queue)
        self.settle()
        return recorder

    def publish(self, subject: bytes, body: bytes = b"hi", account: str = "A", **more: Any) -> int:
        """Somebody publishes."""
        count = int(self.bus(account).publish(Message(subject, body, **more)))
        self.settle()
        return count

    def settle(self, seconds: float = 0.0) -> None:
        """Let happen what is due."""
        for _ in range(60):
            self.clock.advance(0)
        if seconds:
            steps = max(int(seconds / 0.05), 1)
            self.clock.pump([seconds / steps] * steps)
            self.settle()

    def accepted(self) -> Wire:
        """A connection from somebody who dialled us."""
        return Wire(self, None)

    def dialling(self, **target: Any) -> Wire:
        """A connection to somebody whom we dialled."""
        return Wire(self, RouteTarget(**{"host": "127.0.0.1", "port": 7777, **target}))

    def joined(self, **changes: Any) -> Wire:
        """A peer that has dialled us and was taken for a member."""
        wire = self.accepted()
        wire.send(connect(name=changes.get("server_id", "PEER")) + info(**changes))
        wire.take()
        return wire

    def joinedOld(self, **changes: Any) -> Wire:
        """The same with a peer that knows the classic dialect only."""
        wire = self.accepted()
        wire.send(oldConnect(name=changes.get("server_id", "PEER")) + oldInfo(**changes))
        return wire

    def peers(self) -> list[str]:
        """The names of the other members."""
        return sorted(member.name for member in self.cluster.members.values())


class Wire:
    """
    A peer that says what the test says.
    """

    def __init__(self, node: Node, target: RouteTarget | None) -> None:
        self._node = node
        self.protocol = LinkProtocol(node.cluster.routeFor(target), None)
        address = IPv4Address("TCP", "127.0.0.9", 50000)
        self.transport = MemoryTransport(node.clock, self.protocol, address)
        self.transport.connect()
        node.settle()

    def send(self, data: bytes) -> None:
        """Say something."""
        self.transport.send(data)
        self._node.settle()

    def take(self) -> bytes:
        """What was said to the peer."""
        self._node.settle()
        return self.transport.take()

    def lines(self) -> list[bytes]:
        """The same, cut into lines, without INFO and CONNECT."""
        lines = self.take().split(b"\r\n")
        return [line for line in lines if line and not line.startswith((b"INFO", b"CONNECT"))]

    def infos(self) -> list[dict[str, Any]]:
        """The INFOs among what was said to the peer."""
        lines = self.take().split(b"\r\n")
        return [json.loads(line[5:]) for line in lines if line.startswith(b"INFO ")]

    def hangUp(self) -> None:
        """Go."""
        self.transport.hangUp()
        self._node.settle()

    @property
    def route(self) -> Route:
        """Our side of it."""
        assert isinstance(self.protocol.link, Route)
        return self.protocol.link

    @property
    def closed(self) -> str:
        """Why it was closed; empty while it is not."""
        return self.route.reason


@contextmanager
def everything() -> Iterator[list[str]]:
    """All that is logged meanwhile, traces included."""
    said: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        said.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        yield said
    finally:
        globalLogPublisher.removeObserver(observe)


def mesh(*nodes: Node) -> None:
    """Let members reach each other by their ports."""
    ports = {node.cluster.identity.port: node for node in nodes}
    for node in nodes:
        node.network = {port: other for port, other in ports.items() if other is not node}


def target(port: int, **more: Any) -> RouteTarget:
    """A member that the settings name."""
    return RouteTarget("127.0.0.1", port, **more)
