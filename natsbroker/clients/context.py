"""
What all client connections of a broker share.

One place where a connection finds its authorizer, its account, its limits and its
timers; a reload replaces the values in it and running connections see the new ones.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from natsbroker import errors, hot
from natsbroker.advisories import Advisory
from natsbroker.clients.facts import ConnectionFacts
from natsbroker.clients.info import ServerInfo
from natsbroker.clients.limits import ClientLimits
from natsbroker.config.model import Settings
from natsbroker.connections.wheel import DeadlineWheel
from natsbroker.interfaces import IAuthorizer, IMessageBus
from natsbroker.wire.grants import Grant

__all__ = ["Accounts", "ClientContext", "ClosedClient", "Connections", "Tracing", "tracingFrom"]

_log = Logger(namespace="natsbroker")


class Accounts(Protocol):
    """
    Where a connection that was let in finds its account.
    """

    def admit(self, grant: Grant) -> IMessageBus:
        """
        Count a connection in and give it the account's bus.

        @raise KeyError: if there is no such account.
        @raise errors.ConnectionLimit: if the account takes no more connections.
        """

    def dismiss(self, grant: Grant) -> None:
        """
        Count a connection out again.
        """

    def isSystem(self, account: str) -> bool:
        """
        Whether this is the system account.
        """


@dataclass(slots=True)
class Tracing:
    """
    How much of the protocol is logged.

    @ivar protocol: operations are logged.
    @ivar system: those of the system account too.
    @ivar maxLength: how many bytes of a payload are shown; 0 for all.
    @ivar headersOnly: the headers of messages are shown and not their payload.
    """

    protocol: bool = False
    system: bool = False
    maxLength: int = 0
    headersOnly: bool = False


def tracingFrom(settings: Settings) -> Tracing:
    logging = settings.logging
    return Tracing(
        protocol=logging.trace or logging.trace_verbose,
        system=logging.trace_verbose,
        maxLength=logging.max_traced_msg_len,
        headersOnly=logging.trace_headers,
    )


#: How many connections are remembered after their end, unless the settings say another number.
REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class ClosedClient:
    """
    What is remembered of a connection that is gone, for monitoring.

    @ivar facts: the connection as it was at its end; nothing of it is kept alive.
    @ivar stop: when it ended, in seconds since the epoch.
    @ivar reason: the closed reason as monitoring shows it.
    """

    facts: ConnectionFacts
    stop: float
    reason: str


class Connections:
    """
    The client connections there are, and the last ones that were.

    @ivar total: how many there have ever been.
    @ivar slow: how many were cut as slow consumers, by reason.
    @ivar ended: how many have ended, by reason.
    """

    def __init__(self, remember: int = REMEMBERED) -> None:
        """
        @param remember: how many are remembered after their end; 0 for none.
        """
        self.total = 0
        self.slow: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.closed: deque[ClosedClient] = deque(maxlen=remember)
        self.closedTraffic = [0, 0, 0, 0]
        self._sessions: dict[int, object] = {}
        self._waiting: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._sessions.values()))

    def nextNumber(self) -> int:
        """
        A number for a new connection.
        """
        self.total += 1
        return self.total

    def add(self, cid: int, session: object) -> None:
        """
        A connection began.
        """
        self._sessions[cid] = session

    def get(self, cid: int) -> object | None:
        """
        The connection with a number, if it is still there.
        """
        return self._sessions.get(cid)

    def remove(self, cid: int, closed: ClosedClient, traffic: tuple[int, int, int, int]) -> None:
        """
        A connection ended, perhaps one that was refused and never added.

        @param traffic: messages in, bytes in, messages out, bytes out.
        """
        self._sessions.pop(cid, None)
        self.closed.append(closed)
        self.ended[closed.reason] = self.ended.get(closed.reason, 0) + 1
        for place, count in enumerate(traffic):
            self.closedTraffic[place] += count
        if not self._sessions and self._waiting:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()

    def whenEmpty(self, call: Callable[[], None]) -> None:
        """
        Have something called once when there is no connection: perhaps now.
        """
        if self._sessions:
            self._waiting.append(call)
        else:
            call()

    def slowConsumer(self, reason: str) -> None:
        """
        Count a slow consumer.
        """
        self.slow[reason] = self.slow.get(reason, 0) + 1


class ClientContext:
    """
    What a client connection needs of the broker.

    @ivar reactor: for time and timers.
    @ivar turn: collects what one chunk of input causes.
    @ivar accounts: where grants lead.
    @ivar authorizer: decides who is let in.
    @ivar info: the content of INFO.
    @ivar limits: the limits in force.
    @ivar tracing: how much of the protocol is logged.
    @ivar fastLane: whether connections may take the fast lane.
    @ivar connections: all there are.
    @ivar wheel: everybody's deadlines.
    @ivar random: for jitter.
    @ivar notify: takes advisories.
    @ivar nonceBytes: makes the bytes of a nonce.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        accounts: Accounts,
        authorizer: IAuthorizer,
        info: ServerInfo,
        limits: ClientLimits | None = None,
        turn: hot.FlushBatch | None = None,
        notify: Callable[[Advisory], None] | None = None,
        random: Random | None = None,
        nonceBytes: Callable[[int], bytes] = os.urandom,
        connections: Connections | None = None,
    ) -> None:
        self.reactor = reactor
        self.accounts = accounts
        self.authorizer = authorizer
        self.info = info
        self.limits = limits or ClientLimits()
        self.turn = turn or hot.FlushBatch(lambda call: reactor.callLater(0, call), _log.failure)
        self.tracing = Tracing()
        self.fastLane = True
        self.connections = Connections() if connections is None else connections
        self.wheel = DeadlineWheel(reactor)
        self.random = random or Random()
        self.notify = notify or _ignored
        self.nonceBytes = nonceBytes

    def checkRoom(self) -> None:
        """
        Check that one more connection is allowed.

        @raise errors.ConnectionLimit: if not.
        """
        maximum = self.limits.max_connections
        if 0 < maximum <= len(self.connections):
            raise errors.ConnectionLimit(errors.MAX_CONNECTIONS)


def _ignored(advisory: Advisory) -> None:
    """
    An advisory without observers.
    """
