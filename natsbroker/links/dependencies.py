"""
What a broker gives to links of every kind, as one value.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from natsbroker.accounts.registry import AccountRegistry
from natsbroker.clients.context import ClientContext
from natsbroker.config.model import Settings

__all__ = ["LinkDependencies"]


@dataclass(frozen=True, slots=True)
class LinkDependencies:
    """
    What a broker gives to links of every kind.

    @ivar settings: those that it begins with.
    @ivar clients: what is shared with client connections: turns, deadlines, tracing.
    @ivar accounts: where what comes over links goes.
    """

    reactor: Any
    settings: Settings
    clients: ClientContext
    accounts: AccountRegistry
    serverId: str
    random: Random
