"""
NATS Streaming with a custom authorizer: the application decides who may use which channel.

Shops publish to a channel of their own. The warehouse reads the channels of all shops, with durable
subscriptions that only the chief can unsubscribe. A shop that moves out may publish no more, from
that moment on.

Run it with the port that clients connect to, and with a folder if messages have to survive a
restart; end it with Ctrl-C::

    python examples/channels.py 4222 /tmp/orders

Then, with any NATS Streaming client, as user C{anna} with password C{apple}, publish to channel
C{orders.anna}; as C{warehouse} with password C{walnut}, subscribe to it.
"""

from __future__ import annotations

import hmac
import sys
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from natsbroker import Broker
from natsbroker.auth.authenticator import Authenticator
from natsbroker.config.model import Settings
from natsbroker.config.settings.streaming import Streaming
from natsbroker.errors import Unauthorized
from natsbroker.streaming.permissions import channelPermissions
from natsbroker.wire.grants import ConnectRequest, Grant


@dataclass
class User:
    """
    Somebody who may connect.

    @ivar writes: channels that may be published to.
    @ivar reads: channels that may be subscribed to.
    @ivar isChief: whether such subscriptions may be ended for good.
    """

    name: str
    password: str
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    isChief: bool = False


class ChannelAuthenticator(Authenticator):
    """
    Lets users in, and says which channels they may use.
    """

    def __init__(self, *users: User) -> None:
        super().__init__()
        self._users = {user.name: user for user in users}

    def authenticate(self, request: ConnectRequest) -> User:
        """
        Say who a connection is.
        """
        user = self._users.get(request.text("user"))
        given = request.text("pass").encode("utf-8")
        if user is None or not hmac.compare_digest(user.password.encode("utf-8"), given):
            raise Unauthorized("unknown user or wrong password")
        return user

    def grant(self, avatar: User, request: ConnectRequest) -> Grant:
        """Find out which user a connection has."""
        publish, subscribe = channelPermissions(
            publish=avatar.writes,
            subscribe=avatar.reads,
            unsubscribe=avatar.reads if avatar.isChief else (),
        )
        return Grant(user=avatar.name, publish=publish, subscribe=subscribe)

    def moveOut(self, name: str) -> None:
        """Take a user's permission to publish, connected or not."""
        self._users[name].writes = ()
        self.revoke()


def makeAuthenticator() -> ChannelAuthenticator:
    """
    The authenticator with the users of this example.
    """
    return ChannelAuthenticator(
        User("anna", "apple", writes=("orders.anna",)),
        User("bob", "banana", writes=("orders.bob",)),
        User("warehouse", "walnut", reads=("orders.*",)),
        User("chief", "cherry", writes=(">",), reads=(">",), isChief=True),
    )


async def main(reactor: Any, port: str = "4222", folder: str = "") -> None:
    """
    Serve until the process ends.

    @param port: for clients; 0 for any that is free.
    @param folder: for the messages; without one they are in memory.
    """
    streaming = Streaming(store="lmdb", dir=folder) if folder else Streaming()
    settings = Settings(host="127.0.0.1", port=int(port) or -1, streaming=streaming)
    broker = Broker(settings, reactor=reactor, authorizer=makeAuthenticator())
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
