"""
The gateway interest policies that come with the broker.

All of them believe what the other cluster says: what it refused is not sent again before it takes
that back, and once it has told everything it wants nothing else is sent. They differ in what they
send to a cluster that has not spoken yet, and in when they tell everything themselves.

Queue groups are always honoured; what a policy decides about one table does not depend on
others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy

from zope.interface import implementer

from natsbroker.gateways.tables import INTEREST_ONLY, OPTIMISTIC, TRANSITIONING, InterestTable
from natsbroker.interfaces import IGatewayInterestPolicy

__all__ = [
    "SWITCH_AFTER",
    "InterestOnlyPolicy",
    "ListeningPolicy",
    "OptimisticPolicy",
    "SwitchingPolicy",
]

#: So many refusals in one account are enough, as for nats-server.
SWITCH_AFTER = 1000


@implementer(IGatewayInterestPolicy)
class ListeningPolicy:
    """
    What all policies do with what the other cluster says, for subclasses.

    @cvar tellsAll: see L{IGatewayInterestPolicy}.
    """

    tellsAll = False

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """
        @param now: tells the time in seconds since the epoch.
        """
        self._now = now

    def connected(self, gateway: str, account: str, tellsAll: bool) -> InterestTable:
        """
        See L{IGatewayInterestPolicy.connected}: whoever promises to tell everything is believed.
        """
        return InterestTable(gateway, account, INTEREST_ONLY if tellsAll else OPTIMISTIC)

    def accountWanted(self, table: InterestTable, isWanted: bool) -> InterestTable:
        table.isAccountWanted = isWanted
        table.readmit(b">")
        return table

    def gained(self, table: InterestTable, pattern: bytes, queue: bytes) -> InterestTable:
        """
        See L{IGatewayInterestPolicy.gained}: while what nobody spoke of is sent, plain interest
        only takes back that something was refused, since nobody will tell when it ends. Whoever has
        refused the account takes that back with the first subscription, of either kind: then other
        subjects are sent again too, which takes another table.
        """
        if not table.isAccountWanted:
            table = copy(table)
            table.isAccountWanted = True
        if queue:
            table.want(pattern, queue)
            return table
        table.readmit(pattern)
        if table.mode != OPTIMISTIC:
            table.want(pattern, queue)
        return table

    def lost(self, table: InterestTable, pattern: bytes, queue: bytes) -> InterestTable:
        if not table.unwant(pattern, queue) and not queue and table.mode == OPTIMISTIC:
            table.refuse(pattern)
        return table

    def listed(self, table: InterestTable, isComplete: bool) -> InterestTable:
        """
        See L{IGatewayInterestPolicy.listed}: nothing is withheld before the list is complete.
        """
        table.isAccountWanted = True
        if isComplete:
            table.switch(INTEREST_ONLY, self._now())
        else:
            table.unwantAll()
            if table.mode == OPTIMISTIC:
                table.switch(TRANSITIONING, self._now())
        return table

    def introduces(self, gateway: str, account: str, tellsAll: bool) -> bool:
        """
        See L{IGatewayInterestPolicy.introduces}: whoever promises to tell everything may rely on
        being told.
        """
        return self.tellsAll or tellsAll

    def switches(self, gateway: str, account: str, refusals: int) -> bool:
        return False


class OptimisticPolicy(ListeningPolicy):
    """
    Sends what the other cluster has not refused, and refuses what it sends, for ever; unless that
    promises to tell everything, or does so.
    """


class InterestOnlyPolicy(ListeningPolicy):
    """
    Sends only what the other cluster said it wants, and tells everything at once. A cluster that
    does not tell of its own accord, as nats-server before 2.9, gets nothing but for queue groups.
    """

    tellsAll = True

    def connected(self, gateway: str, account: str, tellsAll: bool) -> InterestTable:
        return InterestTable(gateway, account, INTEREST_ONLY)


class SwitchingPolicy(ListeningPolicy):
    """
    The default: begins optimistically; a cluster that is sent too much that it does not want tells
    everything it wants, account by account. With a cluster that promises to do so from the
    beginning it is the same at once, in both directions.
    """

    def __init__(
        self, switchAfter: int = SWITCH_AFTER, now: Callable[[], float] = time.time
    ) -> None:
        """
        @param switchAfter: how many subjects of an account are refused before everything is told
            instead.
        """
        super().__init__(now)
        self.switchAfter = switchAfter

    def switches(self, gateway: str, account: str, refusals: int) -> bool:
        return refusals >= self.switchAfter
