"""
Advice to gateway interest policies, by account and for a limited time: whether another cluster
receives all our interest or only refusals. Both are always correct. So advice changes only how much
is sent in vain, never which messages arrive.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zope.interface import implementer

from natsbroker.accounts.registry import AccountRegistry
from natsbroker.gateways.registry import GatewayRegistry
from natsbroker.interfaces import IGatewayInterestPolicy
from natsbroker.wire.instants import instant

INTEREST_ONLY, OPTIMISTIC = MODES = ("interest-only", "optimistic")

#: The number of pieces of advice that are kept.
MOST = 1000


@dataclass(frozen=True, slots=True)
class PolicyAdvice:
    """
    @ivar mode: C{interest-only} to send it all interest; C{optimistic} to send it refusals.
    @ivar until: in seconds since the epoch.
    @ivar most: the number of refusals after which all interest is sent anyway; C{None} for no
        limit.
    """

    account: str
    gateway: str
    mode: str
    until: float
    most: int | None = None

    def row(self) -> dict[str, Any]:
        row = {
            "account": self.account,
            "gateway": self.gateway,
            "mode": self.mode,
            "until": instant(self.until),
        }
        return row if self.most is None else {**row, "max_no_interest": self.most}


@implementer(IGatewayInterestPolicy)
class AdvisedPolicy:
    def __init__(
        self, policy: IGatewayInterestPolicy, now: Callable[[], float] = time.time
    ) -> None:
        self.policy = policy
        self.connected = policy.connected
        self.accountWanted = policy.accountWanted
        self.gained, self.lost, self.listed = policy.gained, policy.lost, policy.listed
        self._now = now
        self._advice: dict[tuple[str, str], PolicyAdvice] = {}

    def advise(self, advice: PolicyAdvice) -> None:
        """Take advice. C{ValueError} if there is too much, or its time is over."""
        key = (advice.gateway, advice.account)
        if advice.until <= self._now():
            raise ValueError("until is in the past")
        if len(self.advice()) >= MOST and key not in self._advice:
            raise ValueError(f"there is advice about {MOST} others")
        self._advice[key] = advice

    def withdraw(self, gateway: str, account: str) -> bool:
        advice = self.adviceOn(gateway, account)
        self._advice.pop((gateway, account), None)
        return advice is not None

    def advice(self) -> list[PolicyAdvice]:
        now = self._now()
        self._advice = {key: advice for key, advice in self._advice.items() if advice.until > now}
        return list(self._advice.values())

    def adviceOn(self, gateway: str, account: str) -> PolicyAdvice | None:
        advice = self._advice.get((gateway, account))
        return advice if advice is not None and advice.until > self._now() else None

    @property
    def tellsAll(self) -> bool:
        return bool(self.policy.tellsAll)

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


@dataclass(eq=False)
class GatewayAdvice:
    policy: AdvisedPolicy
    gateways: GatewayRegistry
    registry: AccountRegistry

    @property
    def name(self) -> str:
        return self.gateways.terms.block.name

    def accounts(self) -> Iterable[str]:
        return self.registry.names()

    def clusters(self) -> Iterable[str]:
        dialled = {link.gateway for link in self.gateways.inbound.values()}
        return dialled | set(self.gateways.remotes)

    def advise(
        self, account: str, gateway: str, mode: str, until: float, most: int | None
    ) -> PolicyAdvice:
        advice = PolicyAdvice(account, gateway, mode, until, most)
        self.policy.advise(advice)
        for link in list(self.gateways.inbound.values()):
            if link.gateway == gateway and link.traffic is not None:
                link.traffic.reconsider()
        return advice

    def withdraw(self, account: str, gateway: str) -> bool:
        return self.policy.withdraw(gateway, account)

    def advice(self) -> Iterable[PolicyAdvice]:
        return self.policy.advice()

    def rowFor(self, gateway: str, account: str) -> Mapping[str, Any] | None:
        advice = self.policy.adviceOn(gateway, account)
        return None if advice is None else advice.row()
