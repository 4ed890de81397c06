"""
The page C{/leafz}: the connections to leafnodes, and those as a leafnode.

Promises: the parameters, refusals and keys of nats-server's page; a row is bounded, however much a
peer is subscribed to. Compression is always C{not supported}.
Must never know: how leafnodes come and go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from natsbroker.stats.answers import JSON, Answer, Listing, bodyOf
from natsbroker.stats.formats import instant, roundTrip, shown
from natsbroker.stats.linkviews import LeafFactsView, LeafsView
from natsbroker.stats.queries import Query, flag, text
from natsbroker.stats.rows import Row
from natsbroker.stats.state import BrokerState

__all__ = ["Leafz"]

#: How many bytes of subscriptions are listed for one leafnode, what each counts besides its text,
#: and how many are gone through in one step.
_LISTED = 512 << 10
_EACH = 8
_STEP = 256


class Leafz:
    """
    Tells which leafnodes there are.

    @ivar view: gives them; C{None} where there are none.
    """

    def __init__(self, state: BrokerState) -> None:
        self.view: LeafsView | None = None
        self._state = state

    def __call__(self, query: Query) -> Answer:
        """
        The page.

        @raise BadQuery: if a parameter makes no sense.
        """
        steps = self.steps(flag(query, "subs"), text(query, "acc"))
        return Answer(200, JSON, bodyOf(steps), isLong=True)

    def steps(self, isListed: bool, account: str = "") -> Generator[bytes, None, Listing]:
        """
        The same as a list, for those who want no HTTP.

        @param isListed: whether subjects are listed that peers are subscribed to.
        @param account: whose are shown; empty for all.
        """
        view = self.view
        leafs: Iterable[LeafFactsView] = () if view is None else view.leafs()
        wanted = [each for each in leafs if account in ("", each.account)]
        head: Row = {
            "server_id": self._state.context.info.server_id,
            "now": instant(self._state.seconds()),
            "leafnodes": len(wanted),
        }
        yield b""
        return Listing(head, "leafs", _rows(wanted, isListed))


def _rows(leafs: list[LeafFactsView], isListed: bool) -> Iterator[Row | None]:
    for leaf in leafs:
        inMessages, inBytes, outMessages, outBytes = leaf.traffic
        row: Row = {"id": leaf.number, "name": leaf.name, "is_spoke": leaf.isSpoke}
        if leaf.isIsolated:
            row["is_isolated"] = True
        row |= {
            "account": leaf.account,
            "ip": leaf.host,
            "port": leaf.port,
            "rtt": roundTrip(leaf.roundTrip),
            "in_msgs": inMessages,
            "out_msgs": outMessages,
            "in_bytes": inBytes,
            "out_bytes": outBytes,
            "subscriptions": leaf.subscriptions,
        }
        if isListed and leaf.subscriptions:
            row |= yield from _listed(leaf)
        row["compression"] = "not supported"
        yield row


def _listed(leaf: LeafFactsView) -> Generator[None, None, Row]:
    """
    What a peer is subscribed to.
    """
    listed: list[str] = []
    room = _LISTED
    for place, pattern in enumerate(leaf.patterns):
        room -= len(pattern) + _EACH
        if room < 0:
            break
        if place % _STEP == _STEP - 1:
            yield
        listed.append(shown(pattern))
    row: Row = {"subscriptions_list": listed}
    return row if len(listed) >= leaf.subscriptions else row | {"truncated": True}
