"""Answers to requests in the system account about a server that is several brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred

Ask = Callable[..., Deferred[Any]]
"""
Calls a method of the L{natsbroker.system.answers.SystemAnswers} about all of them, by its name and
with its arguments.
"""


@dataclass(frozen=True)
class SharedAnswers:
    """
    The interface of L{natsbroker.system.answers.SystemAnswers}, with answers about several brokers.
    """

    ask: Ask

    def whileWanted(self, isWanted: Callable[[], bool]) -> SharedAnswers:
        """The same answers: one that is no longer wanted is made nevertheless."""
        return self

    def ofServer(self, kind: str, body: bytes) -> Deferred[Any]:
        return self.ask("ofServer", kind, body)

    def ofAccount(self, kind: str, account: str, body: bytes) -> Deferred[Any]:
        return self.ask("ofAccount", kind, account, body)

    def ofAction(self, kind: str, body: bytes) -> Deferred[bytes | None]:
        return self.ask("ofAction", kind, body)

    def ofSubscribers(self, body: bytes) -> Deferred[Any]:
        return self.ask("ofSubscribers", body)

    def accountRows(self, names: Collection[str]) -> Deferred[list[dict[str, Any]]]:
        return self.ask("accountRows", tuple(names))
