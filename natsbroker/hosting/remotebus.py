"""
NATS Streaming on the bus of another NATS server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.ssl import optionsForClientTLS

from natsbroker.client.bus import RemoteBus
from natsbroker.client.client import Client
from natsbroker.client.connecting import connect
from natsbroker.client.options import ConnectOptions
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.streaming import Streaming, splitServers
from natsbroker.errors import NoResponders, RequestTimeout
from natsbroker.hosting.start import StartError
from natsbroker.interfaces import ILeasedStore, IStreamStore
from natsbroker.requests import request
from natsbroker.stan.names import Subjects

__all__ = ["onlyServer", "optionsFor", "remoteBus"]

#: Seconds in which another streaming server would answer, as nats-streaming-server waits.
_PATIENCE = 0.25


def remoteBus(reactor: Any, streaming: Streaming) -> RemoteBus:
    """
    The bus of the server that the settings name; its service must be started.

    @raise ValueError: if a URL is none.
    """
    places = splitServers(streaming.nats_server)

    def dial() -> Deferred[Client]:
        # The next attempt is at the next server.
        place = places[0]
        places.append(places.pop(0))
        endpoint = HostnameEndpoint(reactor, place.host, place.port)
        isTLS = streaming.secure or place.isTLS
        tls = optionsForClientTLS(place.host) if isTLS else None
        return connect(endpoint, optionsFor(streaming, place), tls=tls, reactor=reactor)

    return RemoteBus(reactor, dial)


def optionsFor(streaming: Streaming, place: RemoteURL) -> ConnectOptions:
    """
    As whom the service logs in: the URL decides, before the other settings. A URL with a name alone
    has a token.
    """
    name = f"_NSS-{streaming.cluster_id}-general"
    if place.user and place.password is None:
        return ConnectOptions(name, token=place.user)
    if place.user:
        return ConnectOptions(name, place.user, place.password or "")
    return ConnectOptions(name, streaming.username, streaming.password, streaming.token)


def onlyServer(
    bus: RemoteBus, reactor: Any, streaming: Streaming, openStore: Callable[[], Any]
) -> Callable[[], Deferred[IStreamStore]]:
    """
    Open the store of a service on another server's bus, if no other streaming server is there for
    the same cluster: clients would be answered twice. Brokers that share a store agree by it.

    @param openStore: opens it.
    @return: a callable whose Deferred fails with L{StartError} if there is another one.
    """
    subjects = Subjects(streaming.cluster_id, streaming.discover_prefix)

    async def opened() -> IStreamStore:
        await bus.whenPrepared()
        store: IStreamStore = await openStore()
        if ILeasedStore.providedBy(store):
            return store
        try:
            # Any answer will do. This request is refused, so that no client is registered.
            await request(bus, reactor, subjects.discover, b"", _PATIENCE)
        except (NoResponders, RequestTimeout):
            return store
        await store.close()
        raise StartError(
            f'discovered another streaming server with cluster ID "{streaming.cluster_id}"'
        )

    return lambda: ensureDeferred(opened())
