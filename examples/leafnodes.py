"""
A hub and a spoke in one process: clients of a broker at the edge and of one in the middle hear each
other, in accounts that each side names for itself.

Run it, and end it with Ctrl-C::

    python examples/leafnodes.py

It prints where clients can connect to each, the hub first. In other terminals, with any NATS
client::

    nats --server nats://shop:shop@127.0.0.1:PORT-OF-THE-HUB sub 'sale.>'
    nats --server nats://127.0.0.1:PORT-OF-THE-SPOKE pub sale.coffee 1

The spoke dials the hub as the user C{shop}, so that its only account is the hub's C{SHOP}; what the
hub's other accounts say never gets there.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from natsbroker import Broker
from natsbroker.config.model import AccountSettings, Settings, User
from natsbroker.config.settings.leafnodes import Leafnodes, RemoteLeaf


async def started(reactor: Any, settings: Settings) -> Broker:
    """
    Start a broker, which ends with the process.
    """
    broker = Broker(settings, reactor=reactor)
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    return broker


async def main(reactor: Any) -> None:
    """
    Serve until the process ends.
    """
    shop = AccountSettings("SHOP", users=(User("shop", "shop", "SHOP"),))
    hub = await started(
        reactor,
        Settings(
            server_name="hub",
            host="127.0.0.1",
            port=-1,
            accounts={"SHOP": shop},
            leafnodes=Leafnodes(host="127.0.0.1", port=-1),
        ),
    )
    (place,) = hub.addresses()["leafnodes"]
    remote = RemoteLeaf((place.replace("://", "://shop:shop@"),))
    spoke = await started(
        reactor,
        Settings(
            server_name="spoke", host="127.0.0.1", port=-1, leafnodes=Leafnodes(remotes=(remote,))
        ),
    )
    for broker in (hub, spoke):
        print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, [])
