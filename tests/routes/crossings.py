"""
A broker's accounts with a connection to another cluster, on which the test speaks for the peer.

Everything that happens is done by the test. The link is a real one, over a transport in memory, and
negotiates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, cast

from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.registry import BuiltInRouter
from natsbroker.gateways.policies import ListeningPolicy, SwitchingPolicy
from natsbroker.gateways.traffic import GatewayTraffic
from natsbroker.interfaces import ILinkSubscriber
from natsbroker.links.context import LinkContext
from natsbroker.links.gatewayreplies import GatewayDependencies, ReplyNames
from natsbroker.links.link import Link
from natsbroker.links.protocol import LinkProtocol
from natsbroker.links.registry import LinkRegistry
from natsbroker.wire.dialects.gateway import FROM_GATEWAY
from natsbroker.wire.serverinfo import ServerDocument
from natsbroker.wire.values import Kind, Message
from tests.links.linkpeers import SOMEBODY, LinkNode, LinkWire

__all__ = ["OURS", "THEIRS", "Town"]

#: Our names, and those of another cluster.
OURS = ReplyNames("HERE", "OUR-ID")
THEIRS = ReplyNames("THERE", "THEIR-ID")


class TownLink(Link):
    """A connection between gateways after the handshake."""

    CREATED = "Gateway"
    KIND = "Gateway"
    ID_PREFIX = "gid"

    def __init__(self, context: LinkContext, peer: Any, document: ServerDocument) -> None:
        super().__init__(LinkRegistry(context), peer, FROM_GATEWAY)
        self.decoder.authorized = True
        self.document = document
        self.gateway = document.gateway

    def greet(self) -> None:
        self.agreed()


class Wire(LinkWire):
    """The peer's end of a gateway connection."""

    def __init__(self, town: Town, begin: Callable[[Any], Any], document: ServerDocument) -> None:
        super().__init__(
            town, LinkProtocol(lambda peer: TownLink(town.context, peer, document), None)
        )
        link = self.link
        link.traffic = traffic = begin(link)
        link.handlers.update(traffic.handlers)
        traffic.accountsChanged()
        town.settle()

    @property
    def traffic(self) -> Any:
        """The traffic over the route."""
        return self.link.traffic

    def say(self, *lines: bytes) -> None:
        """Send lines."""
        self.send(b"".join(line + b"\r\n" for line in lines))


class Town(LinkNode):
    """
    Accounts with the ways to other clusters.

    @ivar accounts: by their names.
    @ivar members: other members of our cluster, by their hashes.
    """

    def __init__(
        self, policy: ListeningPolicy | None = None, names: Iterable[str] = ("A",)
    ) -> None:
        super().__init__(None, Random(1), None)
        self.accounts: dict[str, Account] = {}
        self.members: dict[bytes, ILinkSubscriber] = {}
        for name in names:
            self.add(name)
        self.traffic = GatewayTraffic(
            GatewayDependencies(
                "HERE",
                cast(Any, self),
                policy or SwitchingPolicy(now=lambda: 12.5),
                OURS,
                lambda server, account: self.members.get(server),
                lambda: 12.5,
            )
        )

    def add(self, name: str) -> Account:
        """Make an account."""
        clock: Any = self.clock
        made = Account(
            name, BuiltInRouter(1024), AccountDependencies(self.batch, Random(1), clock=clock)
        )
        self.accounts[name] = made
        return made

    def busOf(self, account: str) -> Any:
        known = self.accounts.get(account)
        return None if known is None else known.busFor(Kind.GATEWAY)

    def names(self) -> Iterable[str]:
        return list(self.accounts)

    def bus(self, kind: Kind = Kind.CLIENT, account: str = "A") -> Any:
        """The bus of an account for a kind of connection."""
        return self.accounts[account].busFor(kind)

    def publish(self, subject: bytes, reply: bytes = b"", body: bytes = b"x") -> int:
        """Publish as a client."""
        message = Message(subject, body, reply, origin=SOMEBODY)
        count: int = self.bus().publish(message)
        return count

    def leaving(self, **document: Any) -> Wire:
        """A connection that we dialled."""
        return Wire(self, self.traffic.leaving, self._document(document))

    def arriving(self, **document: Any) -> Wire:
        """A connection that the other cluster dialled."""
        return Wire(self, self.traffic.arriving, self._document(document))

    def _document(self, changes: dict[str, Any]) -> ServerDocument:
        usual = {"gateway": "THERE", "server_name": "there-1", "headers": True, "gateway_nrp": True}
        return ServerDocument(**{**usual, **changes})
