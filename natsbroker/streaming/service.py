"""
NATS Streaming as a Twisted service over a message bus and a store.

The service is ready when it serves, with all clients and subscriptions recovered, or when it is on
standby because another broker serves the channels of a shared store. It uses public interfaces
only: L{IMessageBus}, L{IStreamStore}, L{IOrigin}.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.accounts.requests import newInbox
from natsbroker.config.settings.streaming import Streaming
from natsbroker.connections.turns import Turns, turnsOn
from natsbroker.export.logs import ILogConsumer
from natsbroker.interfaces import (
    ILeasedStore,
    IMessageBus,
    IReadiness,
    IReportingStore,
    IStreamStore,
)
from natsbroker.interfaces.records import LeaseLost, StoreError
from natsbroker.runtime.readiness import Readiness
from natsbroker.storage.leases import StoreWatch, lead
from natsbroker.streaming.channels import ChannelDirectory
from natsbroker.streaming.context import StreamingContext
from natsbroker.streaming.recovery import Recovery
from natsbroker.streaming.requests.dispatcher import Dispatcher
from natsbroker.subjects.channels import RequestSubjects

_log = Logger(namespace="natsbroker.streaming")

AGAIN = 1.0
"""Seconds until a service that had to stop serving tries to serve again."""

OpenStore = Callable[[], Deferred[IStreamStore]]


@implementer(IReadiness)
class StreamingService(Service):
    """The service; C{store} is C{None} until it is open, C{isShared} with other brokers."""

    def __init__(
        self,
        bus: IMessageBus,
        reactor: IReactorTime,
        openStore: OpenStore,
        settings: Streaming | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = time.time_ns,
        newInbox: Callable[[], bytes] = newInbox,
        logConsumers: Sequence[ILogConsumer] = (),
        turns: Turns | None = None,
    ) -> None:
        """
        @param openStore: opens the service's own store.
        @param logConsumers: use the channels' logs while the service serves them.
        @raise ValueError: if the settings are not valid.
        """
        self._reactor = reactor
        self.settings = settings or Streaming()
        for _, problem in self.settings.problems():
            raise ValueError(problem)
        self.monotonic = monotonic
        self._logUsers = logConsumers
        self._begun: list[ILogConsumer] = []
        subjects = RequestSubjects(self.settings.cluster_id, self.settings.discover_prefix)
        self._makeContext = partial(
            StreamingContext,
            bus,
            reactor,
            self.settings,
            subjects,
            now=now,
            newInbox=newInbox,
            turns=(turns or turnsOn(reactor)).of(bus.account),
        )
        self._openStore = openStore
        self.store: IStreamStore | None = None
        self._watch = StoreWatch()
        self.isShared = False
        self._context: StreamingContext | None = None
        self._dispatcher: Dispatcher | None = None
        self._running: set[Deferred[None]] = set()
        self._starting: Deferred[None] | None = None
        self._readiness = Readiness()
        self._isRetreating = False
        self._retreating: Deferred[None] | None = None
        self._again: IDelayedCall | None = None

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._begin()

    def _begin(self) -> None:
        self._again = None
        self._starting = ensureDeferred(self._start())
        self._starting.addBoth(self._started)

    def whenPrepared(self) -> Deferred[None]:
        return self._readiness.wait()

    async def _start(self) -> None:
        self.store = store = await self._openStore()
        self._watch = StoreWatch(lambda log: self._lost())
        store.watch(self._watch)
        self.isShared = ILeasedStore.providedBy(store)
        await lead(store, leaderLog(self.settings.cluster_id), self._standBy)
        self._context = context = self._makeContext(
            store=store, run=self.run, monotonic=self.monotonic
        )
        self._dispatcher = dispatcher = Dispatcher(context)
        remembered = await context.ledger.load()
        await context.channels.recover()
        recovery = Recovery(context.clients, context.channels, context.ledger)
        await recovery.recover(remembered, dispatcher.subscribe.listen)
        dispatcher.subscribe.nextNumber = recovery.nextNumber
        for client in context.clients:
            dispatcher.connect.watch(client)
        for channel in context.channels:
            context.inactivity.created(channel)
        dispatcher.start()
        for subscription in recovery.active:
            self.run(context.redelivery.restart(subscription, context.now))
        catalogue = ChannelDirectory(context.channels, store, self.settings.cluster_id)
        for user in self._logUsers:
            self._begun.append(user)
            await user.begin(catalogue)

    def _standBy(self) -> None:
        _log.info("Streaming cluster {id} is served elsewhere", id=self.settings.cluster_id)
        self._readiness.reached()

    def _started(self, result: Failure | None) -> None:
        wasReady = self._readiness.outcome is True
        if not isinstance(result, Failure):
            _log.info(
                "Streaming cluster {id}: {channels} channels, {clients} clients",
                id=self.settings.cluster_id,
                channels=len(self.context.channels),
                clients=len(self.context.clients),
            )
            if wasReady:
                _log.info("Streaming Server is ready")
        elif isinstance(result.value, LeaseLost) or wasReady:
            # Another broker may serve meanwhile.
            if not isinstance(result.value, CancelledError):
                why = result.getErrorMessage()
                _log.error("Streaming cluster {id}: {why}", id=self.settings.cluster_id, why=why)
                self._lost()
        else:
            self._readiness.failed(result)
            return
        self._readiness.reached()

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run work for which no caller waits. An exception in it is logged."""
        running = ensureDeferred(coroutine)
        self._running.add(running)
        running.addBoth(self._done, running)

    def _done(self, result: Failure | None, running: Deferred[None]) -> None:
        self._running.discard(running)
        if isinstance(result, Failure) and not isinstance(
            result.value, (CancelledError, StoreError)
        ):
            _log.failure("The streaming service failed", result)

    def _lost(self) -> None:
        """
        Stop serving, because another broker may serve the channels, and try again after a while.
        """
        if self.running and not self._isRetreating:
            self._isRetreating = True
            self._retreating = ensureDeferred(self._finishAll())
            self._retreating.addBoth(self._retreated)

    def _retreated(self, result: Failure | None) -> None:
        self._isRetreating = False
        self._retreating = None
        if isinstance(result, Failure):
            _log.failure("The streaming service failed", result)
        if self.running:
            self._again = self._reactor.callLater(AGAIN, self._begin)

    def stopService(self) -> Deferred[None]:
        """
        Take nothing more, wait for messages that are being stored, write all state, close the
        store.
        """
        super().stopService()  # type: ignore[no-untyped-call]
        return ensureDeferred(self._stop())

    async def _stop(self) -> None:
        again, self._again = self._again, None
        if again is not None:
            again.cancel()
        if self._retreating is not None:
            retreated: Deferred[None] = Deferred()
            self._retreating.addBoth(lambda _: retreated.callback(None))
            await retreated
        await self._finishAll()

    async def _finishAll(self) -> None:
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()
        begun, self._begun = self._begun, []
        for user in begun:
            await user.end()
        context, self._context = self._context, None
        if context is not None:
            await self._finish(context)
        store, self.store = self.store, None
        if store is not None:
            await store.close()

    async def _finish(self, context: StreamingContext) -> None:
        dispatcher, self._dispatcher = self.dispatcher, None
        dispatcher.stop()
        subscriptions = [
            subscription for channel in context.channels for subscription in channel.subscriptions
        ]
        for channel in context.channels:
            try:
                await channel.settled()
            except StoreError:
                pass  # Never opened; its requests were answered.
        for running in list(self._running):
            running.cancel()
        context.deadlines.stop()
        for subscription in subscriptions:
            if subscription.acks is not None:
                subscription.acks.cancel()
        try:
            await context.ledger.finish(subscriptions)
        except StoreError as error:
            _log.error("The last acknowledgements are not stored: {why}", why=str(error))

    @property
    def context(self) -> StreamingContext:
        if self._context is None:
            raise RuntimeError("the streaming service is not running")
        return self._context

    @property
    def dispatcher(self) -> Dispatcher:
        if self._dispatcher is None:
            raise RuntimeError("the streaming service is not running")
        return self._dispatcher

    @property
    def isServing(self) -> bool:
        return self._context is not None

    @property
    def losses(self) -> Sequence[str]:
        store: Any = self.store
        return store.losses() if IReportingStore.providedBy(store) else ()

    @property
    def trouble(self) -> str:
        """The reason why the store takes no writes; empty if it does."""
        return self._watch.stopped


def leaderLog(clusterId: str) -> str:
    return f"stan/{clusterId}"
