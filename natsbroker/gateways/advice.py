"""
Advice to gateway interest policies, account by account and for a while.

What another cluster sends of one account is told from here: everything that is wanted, or only what
is not. Advice says which, in place of the policy. Both are right at any time: whoever is told
everything, and whoever sends what nobody has refused, misses nothing. So advice changes how much is
sent in vain, and never what arrives.

A policy that is advised does all else as it would by itself; advice ends at its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zope.interface import implementer

from natsbroker.interfaces import IGatewayInterestPolicy, IInterestTable

__all__ = ["MODES", "MOST", "AdvisedPolicy", "InterestAdvice"]

INTEREST_ONLY, OPTIMISTIC = MODES = ("interest-only", "optimistic")

#: So much advice is kept.
MOST = 1000


@dataclass(frozen=True, slots=True)
class InterestAdvice:
    """
    @ivar account: about which account.
    @ivar gateway: about what which other cluster sends.
    @ivar mode: C{interest-only} to tell it everything that is wanted; C{optimistic} to tell it only
        what is not.
    @ivar until: when the advice ends, in seconds since the epoch.
    @ivar most: after how many refusals everything is told after all; C{None} for never.
    """

    account: str
    gateway: str
    mode: str
    until: float
    most: int | None = None


@implementer(IGatewayInterestPolicy)
class AdvisedPolicy:
    """
    A policy that takes advice.

    @ivar policy: what decides otherwise.
    """

    def __init__(
        self, policy: IGatewayInterestPolicy, now: Callable[[], float] = time.time
    ) -> None:
        """
        @param now: tells the time in seconds since the epoch.
        """
        self.policy = policy
        self._now = now
        self._advice: dict[tuple[str, str], InterestAdvice] = {}

    # Advice.

    def advise(self, advice: InterestAdvice) -> None:
        """
        Take advice in place of any that there is about the same.

        @raise ValueError: if there is too much, or its time is over.
        """
        key = (advice.gateway, advice.account)
        if advice.until <= self._now():
            raise ValueError("its time is over")
        if len(self.advice()) >= MOST and key not in self._advice:
            raise ValueError(f"there is advice about {MOST} others")
        self._advice[key] = advice

    def withdraw(self, gateway: str, account: str) -> bool:
        """
        Forget advice.

        @return: whether there was any.
        """
        found = self.adviceOn(gateway, account)
        self._advice.pop((gateway, account), None)
        return found is not None

    def advice(self) -> list[InterestAdvice]:
        """
        All that holds.
        """
        now = self._now()
        self._advice = {key: each for key, each in self._advice.items() if each.until > now}
        return list(self._advice.values())

    def adviceOn(self, gateway: str, account: str) -> InterestAdvice | None:
        """
        What holds for one account and another cluster.
        """
        found = self._advice.get((gateway, account))
        return found if found is not None and found.until > self._now() else None

    # The policy.

    @property
    def tellsAll(self) -> bool:
        return bool(self.policy.tellsAll)

    def connected(self, gateway: str, account: str, tellsAll: bool) -> IInterestTable:
        return self.policy.connected(gateway, account, tellsAll)

    def accountWanted(self, table: Any, isWanted: bool) -> IInterestTable:
        return self.policy.accountWanted(table, isWanted)

    def gained(self, table: Any, pattern: bytes, queue: bytes) -> IInterestTable:
        return self.policy.gained(table, pattern, queue)

    def lost(self, table: Any, pattern: bytes, queue: bytes) -> IInterestTable:
        return self.policy.lost(table, pattern, queue)

    def listed(self, table: Any, isComplete: bool) -> IInterestTable:
        return self.policy.listed(table, isComplete)

    def introduces(self, gateway: str, account: str, tellsAll: bool) -> bool:
        """
        See L{IGatewayInterestPolicy.introduces}: what was promised is kept, whatever is advised.
        """
        advice = self.adviceOn(gateway, account)
        if advice is not None and advice.mode == INTEREST_ONLY:
            return True
        return self.policy.introduces(gateway, account, tellsAll)

    def switches(self, gateway: str, account: str, refusals: int) -> bool:
        advice = self.adviceOn(gateway, account)
        if advice is None:
            return self.policy.switches(gateway, account, refusals)
        if advice.mode == INTEREST_ONLY:
            return True
        return advice.most is not None and refusals >= advice.most
