"""
Brokers with gateways in memory, and peers that the test plays.

Outgoing connections are recorded, or reach another broker of the same test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

from twisted.internet.task import Clock

from natsbroker.client.transports import connectPipe
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.model import Settings
from natsbroker.config.settings.gateways import Gateway, RemoteGateway
from natsbroker.gateways.gateway import InboundGateway, OutboundGateway
from natsbroker.gateways.registry import GatewayLink, GatewayRegistry
from natsbroker.gateways.remote import Remote
from natsbroker.gateways.terms import GatewayTerms
from natsbroker.links.identity import LinkIdentity
from natsbroker.links.protocol import LinkProtocol
from natsbroker.wire.serverinfo import ServerDocument
from tests.links.linkpeers import LinkNode, LinkWire, said

CONNECT = {
    "echo": False,
    "verbose": False,
    "pedantic": False,
    "tls_required": False,
    "headers": False,
    "name": "PEER",
    "cluster": "",
    "gateway": "B",
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
    "gateway": "B",
    "gateway_urls": ["127.0.0.1:7777"],
    "gateway_url": "127.0.0.1:7777",
    "gateway_nrp": True,
    "gateway_iom": True,
}


def connect(**changes: Any) -> bytes:
    """A CONNECT line of a peer."""
    return said(b"CONNECT", CONNECT, changes)


def info(**changes: Any) -> bytes:
    """An INFO line of a peer."""
    return said(b"INFO", INFO, changes)


def remote(name: str, *ports: int) -> RemoteGateway:
    """A cluster in the settings."""
    return RemoteGateway(name, tuple(f"127.0.0.1:{port}" for port in ports))


def terms(
    name: str,
    *remotes: RemoteGateway,
    tls: Any = None,
    tellsAll: bool = False,
    block: Gateway | None = None,
    **changes: Any,
) -> GatewayTerms:
    """The settings of a gateway."""
    made = replace(block or Gateway(name), gateways=remotes, **changes)
    return GatewayTerms(Settings(gateway=made), made, tls, tellsAll=tellsAll)


class SilentTraffic:
    """
    Traffic that passes no messages.

    @ivar commands: the commands of peers.
    """

    def __init__(self) -> None:
        self.commands: list[ServerDocument] = []
        self.distances: list[float] = []
        self.ended = 0
        self.changes = 0
        self.handlers: dict[int, Any] = {}
        self.understands = True

    def arriving(self, link: GatewayLink) -> SilentTraffic:
        return self

    leaving = arriving

    def commanded(self, document: ServerDocument) -> bool:
        """Record a command of a peer."""
        self.commands.append(document)
        return self.understands

    def placed(self, seconds: float) -> None:
        """Record the distance of a peer."""
        self.distances.append(seconds)

    def figures(self) -> dict[str, Any]:
        """The figures of an account without a decision about its mode."""
        return {"A": {"mode": "optimistic", "interest": 2, "queues": 1}}

    def interests(self, account: str) -> list[tuple[bytes, bytes]]:
        """The interest of an account, which is one subject."""
        return [(b"foo", b"")]

    def accountsChanged(self) -> None:
        """Count the changes of accounts."""
        self.changes += 1

    def end(self) -> None:
        """Count the connections that end."""
        self.ended += 1


class Members:
    """
    Other members of the same cluster.

    @ivar names: their names.
    @ivar told: the INFOs that they have received.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.told: list[dict[str, Any]] = []

    def hasName(self, name: str) -> bool:
        return name in self.names

    def send(self, line: bytes) -> None:
        self.told.append(json.loads(line[5:]))


class Joined(LinkNode):
    """
    A broker with a gateway.

    @ivar dialled: the clusters that it wanted to dial, each with the delay in seconds.
    @ivar network: brokers that can be dialled, by their ports.
    """

    def __init__(
        self,
        name: str = "A",
        port: int = 7222,
        remotes: Iterable[RemoteGateway] = (),
        clock: Clock | None = None,
        limits: Settings | None = None,
        traffic: Any = None,
        **block: Any,
    ) -> None:
        super().__init__(clock, Random(7), limits)
        self.traffic = cast(Any, traffic or SilentTraffic())
        self.members = cast(Any, Members())
        self.dialled: list[tuple[str, float]] = []
        self.network: dict[int, Joined] = {}
        url = f"127.0.0.1:{port}"
        self.port = port
        self.gateways = GatewayRegistry(
            self.context,
            LinkIdentity(f"ID-{name}-{port}", f"{name}-{port}", "127.0.0.1", port),
            terms(name, *remotes, **block),
            self.traffic,
            self.members,
            self._dial,
        )
        self.gateways.url = url

    def _dial(self, remote: Remote, after: float) -> None:
        self.dialled.append((remote.name, after))
        if self.network:
            self.clock.callLater(after, self._reach, remote)

    def _reach(self, remote: Remote) -> None:
        for target in remote.shuffled(self.random):
            other = self.network.get(target.port)
            if other is not None:
                ours = LinkProtocol(partial(OutboundGateway, self.gateways, remote, target), None)
                theirs = LinkProtocol(partial(InboundGateway, other.gateways), None)
                connectPipe(self.clock, ours, theirs)
                return
        self.gateways.unreachable(remote)

    def accepted(self) -> GatewayWire:
        """A connection from a peer that has sent nothing yet."""
        return GatewayWire(self, LinkProtocol(partial(InboundGateway, self.gateways), None))

    def dialling(self, name: str = "B", port: int = 7777) -> GatewayWire:
        """A connection that we dialled, before the peer's INFO."""
        target = RemoteURL("127.0.0.1", port)
        known = self.gateways.remotes.setdefault(name, Remote(name, remote(name, port)))
        return GatewayWire(
            self, LinkProtocol(partial(OutboundGateway, self.gateways, known, target), None)
        )

    def arrived(self, **changes: Any) -> GatewayWire:
        """A peer that has dialled us and was accepted."""
        wire = self.accepted()
        wire.send(connect(gateway=changes.get("gateway", "B")) + info(**changes))
        return wire

    def reached(self, name: str = "B", **changes: Any) -> GatewayWire:
        """A peer that we dialled and that has the right name."""
        wire = self.dialling(name)
        wire.send(info(**{"gateway": name, **changes}))
        return wire


class GatewayWire(LinkWire):
    """
    A member of another cluster.
    """


def internet(*nodes: Joined) -> None:
    """Let brokers connect to each other by their ports."""
    for node in nodes:
        node.network = {other.port: other for other in nodes if other is not node}
