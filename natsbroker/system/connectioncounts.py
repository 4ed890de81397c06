"""
The events of the system account about the connections of accounts::

    $SYS.ACCOUNT.<account>.SERVER.CONNS     a client or leafnode came or went
    $SYS.SERVER.ACCOUNT.<account>.CONNS     the same under its old subject

They show what the account has then; changes that follow each other closely are one event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.advisories import (
    Advisory,
    ClientConnected,
    ClientDisconnected,
    LeafConnected,
    LeafDisconnected,
)
from natsbroker.interfaces import IMessageBus, IObserver
from natsbroker.runtime.responder import Describe
from natsbroker.wire.clientinfo import compact, eventId
from natsbroker.wire.instants import instant
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker")

_CHANGES = (ClientConnected, ClientDisconnected, LeafConnected, LeafDisconnected)

#: Seconds for which changes are collected: an event goes through all connections.
_DELAY = 0.05


@implementer(IObserver)
@dataclass(eq=False)
class ConnectionCounts:
    """
    Publishes counts on the system account's bus, if there is one.

    @ivar rows: gives the C{/accstatz} rows of some accounts.
    """

    bus: Callable[[], IMessageBus | None]
    describe: Describe
    rows: Callable[[Collection[str]], Deferred[list[dict[str, Any]]]]
    reactor: Any
    random: Random
    _changed: dict[str, None] = field(default_factory=dict, init=False)

    def observe(self, advisory: Advisory) -> None:
        if not isinstance(advisory, _CHANGES) or not self._wanted(advisory.account):
            return
        if not self._changed:
            self.reactor.callLater(_DELAY, self._report)
        self._changed[advisory.account] = None

    def _wanted(self, account: str) -> list[bytes]:
        bus = self.bus()
        if bus is None or not account:
            return []
        subjects = f"$SYS.SERVER.ACCOUNT.{account}.CONNS", f"$SYS.ACCOUNT.{account}.SERVER.CONNS"
        return [subject for subject in map(str.encode, subjects) if bus.hasInterest(subject)]

    def _report(self) -> None:
        names, self._changed = list(self._changed), {}
        reporting = self.rows(names).addCallback(self._publish)
        reporting.addErrback(lambda why: _log.failure("Connections cannot be counted", why))

    def _publish(self, rows: list[dict[str, Any]]) -> None:
        bus = self.bus()
        if bus is None:
            return
        for row in rows:
            for subject in self._wanted(row["acc"]):
                now = instant(self.reactor.seconds())
                event = connectionCounts(self.describe(), eventId(self.random), now, row)
                bus.publish(Message(subject, compact(event)))


def connectionCounts(server: Any, number: str, now: str, row: dict[str, Any]) -> dict[str, Any]:
    """The event about an account's connections, from its C{/accstatz} row."""
    return {
        "type": "io.nats.server.advisory.v1.account_connections",
        "id": number,
        "timestamp": now,
        "server": server,
        **row,
    }
