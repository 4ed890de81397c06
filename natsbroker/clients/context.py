"""The common values of all client connections; a reload replaces them."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from twisted.internet.interfaces import IReactorTime

from natsbroker import errors, hot
from natsbroker.accounts.registry import AccountRegistry
from natsbroker.advisories import Advisory
from natsbroker.auth.proxies import TrustedProxies
from natsbroker.clients.info import ServerInfo
from natsbroker.config.model import Settings
from natsbroker.connections.facts import ConnectionFacts
from natsbroker.connections.wheel import DeadlineWheel
from natsbroker.interfaces import IAuthorizer
from natsbroker.runtime.observers import PluginCalls

#: The beginning of the reasons of slow consumers.
_SLOW = "Slow Consumer"


@dataclass(frozen=True, slots=True)
class ClosedClient:
    """A closed connection; C{stop} is in seconds since 1970, C{reason} as in monitoring."""

    facts: ConnectionFacts
    stop: float
    reason: str


def _unnoticed(cid: int, account: str) -> None:
    pass


class Connections:
    """
    The open client connections, and the last ones that have ended. C{slow} and C{ended} count by
    reason.

    @ivar total: the number of clients that have connected so far.
    @ivar nextNumber: gives the number of a new connection. Clients and links share them, because
        C{/connz} shows clients and leafnodes by their numbers.
    @ivar left: called with the number and the account of each client that has ended; the account is
        empty for one that was never let in.
    @ivar accountTraffic: of closed connections, by account.
    @ivar stalls: how often a connection was not read because its receivers were behind.
    @ivar accountSlow: how many connections of an account were closed as slow consumers.
    """

    def __init__(self, remember: int = Settings().max_closed_clients) -> None:
        self.total = 0
        self.nextNumber = itertools.count(1).__next__
        self.left: Callable[[int, str], object] = _unnoticed
        self.stalls = 0
        self.slow: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.closed: deque[ClosedClient] = deque(maxlen=remember)
        self.closedTraffic = [0, 0, 0, 0]
        self.accountTraffic: dict[str, list[int]] = {}
        self.accountSlow: dict[str, int] = {}
        self._sessions: dict[int, object] = {}
        self._waiting: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._sessions.values()))

    def nextClient(self) -> int:
        self.total += 1
        return self.nextNumber()

    def add(self, cid: int, session: object) -> None:
        self._sessions[cid] = session

    def get(self, cid: int) -> object | None:
        return self._sessions.get(cid)

    def remove(self, cid: int, closed: ClosedClient, traffic: tuple[int, int, int, int]) -> None:
        """
        Forget a connection, with its messages and bytes in and out. It may never have been added.
        """
        self._sessions.pop(cid, None)
        self.remember(closed)
        self.ended[closed.reason] = self.ended.get(closed.reason, 0) + 1
        account = closed.facts.account
        sums = self.accountTraffic.setdefault(account, [0, 0, 0, 0]) if account else [0, 0, 0, 0]
        for place, count in enumerate(traffic):
            self.closedTraffic[place] += count
            sums[place] += count
        self.left(cid, account)
        if account and closed.reason.startswith(_SLOW):
            self.accountSlow[account] = self.accountSlow.get(account, 0) + 1
        if not self._sessions and self._waiting:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()

    def remember(self, closed: ClosedClient) -> None:
        """Keep a closed client or leafnode for C{/connz}."""
        self.closed.append(closed)

    def whenEmpty(self, call: Callable[[], None]) -> None:
        if self._sessions:
            self._waiting.append(call)
        else:
            call()

    def slowConsumer(self, reason: str) -> None:
        self.slow[reason] = self.slow.get(reason, 0) + 1


def _ignored(advisory: Advisory) -> None:
    pass


@dataclass(eq=False)
class ClientContext:
    """The context; C{logins} are the questions to authorizers, of leafnodes too."""

    reactor: IReactorTime
    accounts: AccountRegistry
    authorizer: IAuthorizer
    info: ServerInfo
    batch: hot.FlushBatch
    settings: Settings = field(default_factory=Settings)
    notify: Callable[[Advisory], None] = _ignored
    random: Random = field(default_factory=Random)
    nonceBytes: Callable[[int], bytes] = os.urandom
    connections: Connections = field(default_factory=Connections)
    fastLane: bool = True
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    logins: PluginCalls = field(default_factory=PluginCalls, init=False)

    def __post_init__(self) -> None:
        self.wheel = DeadlineWheel(self.reactor)

    def checkRoom(self) -> None:
        """Raise L{errors.ConnectionLimit} if no more connections are allowed."""
        maximum = self.settings.max_connections
        if 0 < maximum <= len(self.connections):
            raise errors.ConnectionLimit(errors.MAX_CONNECTIONS)


class AuthorizerSource:
    """Gives the authorizer of some clients, made from the settings in force."""

    def __init__(self, everyone: ClientContext, make: Callable[[], IAuthorizer | None]) -> None:
        """
        @param make: makes the authorizer, or gives C{None} for that of all clients; called again
            when that changes.
        """
        self._everyone = everyone
        self._make = make
        self._known: tuple[IAuthorizer, IAuthorizer] | None = None

    def __call__(self) -> IAuthorizer:
        general, known = self._everyone.authorizer, self._known
        if known is None or known[0] is not general:
            known = self._known = (general, self._make() or general)
        return known[1]


class ListenerContext:
    """
    The context of the clients of one listener. It differs from that of all clients where the
    listener has settings of its own. Parts that a reload replaces are always read from the context
    of all clients.
    """

    def __init__(
        self,
        everyone: ClientContext,
        settings: Callable[[Settings], Settings],
        info: Callable[[ServerInfo], ServerInfo],
        authorizer: Callable[[], IAuthorizer],
    ) -> None:
        """
        @param settings: makes the settings of the listener from those of all clients.
        @param info: makes the INFO of the listener from that of all clients.
        @param authorizer: gives the authorizer of the listener's clients.
        """
        self._everyone = everyone
        self._settings = settings
        self._info = info
        self._authorizer = authorizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._everyone, name)

    @property
    def settings(self) -> Settings:
        return self._settings(self._everyone.settings)

    @property
    def info(self) -> ServerInfo:
        return self._info(self._everyone.info)

    @property
    def authorizer(self) -> IAuthorizer:
        return self._authorizer()
