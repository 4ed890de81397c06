"""Composition of the streaming service from its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from natsbroker.config.settings.streaming import Streaming
from natsbroker.errors import BrokerError
from natsbroker.export.logs import ILogConsumer
from natsbroker.export.service import exportServiceFor
from natsbroker.interfaces import IBrokerHost, IMessageBus, IStreamStore
from natsbroker.interfaces.records import StoreError
from natsbroker.runtime.failures import StartError
from natsbroker.runtime.plugins import Plugins
from natsbroker.storage.stores import monotonicOf, storeOpener, wallClockOf
from natsbroker.streaming.service import StreamingService


def storeMaker(
    host: IBrokerHost, streaming: Streaming, plugins: Plugins
) -> Callable[[], Deferred[IStreamStore]]:
    """A callable that makes the store. L{StartError} if the store's options are wrong."""
    opener = storeOpener(streaming.store, plugins, host.settings.at("streaming.store"))
    section = streaming.storeSection

    def openStore() -> Deferred[IStreamStore]:
        try:
            opening: Deferred[IStreamStore] = opener.openStore(host, section)
        except ValueError as error:
            raise StartError(f'store "{streaming.store}": {error}') from error
        return opening.addErrback(placed)

    def placed(failure: Failure) -> Failure:
        if streaming.dir and failure.check(OSError, StoreError):
            return Failure(
                StartError(host.settings.placed("streaming.dir", failure.getErrorMessage()))
            )
        return failure

    return openStore


def streamingBus(host: IBrokerHost, streaming: Streaming) -> IMessageBus:
    """
    The bus of the clients: that of an account, or a service for another server, which must be
    started.
    """
    if streaming.nats_server:
        from natsbroker.streaming.remotebus import remoteBus

        return remoteBus(host.reactor, streaming)
    try:
        return host.bus(streaming.account)
    except KeyError:
        raise BrokerError(f'"streaming" names an unknown account: {streaming.account}') from None


def streamingService(
    host: IBrokerHost,
    bus: Any,
    streaming: Streaming,
    plugins: Plugins,
    logConsumers: Sequence[ILogConsumer] = (),
) -> StreamingService:
    openStore = storeMaker(host, streaming, plugins)
    maxPayload: Callable[[], int] | None = None
    if streaming.nats_server:
        from natsbroker.streaming.remotebus import onlyServer

        openStore = onlyServer(bus, host.reactor, streaming, openStore)
        maxPayload = _remoteMaxPayload(bus)
    monotonic, now = monotonicOf(host.reactor), wallClockOf(host.reactor)
    pipeline = exportServiceFor(host, bus, maxPayload)
    return StreamingService(
        bus,
        host.reactor,
        openStore,
        streaming,
        monotonic,
        now,
        logConsumers=(pipeline, *logConsumers),
        turns=host.turns,
    )


def _remoteMaxPayload(bus: Any) -> Callable[[], int]:
    return lambda: int(bus.maxPayload)
