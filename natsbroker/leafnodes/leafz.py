"""
The page C{/leafz}: the leafnode connections, with the parameters and keys of nats-server.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from natsbroker.leafnodes.pages import LeafPages
from natsbroker.leafnodes.registry import LeafLink
from natsbroker.monitoring.answers import JSON, Answer, Listing, bodyOf
from natsbroker.monitoring.formats import decoded, instant, roundTrip
from natsbroker.monitoring.queries import Query, flag, text
from natsbroker.monitoring.rows import Row, subscriptionMembers, trafficMembers
from natsbroker.monitoring.state import BrokerState
from natsbroker.wire.values import Kind

#: What a subscription counts besides its text.
_EACH = 8


class Leafz:
    """
    @ivar view: gives the leafnodes; C{None} without leafnodes.
    """

    def __init__(self, state: BrokerState) -> None:
        self.view: LeafPages | None = None
        self._state = state

    def __call__(self, query: Query) -> Answer:
        """
        @raise BadQuery: if a parameter makes no sense.
        """
        steps = self.steps(flag(query, "subs"), text(query, "acc"))
        return Answer(200, JSON, bodyOf(steps), isLong=True)

    def steps(self, isListed: bool, account: str = "") -> Generator[bytes, None, Listing]:
        """
        @param isListed: whether subjects are listed that peers are subscribed to.
        @param account: whose are shown; empty for all.
        """
        view = self.view
        leafs: Iterable[LeafLink] = () if view is None else view.leafs()
        # A leafnode that goes while rows are made leaves its account.
        wanted = [(each, each.account) for each in leafs if account in ("", each.account)]
        head: Row = {
            "server_id": self._state.context.info.server_id,
            "now": instant(self._state.seconds()),
            "leafnodes": len(wanted),
        }
        yield b""
        return Listing(head, "leafs", _rows(wanted, isListed))


def _rows(leafs: list[tuple[LeafLink, str]], isListed: bool) -> Iterator[Row | None]:
    for leaf, account in leafs:
        row: Row = {"id": leaf.number, "name": leaf.name, "is_spoke": leaf.kind is Kind.HUB}
        if leaf.isIsolated:
            row["is_isolated"] = True
        row |= {
            "account": account,
            "ip": leaf.host,
            "port": leaf.port,
            "rtt": roundTrip(leaf.roundTrip),
            **trafficMembers(leaf.counts, leaf.subscriptions),
        }
        if isListed and leaf.subscriptions:
            interest = () if leaf.traffic is None else tuple(leaf.traffic.interest)
            patterns = (each.pattern for each in interest)
            sized = ((len(each) + _EACH, decoded(each)) for each in patterns)
            row |= yield from subscriptionMembers(sized, leaf.subscriptions)
        row["compression"] = leaf.compression.level
        yield row
