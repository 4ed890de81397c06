"""
A super-cluster in one process: two clusters of two brokers each, joined by gateways.

Run it, and end it with Ctrl-C::

    python examples/supercluster.py

It prints where clients can connect to each broker, first those of the one cluster, then those of
the other. In other terminals, with any NATS client::

    nats --server nats://127.0.0.1:PORT-OF-THE-FIRST sub greet
    nats --server nats://127.0.0.1:PORT-OF-THE-LAST pub greet hello

Only the second cluster knows the first one, and only one of its members: the rest is found
by gossip.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from natsbroker import Broker
from natsbroker.config.model import Cluster, Gateway, RemoteGateway, Settings


async def member(
    reactor: Any, name: str, cluster: str, mates: list[Broker], *others: RemoteGateway
) -> Broker:
    """
    Start a member of a cluster.

    @param mates: members that are there already.
    @param others: other clusters.
    """
    routes = tuple(url for mate in mates for url in mate.addresses()["cluster"])
    settings = Settings(
        server_name=name,
        host="127.0.0.1",
        port=-1,
        cluster=Cluster(name=cluster, host="127.0.0.1", port=-1, routes=routes),
        gateway=Gateway(name=cluster, host="127.0.0.1", port=-1, gateways=others),
    )
    broker = Broker(settings, reactor=reactor)
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    mates.append(broker)
    return broker


async def main(reactor: Any) -> None:
    """
    Serve until the process ends.
    """
    east: list[Broker] = []
    west: list[Broker] = []
    for name in ("east-1", "east-2"):
        await member(reactor, name, "EAST", east)
    known = RemoteGateway("EAST", tuple(east[0].addresses()["gateway"]))
    for name in ("west-1", "west-2"):
        await member(reactor, name, "WEST", west, known)
    for broker in (*east, *west):
        print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main)
