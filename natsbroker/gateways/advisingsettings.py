"""
Advice to the gateway interest policy of one broker.

What is advised holds for the connections that there are at once, and for new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred

from natsbroker.accounts.registry import AccountRegistry
from natsbroker.export.gatewayadvice import AdviceService, adviceRow
from natsbroker.gateways.advice import AdvisedPolicy, PolicyAdvice
from natsbroker.gateways.registry import GatewayRegistry
from natsbroker.interfaces import IMessageBus
from natsbroker.subjects.grammar import isValidLiteral


class GatewayAdvice:
    """
    Provides L{natsbroker.export.gatewayadvice.Advised}.
    """

    def __init__(
        self, policy: AdvisedPolicy, gateways: GatewayRegistry, accounts: AccountRegistry
    ) -> None:
        self._policy = policy
        self._gateways = gateways
        self._accounts = accounts

    @property
    def name(self) -> str:
        return self._gateways.terms.block.name

    def accounts(self) -> Iterable[str]:
        return self._accounts.names()

    def clusters(self) -> Iterable[str]:
        """
        The names of the known clusters and of those that have dialled us.
        """
        dialled = {each.gateway for each in self._gateways.inbound.values()}
        return dialled | set(self._gateways.remotes)

    def advise(
        self, account: str, gateway: str, mode: str, until: float, most: int | None
    ) -> PolicyAdvice:
        """
        @raise ValueError: if there is too much advice.
        """
        advice = PolicyAdvice(account, gateway, mode, until, most)
        self._policy.advise(advice)
        for link in list(self._gateways.inbound.values()):
            if link.gateway == gateway and link.traffic is not None:
                link.traffic.reconsider()
        return advice

    def withdraw(self, account: str, gateway: str) -> bool:
        return self._policy.withdraw(gateway, account)

    def advice(self) -> Iterable[PolicyAdvice]:
        return self._policy.advice()

    def rowFor(self, gateway: str, account: str) -> Mapping[str, Any] | None:
        """
        The JSON row of the advice in force; C{None} for none.
        """
        found = self._policy.adviceOn(gateway, account)
        return None if found is None else adviceRow(found)


class AdviceResponder(Service):
    """
    Answers requests about advice while it runs, in the system account.
    """

    def __init__(
        self,
        advice: GatewayAdvice,
        bus: Callable[[], IMessageBus | None],
        server: Callable[[], str],
        now: Callable[[], float],
    ) -> None:
        """
        @param bus: gives the system account's; C{None} for none.
        @param server: gives the broker's id.
        @param now: the time in seconds since the epoch.
        """
        self._advice = advice
        self._bus = bus
        self._server = server
        self._now = now
        self._answering: AdviceService | None = None

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        bus, name = self._bus(), self._advice.name
        if bus is not None and isValidLiteral(name.encode("utf-8", "surrogateescape")):
            self._answering = AdviceService(bus, name, self._advice, self._server, self._now)

    def stopService(self) -> Deferred[None] | None:
        answering, self._answering = self._answering, None
        if answering is not None:
            answering.stop()
        stopping: Deferred[None] | None = super().stopService()  # type: ignore[no-untyped-call]
        return stopping
