"""
JetStream as a Twisted service: opens the stores, recovers the streams, serves the accounts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred, succeed
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.config.model import JetStream
from natsbroker.export.logs import ILogConsumer
from natsbroker.export.service import exportServiceFor
from natsbroker.interfaces import IBrokerHost, ILeasedStore, IReadiness, IStreamStore
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.accountcore import JetStreamServer
from natsbroker.jetstream.api.answering import shownStream
from natsbroker.jetstream.api.consumers import CONSUMER_ROUTES
from natsbroker.jetstream.api.dispatcher import ApiDispatcher
from natsbroker.jetstream.api.refusals import ApiRefusals
from natsbroker.jetstream.api.snapshots import SNAPSHOT_ROUTES
from natsbroker.jetstream.api.streams import STREAM_ROUTES, usageOf
from natsbroker.jetstream.batches.budget import BatchBudget
from natsbroker.jetstream.channels.channelstreams import ChannelStreams
from natsbroker.jetstream.cluster.leadership import ClusterLeadership
from natsbroker.jetstream.cluster.metarequests import MetaResponder
from natsbroker.jetstream.cluster.placedstore import PlacedStore
from natsbroker.jetstream.cluster.routing import ApiRouter
from natsbroker.jetstream.cluster.workerstreams import WorkerStreams
from natsbroker.jetstream.exporting import StreamDirectory
from natsbroker.jetstream.model.limits import (
    DEFAULT_MAX_CONSUMERS,
    AccountAllowance,
    ConfiguredLimits,
)
from natsbroker.jetstream.streams.recovery import recover
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.runtime.readiness import Readiness
from natsbroker.storage.leases import StoreWatch
from natsbroker.storage.stores import MemoryOpener, monotonicOf, wallClockOf

ROUTES = (*STREAM_ROUTES, *SNAPSHOT_ROUTES, *CONSUMER_ROUTES)

_log = Logger(namespace="natsbroker.jetstream")

ShareStore = Callable[[ILeasedStore, Deadlines], ClusterLeadership]

JoinWorkers = Callable[[Deadlines], WorkerStreams]


@implementer(IReadiness)
class JetStreamService(Service):
    """
    The JetStream of one broker.

    @ivar accounts: by name, those that have JetStream.
    """

    def __init__(
        self,
        host: IBrokerHost,
        block: JetStream,
        openFiles: Callable[[], Deferred[IStreamStore]],
        share: ShareStore | None = None,
        locate: Callable[[str], object] = lambda account: None,
        channels: ChannelStreams | None = None,
        joinWorkers: JoinWorkers | None = None,
    ) -> None:
        """
        @param block: with the totals in force.
        @param openFiles: opens the store of streams in files.
        @param share: makes the part that serves a store together with other brokers.
        @param locate: has L{change} called for an account with streams, if it still has JetStream.
        @param channels: the channels of NATS Streaming that are streams too.
        @param joinWorkers: makes this worker's part of the streams of a host's workers.
        """
        self._host = host
        self._block = block
        self._openFiles = openFiles
        self._now = wallClockOf(host.reactor)
        self._deadlines = Deadlines(host.reactor, monotonicOf(host.reactor))
        self._share = share
        self._joinWorkers = joinWorkers
        self._exports: dict[str, ILogConsumer] = {}
        self._leadership: ClusterLeadership | None = None
        self._meta: MetaResponder | None = None
        self._readiness = Readiness()
        self._starting: Deferred[None] | None = None
        self._stores: list[IStreamStore] = []
        self._dispatchers: dict[str, ApiDispatcher] = {}
        self._shared: ClusterLeadership | None = None
        self._workers: WorkerStreams | None = None
        self._locate = locate
        self._channels = channels
        self._wanted: dict[str, AccountAllowance | None] = {}
        self._locks: dict[str, DeferredLock] = {}
        self._isOpen = False
        self._watch = StoreWatch()
        self._batches = BatchBudget(block)
        self.accounts: dict[str, JetStreamAccount] = {}
        self._refusals: ApiRefusals | None = None

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._starting = ensureDeferred(self._start())
        self._starting.addCallbacks(lambda _: self._readiness.reached(), self._readiness.failed)

    @property
    def isRunning(self) -> bool:
        return self._readiness.outcome is True

    @property
    def store(self) -> IStreamStore | None:
        """The store of streams in files; C{None} before it is open."""
        return self._stores[0] if self._stores else None

    @property
    def trouble(self) -> str:
        """The reason why nothing can be stored; empty if it can."""
        if self._leadership is not None and self._leadership.trouble:
            return self._leadership.trouble
        return self._watch.stopped

    def whenPrepared(self) -> Deferred[None]:
        return self._readiness.wait()

    async def _start(self) -> None:
        files: Any = await self._openFiles()
        self._stores.append(files)
        self._watch = StoreWatch(self._lost, self._damaged)
        files.watch(self._watch)
        leadership: ClusterLeadership | None = None
        if self._share is not None and ILeasedStore.providedBy(files):
            # The configurations of streams in memory are in the shared store too, because their
            # broker may end.
            memory: Any = files
            leadership = self._share(files, self._deadlines)
        else:
            memory = await MemoryOpener().openStore(self._host, {})
            self._stores.append(memory)
        self._shared = leadership
        if self._joinWorkers is not None:
            self._workers = self._joinWorkers(self._deadlines)
        await self._locateOwners(files)
        for name in list(self._wanted):
            await self._settle(name)
        if leadership is not None:
            self._leadership = leadership
            await leadership.start()
            self._meta = MetaResponder(leadership.bus, leadership, self._now, self._block.domain)
            self._meta.open()
        if self._workers is not None:
            await self._workers.start()
        streams = sum(len(account.streams) for account in self.accounts.values())
        _log.info("JetStream: {streams} streams recovered", streams=streams)
        self._isOpen = True
        for name in list(self._wanted):
            await self._settle(name)

    async def _begin(self, name: str, allowance: AccountAllowance) -> None:
        """Serve an account."""
        leadership, workers = self._shared, self._workers
        files, memory = self._stores[0], self._stores[-1]
        if workers is not None:
            files, memory = (PlacedStore(store, workers.place) for store in (files, memory))
        server = JetStreamServer(
            files=files,
            memory=memory,
            deadlines=self._deadlines,
            now=self._now,
            name=self._host.describe()["name"],
            domain=self._block.domain,
            strict=self._block.strict,
            limits=configuredLimits(self._block),
            accounts=self.accounts,
            batches=self._batches,
        )
        turns = self._host.turns.of(name)
        account = JetStreamAccount(name, self._host.bus(name), server, allowance, turns)
        peers = leadership or workers
        if peers is None:
            dispatcher = ApiDispatcher(account, ROUTES)
        else:
            part = peers.join(account)
            dispatcher = ApiDispatcher(account, ROUTES, ApiRouter(part, lambda: peers.loads))
            part.handle = dispatcher.handle
            part.show = partial(shownStream, account, isListed=True)
            part.count = partial(usageOf, account)
            account.cluster = part
        if leadership is None:
            dispatcher.hold()
        dispatcher.start()
        self.accounts[name] = account
        self._refreshRefusals(name)
        self._dispatchers[name] = dispatcher
        if leadership is None:
            # The account gets JetStream when a client connects, and the client may send requests at
            # once.
            await recover(account)
            if workers is not None:
                await workers.enter(account)
            if self._channels is not None:
                await self._channels.serve(account)
            dispatcher.release()
            # Brokers that share streams export nothing, since each would answer for streams of
            # others.
            if workers is None:
                exports = exportServiceFor(self._host, account.bus)
                await exports.begin(StreamDirectory(account))
                self._exports[name] = exports

    async def _end(self, name: str) -> None:
        """Stop serving an account. Its streams stay in the store."""
        exports = self._exports.pop(name, None)
        if exports is not None:
            await exports.end()
        self._dispatchers.pop(name).stop()
        account = self.accounts.pop(name)
        self._refreshRefusals(name)
        cluster = None if self._shared is None else self._shared.clusters.pop(name, None)
        if cluster is not None and self._isOpen:
            # The broker keeps running, so its leases of these streams would never become free.
            for stream in list(account.streams.values()):
                await cluster.handOver(stream, "")
            cluster.close()
        if self._channels is not None:
            await self._channels.leave(account)
        if self._workers is not None:
            self._workers.leave(account)
        for stream in account.streams.values():
            for consumer in list(stream.consumers.values()):
                await consumer.stop("shutdown")
            stream.sources.save()
            stream.close()
        account.close()

    # Accounts that are added and removed.

    async def _locateOwners(self, files: IStreamStore) -> None:
        """Look up the accounts that have streams in the store."""
        for owner in sorted({ownerOf(log) for log in await files.logs()} - {"", *self._wanted}):
            self._locate(owner)

    def refusals(self, system: str) -> ApiRefusals:
        """
        @param system: the system account; empty for none.
        @return: the refusals for accounts without JetStream.
        """
        self._refusals = ApiRefusals(
            ROUTES,
            self.accounts.__contains__,
            system,
            lambda: any(account.members is not None for account in self.accounts.values()),
        )
        return self._refusals

    def _refreshRefusals(self, name: str) -> None:
        if self._refusals is not None:
            self._refusals.refresh(name)

    def change(self, name: str, allowance: AccountAllowance | None) -> None:
        """
        Give an account JetStream, or other limits, or take JetStream away.

        @param allowance: C{None} for no JetStream.
        """
        if allowance is None and name not in self._wanted:
            return
        self._wanted[name] = allowance
        if self._isOpen:
            settling = ensureDeferred(self._settle(name))
            settling.addErrback(
                lambda why: _log.failure("JetStream of account {name} failed", why, name=name)
            )

    def configure(self, block: JetStream) -> None:
        """
        Change what all accounts may use together.

        @param block: with the totals in force.
        """
        self._block = block
        self._batches.configure(block)
        for account in self.accounts.values():
            account.configure(configuredLimits(block))

    async def _settle(self, name: str) -> None:
        """Apply the last requested change of an account."""
        lock = self._locks.setdefault(name, DeferredLock())
        await lock.acquire()
        try:
            allowance = self._wanted.get(name)
            account = self.accounts.get(name)
            if allowance is None:
                if account is not None:
                    await self._end(name)
            elif account is None:
                await self._begin(name, allowance)
                if self._leadership is not None:
                    await self._leadership.lookAgain()
            else:
                account.allow(allowance)
        finally:
            lock.release()

    def _lost(self, log: str) -> None:
        if self._leadership is not None:
            self._leadership.lost(log)

    def _damaged(self, log: str, sequences: range) -> None:
        for account in self.accounts.values():
            for stream in account.streams.values():
                if stream.log.name == log:
                    stream.damaged(sequences)

    def leave(self) -> Deferred[None]:
        """Hand the streams over to the brokers that can serve them."""
        if self._leadership is None:
            return succeed(None)
        return ensureDeferred(self._leadership.leave())

    async def _stop(self) -> None:
        if self._leadership is not None:
            await self._leadership.leave()
            self._leadership.close()
        if self._meta is not None:
            self._meta.close()
        self._isOpen = False
        for name in list(self._dispatchers):
            await self._end(name)
        for store in reversed(self._stores):
            await store.close()
        if self._workers is not None:
            self._workers.close()

    def stopService(self) -> Deferred[None]:
        super().stopService()  # type: ignore[no-untyped-call]
        if self._starting is not None:
            self._starting.cancel()
        return ensureDeferred(self._stop())


def configuredLimits(block: JetStream) -> ConfiguredLimits:
    return ConfiguredLimits(
        block.max_ack_pending,
        block.max_request_batch,
        round(block.duplicate_window * 1_000_000_000),
        default_max_consumers=block.default_max_consumers or DEFAULT_MAX_CONSUMERS,
        max_memory=block.max_memory_store,
        max_storage=block.max_file_store,
    )


def ownerOf(log: str) -> str:
    """
    @param log: the name of a log.
    @return: the account of its stream; empty for logs of others, and for accounts with long names.
    """
    words = log.split("/")
    return unquote(words[1]) if len(words) == 3 and words[0] == "jetstream" else ""
