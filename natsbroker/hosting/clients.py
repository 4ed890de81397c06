"""
Closing all clients.

Promises: each gets what waits for it if it takes it soon.
Must never know: why they are closed.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from natsbroker import errors
from natsbroker.net.context import Connections
from natsbroker.net.session import ClientSession

__all__ = ["closeAll", "sessionsOf"]


def sessionsOf(connections: Connections) -> list[ClientSession]:
    """
    The sessions of all connections that there are now.
    """
    return [each for each in connections if isinstance(each, ClientSession)]


def closeAll(connections: Connections) -> Deferred[None]:
    """
    Close every connection.

    @return: fires when there is none.
    """
    gone: Deferred[None] = Deferred()
    for session in sessionsOf(connections):
        session.close(errors.SERVER_SHUTDOWN)
    connections.whenEmpty(lambda: gone.callback(None))
    return gone
