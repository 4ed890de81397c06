"""
Brokers with leafnodes in memory, on a clock that the test moves, and peers that the test plays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from twisted.internet.task import Clock
from zope.interface import implementer

from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.advisories import Advisory
from natsbroker.auth.proxies import TrustedProxies
from natsbroker.client.transports import connectPipe
from natsbroker.clients.context import Connections
from natsbroker.config.model import Settings
from natsbroker.config.settings.leafnodes import Leafnodes, RemoteLeaf
from natsbroker.interfaces import IAuthorizer, IMessageBus
from natsbroker.leafnodes.accepting import AcceptedLeaf
from natsbroker.leafnodes.dialling import DialledLeaf
from natsbroker.leafnodes.protocol import LeafProtocol
from natsbroker.leafnodes.registry import LeafLink, LeafRegistry
from natsbroker.leafnodes.remote import LeafRemote
from natsbroker.links.context import LinkDependencies
from natsbroker.links.identity import LinkIdentity
from natsbroker.links.tls import LinkTLS
from natsbroker.runtime.observers import PluginCalls
from natsbroker.wire.compression import NO_COMPRESSION
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.values import Kind
from tests.links.linkpeers import AccountNode, LinkWire, said
from tests.support import Router

INFO = {
    "server_id": "PEER",
    "server_name": "peer",
    "version": "2.15.1",
    "proto": 3,
    "headers": True,
    "client_id": 7,
    "nonce": "abc",
    "leafnode_urls": ["127.0.0.1:7777"],
    "info_on_connect": True,
}


@implementer(IAuthorizer)
class Decider:
    """
    An authorizer that the test controls.

    @ivar hellos: the logins.
    @ivar answer: the grant, or an exception to raise.
    """

    required = True
    nonce = True
    deadline = 0.0

    def __init__(self) -> None:
        self.hellos: list[ConnectRequest] = []
        self.answer: Any = Grant("A", "u")

    def grantFor(self, hello: ConnectRequest) -> Any:
        self.hellos.append(hello)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def watchRevocations(self, revoked: Any) -> Any:
        return lambda: None


class Accounts:
    """
    The accounts of a broker.

    @ivar counts: the number of leafnodes of each account.
    @ivar refusal: an exception that refuses connections.
    """

    def __init__(self, batch: Any, clock: Any, names: Iterable[str]) -> None:
        self.accounts = {
            name: Account(name, Router(), AccountDependencies(batch, Random(1), clock))
            for name in names
        }
        self.counts = dict.fromkeys(names, 0)
        self.refusal: Exception | None = None

    def admit(self, grant: Grant, kind: Kind) -> IMessageBus:
        if self.refusal is not None:
            raise self.refusal
        bus = self.accounts[grant.account].busFor(kind)
        self.counts[grant.account] += 1
        return bus

    def dismiss(self, grant: Grant, kind: Kind) -> None:
        self.counts[grant.account] -= 1


class Broker(AccountNode):
    """
    A broker with leafnodes only.

    @ivar redialled: the remotes to dial again, each with its additional delay in seconds.
    @ivar advisories: the advisories for observers.
    """

    def __init__(
        self,
        name: str = "hub",
        clock: Clock | None = None,
        cluster: str = "",
        limits: Settings | None = None,
        accounts: Iterable[str] = ("$G", "A", "B"),
        settings: Settings | None = None,
        **block: Any,
    ) -> None:
        super().__init__(clock, Random(name), limits)
        self.buses = cast(Any, Accounts(self.batch, self.clock, accounts))
        self.decider = Decider()
        self.redialled: list[tuple[LeafRemote, float]] = []
        self.advisories: list[Advisory] = []
        leafnodes = Leafnodes(**{"compression": NO_COMPRESSION, **block})
        clients: Any = SimpleNamespace(
            notify=self.advisories.append,
            nonceBytes=lambda count: b"n" * count,
            logins=PluginCalls(),
            proxies=TrustedProxies(),
            connections=Connections(),
        )
        unused: Any = None
        dependencies = LinkDependencies(
            self.clock,
            replace(settings or Settings(), leafnodes=leafnodes),
            clients,
            self.buses,
            f"ID-{name}",
            f"ID-{name}",
            self.random,
            unused,
            unused,
            unused,
            unused,
        )
        self.leafs = LeafRegistry(
            self.context,
            LinkIdentity(f"ID-{name}", name, "127.0.0.1", 7422, f"{name}:7422"),
            dependencies,
            IAuthorizer(self.decider),
            lambda: cluster,
            lambda remote: self.redialled.append((remote, remote.takeDelay())),
        )

    def remote(self, tls: LinkTLS | None = None, **changes: Any) -> LeafRemote:
        """A remote to dial."""
        block = {
            "urls": ("nats://u:p@127.0.0.1:7777",),
            "account": "A",
            "compression": NO_COMPRESSION,
            **changes,
        }
        return LeafRemote(RemoteLeaf(**block), tls, Random(1))

    def accepted(self) -> Wire:
        """A connection from a peer that has sent nothing yet."""
        return Wire(self, LeafProtocol(partial(AcceptedLeaf, self.leafs), None))

    def dialling(self, remote: LeafRemote | None = None) -> Wire:
        """A connection that we dialled, before the hub's INFO."""
        target = remote or self.remote()
        return Wire(self, LeafProtocol(partial(DialledLeaf, self.leafs, target), None, target.name))

    def spoke(self, **changes: Any) -> Wire:
        """A peer that dialled us and was accepted."""
        wire = self.accepted()
        wire.send(connect(**changes))
        wire.take()
        return wire

    def hub(self, remote: LeafRemote | None = None, **changes: Any) -> Wire:
        """A peer that we dialled and that accepted us."""
        wire = self.dialling(remote)
        wire.send(info(**changes))
        wire.send(info(**{"connect_info": True, "remote_account": "A", **changes}))
        wire.take()
        return wire

    def join(
        self, hub: Broker, account: str = "A", theirs: str = "A", **changes: Any
    ) -> LeafRemote:
        """
        Dial another broker on the same clock.

        @param theirs: the account at the other broker.
        """
        hub.decider.answer = Grant(theirs, "u")
        remote = self.remote(account=account, **changes)
        ours = LeafProtocol(partial(DialledLeaf, self.leafs, remote), None, remote.name)
        connectPipe(self.clock, LeafProtocol(partial(AcceptedLeaf, hub.leafs), None), ours)
        self.settle()
        return remote


def connect(**changes: Any) -> bytes:
    """A CONNECT line of a peer."""
    usual = {
        "version": "2.15.1",
        "name": "peer",
        "server_id": "PEER",
        "headers": True,
        "remote_account": "X",
        "protocol": 3,
    }
    return said(b"CONNECT", usual, changes)


def info(**changes: Any) -> bytes:
    """An INFO line of a peer."""
    left = {name: value for name, value in INFO.items() if changes.get(name, value) is not None}
    return said(
        b"INFO", left, {name: change for name, change in changes.items() if change is not None}
    )


class Wire(LinkWire):
    """The wire of a leafnode, or of a hub."""

    #: The beacon is one, too.
    INTRODUCTIONS = (b"INFO", b"CONNECT", b"LS+ $LDS.")

    @property
    def leaf(self) -> LeafLink:
        """The broker's side of the connection."""
        assert isinstance(self.link, LeafLink)
        return self.link

    def isOpen(self) -> bool:
        """Whether the connection is open."""
        return not self.leaf.reason
