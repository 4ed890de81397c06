"""
A cluster of three brokers in one process: a client of one hears what a client of another says.

Run it, and end it with Ctrl-C::

    python examples/cluster.py

With C{classic} behind it, the members speak the dialect of old servers with each other, and with
C{auto} whatever the peer speaks.

It prints where clients can connect to each member. In other terminals, with any NATS client::

    nats --server nats://127.0.0.1:PORT-OF-ONE sub greet
    nats --server nats://127.0.0.1:PORT-OF-ANOTHER pub greet hello

The second and the third broker know the first; they find each other by gossip.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from natsbroker import Broker
from natsbroker.config.model import Cluster, Settings


async def member(reactor: Any, dialect: str, name: str, *routes: str) -> Broker:
    """
    Start a member of the cluster.

    @param dialect: what is spoken on routes.
    @param routes: URLs of members that are there already.
    """
    cluster = Cluster(name="example", host="127.0.0.1", port=-1, routes=routes, dialect=dialect)
    broker = Broker(
        Settings(server_name=name, host="127.0.0.1", port=-1, cluster=cluster), reactor=reactor
    )
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    return broker


async def main(reactor: Any, dialect: str = "modern") -> None:
    """
    Serve until the process ends.
    """
    first = await member(reactor, dialect, "a")
    seed = first.addresses()["cluster"]
    others = [await member(reactor, dialect, name, *seed) for name in ("b", "c")]
    for broker in (first, *others):
        print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:2])
