"""
What a broker gives to links of every kind, as one value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from natsbroker.accounts.registry import AccountRegistry
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.clients.context import ClientContext
from natsbroker.config.model import Settings
from natsbroker.interfaces import IGatewayInterestPolicy, IMessageBus


@dataclass(frozen=True, slots=True)
class LinkDependencies:
    """
    @ivar settings: those that it begins with.
    @ivar clients: what is shared with client connections: turns, deadlines, tracing.
    @ivar checks: compare the passwords of leafnodes.
    @ivar policy: makes what decides which messages other clusters receive.
    @ivar systemBus: gives the bus of the system account; C{None} without one.
    """

    reactor: Any
    settings: Settings
    clients: ClientContext
    accounts: AccountRegistry
    serverId: str
    random: Random
    checks: PasswordChecks
    policy: Callable[[], IGatewayInterestPolicy]
    systemBus: Callable[[], IMessageBus | None]
