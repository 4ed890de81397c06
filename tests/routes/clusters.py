"""
Members of clusters in memory: a cluster object with accounts on a clock that only the test moves,
and peers that the test controls.

Nothing happens but by the test's doing; what is dialled is written down, or reaches
another member in the same test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.auth.passwords import isHash
from natsbroker.client.transports import connectPipe
from natsbroker.config.model import Settings
from natsbroker.interfaces import IMessageBus
from natsbroker.links.identity import LinkIdentity, LinkLogin
from natsbroker.links.protocol import LinkProtocol
from natsbroker.routes.cluster import Routes
from natsbroker.routes.dialects import RouteDialect
from natsbroker.routes.route import Route
from natsbroker.routes.terms import ClusterTerms, RouteTarget
from natsbroker.wire.values import Kind
from tests.links.linkpeers import AccountNode, LinkWire, said
from tests.support import Router

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


#: The CONNECT and the INFO of gnatsd 1.4.1.
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


def withLogin(terms: ClusterTerms) -> ClusterTerms:
    """Require of dialling members the login that this member sends itself."""
    wanted = terms.login
    if wanted.isMapped or isHash(wanted.password):
        return terms
    return replace(terms, login=LinkLogin(terms.user, terms.password))


def oldConnect(**changes: Any) -> bytes:
    """A CONNECT line of a peer that knows the classic dialect only."""
    return said(b"CONNECT", OLD_CONNECT, changes)


def oldInfo(**changes: Any) -> bytes:
    """The INFO line of a peer that knows the classic dialect only."""
    return said(b"INFO", OLD_INFO, changes)


def connect(**changes: Any) -> bytes:
    """A CONNECT line of a peer."""
    return said(b"CONNECT", CONNECT, changes)


def info(**changes: Any) -> bytes:
    """An INFO line of a peer."""
    return said(b"INFO", INFO, changes)


class FakeBuses:
    """The accounts of a member, as its routes see them."""

    def __init__(self, batch: Any, names: Iterable[str]) -> None:
        self._batch = batch
        self.accounts: dict[str, Account] = {}
        for name in names:
            self.add(name)

    def add(self, name: str, *clock: Any) -> None:
        """Add an account, or replace it."""
        self.accounts[name] = Account(
            name, Router(), AccountDependencies(self._batch, Random(1), *clock)
        )

    def busOf(self, account: str) -> IMessageBus | None:
        known = self.accounts.get(account)
        return None if known is None else known.busFor(Kind.ROUTE)

    def names(self) -> Iterable[str]:
        return list(self.accounts)


class Node(AccountNode):
    """
    A member of a cluster.

    @ivar dialled: the targets that it dialled, each with the seconds before.
    @ivar changes: how often it said that clients must be told something.
    @ivar network: others that can be dialled, by their ports.
    """

    def __init__(
        self,
        name: str = "n1",
        port: int = 6222,
        clock: Clock | None = None,
        accounts: Iterable[str] = ("$G", "A", "B"),
        limits: Settings | None = None,
        **terms: Any,
    ) -> None:
        super().__init__(clock, Random(7), limits)
        self.buses = FakeBuses(self.batch, accounts)
        self.dialled: list[tuple[RouteTarget, float]] = []
        self.changes = 0
        self.network: dict[int, Node] = {}
        self.isDown = False
        self.cluster = Routes(
            self.context,
            LinkIdentity(
                f"ID-{name}",
                name,
                "127.0.0.1",
                port,
                f"nats-route://127.0.0.1:{port}/",
            ),
            self.buses,
            withLogin(ClusterTerms(**{"name": "C1", "poolSize": -1, **terms})),
            self._dial,
            self._changed,
        )
        self.cluster.urls = (f"127.0.0.1:{port - 2000}",)

    def renewAccount(self, name: str) -> None:
        """Replace an account by an empty one whose timers run on the test's clock."""
        self.buses.add(name, self.clock)

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
        """A member that speaks the classic dialect and has the global account only."""
        chosen = {"dialect": RouteDialect.CLASSIC, "accounts": ("$G",), **more}
        return cls(name, port, **chosen)

    def use(self, **terms: Any) -> None:
        """Change some of the member's cluster settings."""
        self.cluster.use(withLogin(replace(self.cluster.terms, **terms)))

    def accepted(self) -> Wire:
        """A connection from somebody who dialled us."""
        return Wire(self, None)

    def dialling(self, **target: Any) -> Wire:
        """A dialled connection."""
        return Wire(self, RouteTarget(**{"host": "127.0.0.1", "port": 7777, **target}))

    def joined(self, **changes: Any) -> Wire:
        """The connection of a peer that has dialled this member and completed the handshake."""
        wire = self.accepted()
        wire.send(connect(name=changes.get("server_id", "PEER")) + info(**changes))
        wire.take()
        return wire

    def joinedOld(self, **changes: Any) -> Wire:
        """
        The connection of a peer that knows the classic dialect only and has completed the
        handshake.
        """
        wire = self.accepted()
        wire.send(oldConnect(name=changes.get("server_id", "PEER")) + oldInfo(**changes))
        return wire

    def peers(self) -> list[str]:
        """The names of the other members."""
        return sorted(member.name for member in self.cluster.members.values())


class Wire(LinkWire):
    """
    Another member.
    """

    def __init__(self, node: Node, target: RouteTarget | None) -> None:
        super().__init__(node, LinkProtocol(node.cluster.routeFor(target), None))

    @property
    def route(self) -> Route:
        """This member's end of the connection."""
        assert isinstance(self.link, Route)
        return self.link


@contextmanager
def everything() -> Iterator[list[str]]:
    """All that is logged meanwhile, traces included."""
    lines: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        yield lines
    finally:
        globalLogPublisher.removeObserver(observe)


def mesh(*nodes: Node) -> None:
    """Let members reach each other under their ports."""
    ports = {node.cluster.identity.port: node for node in nodes}
    for node in nodes:
        node.network = {port: other for port, other in ports.items() if other is not node}


def target(port: int, **more: Any) -> RouteTarget:
    """A member that the settings name."""
    return RouteTarget("127.0.0.1", port, **more)
