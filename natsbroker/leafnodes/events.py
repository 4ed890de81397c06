"""
The events of the system account about leafnode connections::

    $SYS.ACCOUNT.<account>.CONNECT             one was established
    $SYS.ACCOUNT.<account>.DISCONNECT          an established one is gone
    $SYS.SERVER.<id>.CLIENT.AUTH.ERR           one was refused for who it is
    $SYS.ACCOUNT.<account>.LEAFNODE.CONNECT    one was accepted, at a server with gateways

Both ends of a connection publish the first two; the dialling end knows neither a name nor a user.
The last one tells nats-servers of the cluster to learn all interest of other clusters in the
account.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zope.interface import implementer

from natsbroker import errors
from natsbroker.advisories import Advisory, LeafConnected, LeafDisconnected, LeafRefused
from natsbroker.clients.events import ConnectionEvents
from natsbroker.interfaces import IObserver
from natsbroker.leafnodes.registry import LeafLink
from natsbroker.wire.values import ClientInfo

#: nats-server's name for the account of a leafnode that was not admitted.
_NONE = "N/A"


@implementer(IObserver)
@dataclass(frozen=True, eq=False)
class LeafEvents:
    """Events of leafnodes; C{link} gives one by number, C{nameOf} an account by key."""

    events: ConnectionEvents
    link: Callable[[int], LeafLink | None]
    server: Callable[[], str]
    hasGateways: bool
    nameOf: Callable[[str], str]

    def observe(self, advisory: Advisory) -> None:
        if not isinstance(advisory, (LeafConnected, LeafDisconnected, LeafRefused)):
            return
        link = self.link(advisory.number)
        if link is None:
            return
        if isinstance(advisory, LeafConnected):
            self._tell(f"$SYS.ACCOUNT.{advisory.account}.CONNECT", link, advisory.account)
            if self.hasGateways and not link.isDialled:
                subject = f"$SYS.ACCOUNT.{advisory.account}.LEAFNODE.CONNECT"
                self.events.publish(
                    subject, lambda: {"server": self.events.describe(), "acc": advisory.account}
                )
        elif isinstance(advisory, LeafDisconnected):
            subject = f"$SYS.ACCOUNT.{advisory.account}.DISCONNECT"
            self._tell(subject, link, advisory.account, advisory.reason)
        elif advisory.reason == errors.AUTHORIZATION.reason:
            self._tell(f"$SYS.SERVER.{self.server()}.CLIENT.AUTH.ERR", link, _NONE, advisory.reason)

    def _tell(self, subject: str, link: LeafLink, account: str, reason: str | None = None) -> None:
        self.events.tell(
            subject,
            lambda: _described(link, account),
            lambda: {} if account == _NONE else {"name_tag": self.nameOf(account)},
            reason,
            lambda: link.counts,
        )


def _described(link: LeafLink, account: str) -> ClientInfo:
    return ClientInfo(
        start=link.started,
        host=link.peer.host,
        id=link.number,
        acc=account,
        user="" if link.isDialled else link.user,
        name="" if link.isDialled else link.name,
        ver="" if link.isDialled else link.version,
        rtt=round(link.roundTrip * 1e9),
        kind="Leafnode",
    )
