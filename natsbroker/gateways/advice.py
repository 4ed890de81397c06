"""
Advice to gateway interest policies, account by account and for a limited time.

Advice decides whether another cluster receives all our interest in an account or only refusals.
Either is correct at any time, so advice changes how much is sent in vain, and never what arrives.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zope.interface import implementer

from natsbroker.interfaces import IGatewayInterestPolicy, IInterestTable

INTEREST_ONLY, OPTIMISTIC = MODES = ("interest-only", "optimistic")

#: The number of pieces of advice that are kept.
MOST = 1000


@dataclass(frozen=True, slots=True)
class PolicyAdvice:
    """
    @ivar gateway: the name of the cluster that sends.
    @ivar mode: C{interest-only} to send it all interest; C{optimistic} to send it refusals.
    @ivar until: when the advice ends, in seconds since the epoch.
    @ivar most: the refusals after which all interest is sent after all; C{None} for no limit.
    """

    account: str
    gateway: str
    mode: str
    until: float
    most: int | None = None


@implementer(IGatewayInterestPolicy)
class AdvisedPolicy:
    """
    Applies advice before another policy.

    @ivar policy: decides where there is no advice.
    """

    def __init__(
        self, policy: IGatewayInterestPolicy, now: Callable[[], float] = time.time
    ) -> None:
        """
        @param now: the time in seconds since the epoch.
        """
        self.policy = policy
        self._now = now
        self._advice: dict[tuple[str, str], PolicyAdvice] = {}

    # Advice.

    def advise(self, advice: PolicyAdvice) -> None:
        """
        Take advice in place of earlier advice about the same account and gateway.

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
        @return: whether there was any advice.
        """
        found = self.adviceOn(gateway, account)
        self._advice.pop((gateway, account), None)
        return found is not None

    def advice(self) -> list[PolicyAdvice]:
        """
        The advice in force.
        """
        now = self._now()
        self._advice = {key: each for key, each in self._advice.items() if each.until > now}
        return list(self._advice.values())

    def adviceOn(self, gateway: str, account: str) -> PolicyAdvice | None:
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
