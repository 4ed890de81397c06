"""NATS Streaming on the bus of another NATS server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.ssl import optionsForClientTLS

from natsbroker.accounts.requests import request
from natsbroker.client.bus import RemoteBus
from natsbroker.client.client import Client
from natsbroker.client.connecting import connect
from natsbroker.client.options import ConnectOptions
from natsbroker.config.addresses import RemoteURL, splitAddress
from natsbroker.config.settings.streaming import Streaming, splitServers
from natsbroker.errors import NoResponders, RequestTimeout
from natsbroker.interfaces import ILeasedStore, IStreamStore
from natsbroker.links.dialling import peerEndpoint
from natsbroker.links.tls import isAddress
from natsbroker.runtime.failures import StartError
from natsbroker.subjects.channels import RequestSubjects

#: Seconds in which another streaming server would answer, as nats-streaming-server waits.
_PATIENCE = 0.25

#: Seconds in which a server has to be reached.
_TIMEOUT = 2.0


def remoteBus(reactor: Any, streaming: Streaming) -> RemoteBus:
    named = splitServers(streaming.nats_server)
    servers = ServerPool(named)

    def dial(heardOf: Sequence[str]) -> Deferred[Client]:
        place = servers.next(heardOf)
        endpoint = peerEndpoint(reactor, place.host, place.port, _TIMEOUT)
        isTLS = streaming.secure or place.isTLS
        # Members of a cluster tell their addresses; the certificate has the name that was given.
        name = named[0].host if isAddress(place.host) else place.host
        tls = optionsForClientTLS(name) if isTLS else None
        return connect(endpoint, optionsFor(streaming, place), tls=tls, reactor=reactor)

    return RemoteBus(reactor, dial)


class ServerPool:
    def __init__(self, named: Sequence[RemoteURL]) -> None:
        self._named = list(named)
        self._waiting = list(named)

    def next(self, heardOf: Sequence[str]) -> RemoteURL:
        """
        The next server, with the users and TLS of the first in the settings.

        @param heardOf: C{host:port} of members of the cluster, instead of those of earlier calls.
        """
        first = self._named[0]
        known = list(self._named)
        # A server tells its own addresses first, and this one has just been lost.
        for address in reversed(heardOf):
            try:
                host, port = splitAddress(address)
            except ValueError:
                continue
            if not any((host, port) == (place.host, place.port) for place in known):
                known.append(replace(first, host=host, port=port))
        fresh = [server for server in known if server not in self._waiting]
        self._waiting = fresh + [server for server in self._waiting if server in known]
        place = self._waiting.pop(0)
        self._waiting.append(place)
        return place


def optionsFor(streaming: Streaming, place: RemoteURL) -> ConnectOptions:
    """
    The login of the service: that of the URL, where a user without password is a token; else that
    of the settings.
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
    Open the store of a service on another server's bus. The Deferred fails with L{StartError} if
    another streaming server answers for the cluster, unless the store is shared.
    """
    subjects = RequestSubjects(streaming.cluster_id, streaming.discover_prefix)

    async def opened() -> IStreamStore:
        await bus.whenPrepared()
        store: IStreamStore = await openStore()
        if ILeasedStore.providedBy(store):
            return store
        try:
            # Any answer will do. This request is refused, so that no client is registered.
            await request(bus, reactor, subjects.discover, b"", _PATIENCE, origin=bus)
        except (NoResponders, RequestTimeout):
            return store
        await store.close()
        raise StartError(
            f'discovered another streaming server with cluster ID "{streaming.cluster_id}"'
        )

    return lambda: ensureDeferred(opened())
