"""The parts of a broker that the pages read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from natsbroker.accounts.account import Account
from natsbroker.clients.context import ClientContext
from natsbroker.config.model import Settings
from natsbroker.runtime.process import ProcessUsage


@dataclass(slots=True)
class BrokerState:
    """C{accounts} is iterated for each request; a reload replaces C{settings}."""

    context: ClientContext
    accounts: Iterable[Account]
    settings: Settings
    startTime: float
    configLoadTime: float
    process: ProcessUsage

    def seconds(self) -> float:
        return self.context.reactor.seconds()

    @property
    def systemAccount(self) -> str:
        return "" if self.settings.no_system_account else self.settings.system_account
