"""
The gateway interest policies that come with the broker, and their plugins.

All of them obey the other cluster. A refused subject is not sent until the refusal is taken back.
Once the other cluster has sent all its interest, only messages of that interest are sent to it.
Queue groups are always honoured. The policies differ in what they send before that, and in when
they send all our interest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

from zope.interface import implementer

from natsbroker.gateways.tables import INTEREST_ONLY, OPTIMISTIC, TRANSITIONING, InterestTable
from natsbroker.interfaces import (
    IBrokerHost,
    IGatewayInterestPolicy,
    IGatewayPolicyPlugin,
    IOptionsCheck,
    IWorkerPlugin,
)
from natsbroker.runtime.pluginoptions import PluginOptionError, refuseOthers

#: nats-server's number of refusals in one account.
SWITCH_AFTER = 1000


@implementer(IGatewayInterestPolicy)
class ListeningPolicy:
    tellsAll = False

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def connected(self, gateway: str, account: str, tellsAll: bool) -> InterestTable:
        return InterestTable(gateway, account, INTEREST_ONLY if tellsAll else OPTIMISTIC)

    def accountWanted(self, table: InterestTable, isWanted: bool) -> InterestTable:
        table.isAccountWanted = isWanted
        table.readmit(b">")
        return table

    def gained(self, table: InterestTable, pattern: bytes, queue: bytes) -> InterestTable:
        """
        Keep plain interest, unless the mode is optimistic. In that mode the interest only takes
        back a refusal, since its end will not be announced. The first subscription of either kind
        takes back the refusal of an account. Other subjects are then sent again too, which needs
        another table.
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
        """Note the begin or the end of a list. Nothing is withheld before the list is complete."""
        table.isAccountWanted = True
        if isComplete:
            table.switch(INTEREST_ONLY, self._now())
        else:
            table.unwantAll()
            if table.mode == OPTIMISTIC:
                table.switch(TRANSITIONING, self._now())
        return table

    def introduces(self, gateway: str, account: str, tellsAll: bool) -> bool:
        return self.tellsAll or tellsAll

    def switches(self, gateway: str, account: str, refusals: int) -> bool:
        return False


class OptimisticPolicy(ListeningPolicy):
    """
    Sends subjects that the other cluster has not refused, and refuses unwanted ones, without limit.
    If the other cluster sends all its interest, only that is sent.
    """


class InterestOnlyPolicy(ListeningPolicy):
    """
    Sends only what the other cluster wants, and sends all our interest at once. A cluster that does
    not do the same, as nats-server before 2.9, gets only messages for its queue groups.
    """

    tellsAll = True

    def connected(self, gateway: str, account: str, tellsAll: bool) -> InterestTable:
        return InterestTable(gateway, account, INTEREST_ONLY)


class SwitchingPolicy(ListeningPolicy):
    """
    Begins optimistically, and sends all our interest in an account after too many refusals. If the
    other cluster sends all its interest from the beginning, both sides do so.
    """

    def __init__(
        self, switchAfter: int = SWITCH_AFTER, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__(now)
        self.switchAfter = switchAfter

    def switches(self, gateway: str, account: str, refusals: int) -> bool:
        return refusals >= self.switchAfter


class AnnouncingPolicy(SwitchingPolicy):
    """
    The default, as in nats-server since 2.9: sends all our interest at once. A cluster that does
    the same gets only the subjects that it wants. For others it begins optimistically.
    """

    tellsAll = True


def _defaultPolicy(section: Mapping[str, Any]) -> IGatewayInterestPolicy:
    """A switching policy if the section says when to switch; else the default."""
    if "switch_after" in section:
        return SwitchingPolicy(switchAfterOf(section))
    refuseOthers(section, "switch_after")
    return AnnouncingPolicy()


def switchAfterOf(section: Mapping[str, Any]) -> int:
    refuseOthers(section, "switch_after")
    count = section.get("switch_after") or SWITCH_AFTER
    if type(count) is not int or count < 0:
        raise PluginOptionError("switch_after", "switch_after is not a count")
    return count


@implementer(IGatewayPolicyPlugin, IOptionsCheck, IWorkerPlugin)
@dataclass(frozen=True)
class _PolicyPlugin:
    """
    @ivar make: makes the policy of a section, or raises C{ValueError}.
    """

    name: str
    make: Callable[[Mapping[str, Any]], IGatewayInterestPolicy]
    runsInWorkers: ClassVar[bool] = True

    def makePolicy(self, host: IBrokerHost, section: Mapping[str, Any]) -> IGatewayInterestPolicy:
        return self.make(section)

    def checkOptions(self, section: Mapping[str, Any], settings: Any) -> None:
        self.make(section)


def _withoutOptions(section: Mapping[str, Any], policy: Callable[[], Any]) -> Any:
    refuseOthers(section)
    return policy()


#: The plugins that C{gateway { interest { plugin: NAME } }} always finds; the first is the default.
READY_MADE = (
    _PolicyPlugin("announcing", _defaultPolicy),
    _PolicyPlugin("switching", lambda section: SwitchingPolicy(switchAfterOf(section))),
    _PolicyPlugin("optimistic", lambda section: _withoutOptions(section, OptimisticPolicy)),
    _PolicyPlugin("interest-only", lambda section: _withoutOptions(section, InterestOnlyPolicy)),
)
