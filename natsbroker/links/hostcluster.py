"""
The brokers of one host that are one server together: neighbours, with routes over UNIX sockets.

The sockets are in a directory that is private to one user: a connection is its own login.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred, execute
from twisted.internet.interfaces import IListeningPort, IStreamServerEndpoint
from zope.interface import implementer

from natsbroker.connections.opensocket import BACKLOG

#: Only the same user of the system may connect.
_MODE = 0o600


@dataclass(frozen=True, slots=True)
class HostCluster:
    """
    The cluster, as one of its brokers sees it. Each dials those with a lower number.

    @ivar directory: of the sockets.
    @ivar number: of this broker, from 1.
    @ivar count: of the brokers.
    @ivar announces: whether this broker logs where links listen, which is the same at all.
    @ivar ask: a L{natsbroker.system.shared.Ask}; C{None} for brokers that have no parent.
    @ivar isSpeaking: whether this broker speaks for the server now.
    """

    directory: str
    number: int
    count: int
    announces: bool = True
    ask: Callable[..., Deferred[Any]] | None = None
    isSpeaking: Callable[[], bool] = lambda: True

    @property
    def path(self) -> str:
        return self._pathOf(self.number)

    def memberName(self, name: str) -> str:
        """
        The name of this broker as a member of a cluster, where no two may have the same.

        @param name: of the server; empty for none.
        """
        return f"{name}-{self.number}" if name else ""

    def connectionNumbers(self) -> Iterator[int]:
        """Numbers that no neighbour has; multiples of C{count + 1} are for their parent."""
        return itertools.count(self.number, self.count + 1)

    def lower(self) -> Iterator[str]:
        """The sockets to dial."""
        return map(self._pathOf, range(1, self.number))

    def _pathOf(self, number: int) -> str:
        return os.path.join(self.directory, f"worker-{number}")


@implementer(IStreamServerEndpoint)
@dataclass(frozen=True, eq=False)
class SocketFileEndpoint:
    """A UNIX socket in a directory of ours. It replaces that of a process which was killed."""

    reactor: Any
    path: str

    def listen(self, protocolFactory: Any) -> Deferred[IListeningPort]:
        return execute(self._listen, protocolFactory)

    def _listen(self, factory: Any) -> IListeningPort:
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        port: IListeningPort = self.reactor.listenUNIX(self.path, factory, BACKLOG, _MODE)
        return port
