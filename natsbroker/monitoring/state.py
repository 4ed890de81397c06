"""
What the pages share of one broker.

Promises: the parts of a broker that the pages look at, in one place; a reload replaces the settings
and says when.
Must never know: which pages there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from natsbroker.accounts.account import Account
from natsbroker.clients.context import ClientContext
from natsbroker.config.model import Settings
from natsbroker.monitoring.process import ProcessUsage

__all__ = ["BrokerState"]


@dataclass(slots=True)
class BrokerState:
    """
    @ivar context: what client connections share.
    @ivar accounts: all accounts, every time that they are gone through.
    @ivar settings: the settings in force.
    @ivar startTime: when the broker began, in seconds since the epoch.
    @ivar configLoadTime: when the settings were loaded.
    @ivar process: what the process uses.
    """

    context: ClientContext
    accounts: Iterable[Account]
    settings: Settings
    startTime: float
    configLoadTime: float
    process: ProcessUsage

    def seconds(self) -> float:
        """
        The time, in seconds since the epoch.
        """
        return self.context.reactor.seconds()

    @property
    def systemAccount(self) -> str:
        """
        The name of the account for the broker's events; empty if there is none.
        """
        return "" if self.settings.no_system_account else self.settings.system_account
