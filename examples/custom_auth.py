"""
A custom authorizer: the application decides who may connect, and what they may do.

The users are in a table of the application. Each may publish below C{orders.NAME}, and read all
orders if it is a clerk. A user that is locked out loses its connections at once.

Run it with the port that clients connect to, and end it with Ctrl-C::

    python examples/custom_auth.py 4222

Then, with any NATS client::

    nats --server nats://anna:apple@127.0.0.1:4222 sub 'orders.>'
    nats --server nats://bob:banana@127.0.0.1:4222 pub orders.bob.new 'two cups'

A broker with a configuration file takes the authorizer as a plugin: a module in C{twisted/plugins/}
of an installed package says C{table = TablePlugin()}, and the file says
C{authorization { plugin: table, clerk: anna }}.

The annotations satisfy any type checker: methods of the plugin are annotated with the classes that
they return, not with interfaces.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import react
from twisted.plugin import IPlugin
from zope.interface import implementer

from natsbroker import Broker
from natsbroker.auth.authenticator import Authenticator
from natsbroker.config.model import Settings
from natsbroker.errors import Unauthorized
from natsbroker.interfaces import IAuthorizerPlugin, IBrokerHost
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.grants import ConnectRequest, Grant


@dataclass
class User:
    """
    A row of the table.
    """

    name: str
    password: str
    isClerk: bool = False


class Table:
    """
    The table of users. A real one would be a database, which takes its time: so does this one.
    """

    def __init__(self, *users: User) -> None:
        self._users = {user.name: user for user in users}

    def find(self, name: str) -> Deferred[User | None]:
        """Look up a user."""
        return succeed(self._users.get(name))

    def drop(self, name: str) -> None:
        """Remove a user."""
        self._users.pop(name, None)


class TableAuthenticator(Authenticator):
    """Accepts the users in the table."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table

    async def authenticate(self, request: ConnectRequest) -> User:
        """
        Say who a connection is.
        """
        user = await self._table.find(request.text("user"))
        given = request.text("pass").encode("utf-8")
        if user is None or not hmac.compare_digest(user.password.encode("utf-8"), given):
            raise Unauthorized("unknown user or wrong password")
        return user

    def grant(self, avatar: User, request: ConnectRequest) -> Grant:
        """
        Say what a user may do: data that the broker then checks by itself, message by message.
        """
        own = b"orders.%b.>" % avatar.name.encode("utf-8")
        readable = [b"_INBOX.>", b"orders.>" if avatar.isClerk else own]
        return Grant(
            user=avatar.name,
            publish=PermissionSet([own]),
            subscribe=SubscribePermissions(readable),
        )

    def lockOut(self, name: str) -> None:
        """Refuse a user from now on, and end its connections."""
        self._table.drop(name)
        self.revoke()


def makeAuthenticator(clerk: str = "anna") -> TableAuthenticator:
    """
    The authenticator with the users of this example.

    @param clerk: the name of the user who reads all orders.
    """
    users = [User("anna", "apple"), User("bob", "banana")]
    for user in users:
        user.isClerk = user.name == clerk
    return TableAuthenticator(Table(*users))


@implementer(IPlugin, IAuthorizerPlugin)
class TablePlugin:
    """
    Makes the authenticator for a broker.
    """

    name = "table"

    def makeAuthorizer(self, host: IBrokerHost, section: Mapping[str, Any]) -> TableAuthenticator:
        if set(section) - {"clerk"}:
            raise ValueError('the only option is "clerk", the name of a user')
        return makeAuthenticator(str(section.get("clerk", "anna")))


async def main(reactor: Any, port: str = "4222") -> None:
    """
    Serve until the process ends.

    @param port: for clients; 0 for any that is free.
    """
    settings = Settings(host="127.0.0.1", port=int(port) or -1)
    broker = Broker(settings, reactor=reactor, authorizer=makeAuthenticator())
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
