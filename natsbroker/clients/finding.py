"""
Finding and closing clients. A client that is closed gets its waiting messages if it reads them
soon.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from natsbroker import errors
from natsbroker.accounts.registry import AccountRegistry
from natsbroker.clients.context import ClientContext, Connections
from natsbroker.clients.session import ClientSession
from natsbroker.config.settings.authorization import UNLIMITED


def sessionsOf(connections: Connections) -> list[ClientSession]:
    return [connection for connection in connections if isinstance(connection, ClientSession)]


def sessionOf(connections: Connections, cid: int) -> ClientSession | None:
    connection = connections.get(cid)
    return connection if isinstance(connection, ClientSession) else None


def closeExcess(context: ClientContext, accounts: AccountRegistry, account: str) -> None:
    maximum = accounts.limits(account).max_connections
    if maximum == UNLIMITED or accounts.connections(account) <= maximum:
        return
    sessions = sessionsOf(context.connections)
    mine = [session for session in sessions if session.grant and session.grant.account == account]
    for session in sorted(mine, key=lambda own: (own.started, own.cid))[maximum:]:
        session.close(errors.MAX_ACCOUNT_CONNECTIONS)


def kick(connections: Connections, cid: int) -> bool:
    session = sessionOf(connections, cid)
    if session is not None:
        session.close(errors.KICKED)
    return session is not None


def askToLeave(connections: Connections, cid: int) -> bool:
    session = sessionOf(connections, cid)
    if session is not None:
        session.sendInfo(isLeaving=True)
    return session is not None


def closeAll(connections: Connections) -> Deferred[None]:
    gone: Deferred[None] = Deferred()
    for session in sessionsOf(connections):
        session.close(errors.SERVER_SHUTDOWN)
    connections.whenEmpty(lambda: gone.callback(None))
    return gone
