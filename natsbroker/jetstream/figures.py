"""
The figures of JetStream in monitoring, with nats-server's keys. Those of accounts are always at
hand; the details of streams and consumers wait until earlier publishes are durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twisted.logger import Logger

from natsbroker import API_LEVEL
from natsbroker.config.model import JetStream
from natsbroker.interfaces import IStreamStore
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.api.answering import shownConsumer, shownState
from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.model.documents import showing
from natsbroker.jetstream.model.limits import DEFAULT_MAX_CONSUMERS
from natsbroker.jetstream.model.members import JetStreamPeers
from natsbroker.jetstream.model.streamconfig import StorageType
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.steps import Steps
from natsbroker.wire.timestamps import formatTime

_log = Logger(namespace="natsbroker.jetstream")

Row = dict[str, Any]

#: The interval that nats-server shows beside C{sync_always}, in nanoseconds.
_SYNC_INTERVAL = 120_000_000_000

_UNSIGNED = (1 << 64) - 1


class JetStreamFigures:
    """
    @ivar accounts: by name, those that have JetStream; the service fills it when it starts.
    @ivar isRunning: whether the service has started.
    @ivar directory: the directory of the streams in files; empty for a store without one.
    @ivar nameOf: gives the name of an account by its key.
    @ivar trouble: returns the reason why nothing can be stored; empty if it can.
    @ivar store: gives the store of streams in files; C{None} while it is not open.
    """

    def __init__(
        self,
        accounts: Mapping[str, JetStreamAccount],
        settings: JetStream,
        directory: str,
        isRunning: Callable[[], bool],
    ) -> None:
        self.accounts = accounts
        self._settings = settings
        self.directory = directory
        self._isRunning = isRunning
        self._isSized = True
        self.nameOf: Callable[[str], str] = str
        self.trouble: Callable[[], str] = str
        self.store: Callable[[], IStreamStore | None] = lambda: None

    def configure(self, settings: JetStream, isSized: bool) -> None:
        """
        @param settings: the settings, with the totals in force.
        @param isSized: whether the configuration has both totals.
        """
        self._settings, self._isSized = settings, isSized

    @property
    def isRunning(self) -> bool:
        return self._isRunning()

    def config(self) -> Row:
        block = self._settings
        interval = block.sync_interval if block.backend == "lmdb" else 0.0
        totals: Row = {"max_memory": block.max_memory_store, "max_storage": block.max_file_store}
        row: Row = {
            "store_dir": self.directory,
            "sync_interval": round(interval * 1e9) or _SYNC_INTERVAL,
            "sync_always": not interval,
            "domain": block.domain,
            "compress_ok": self._isSized,
            "strict": block.strict,
        }
        return totals | {key: value for key, value in row.items() if value}

    def limits(self) -> Row:
        block = self._settings
        row = {
            "max_request_batch": block.max_request_batch,
            "max_ack_pending": block.max_ack_pending,
            "max_duplicate_window": round(block.duplicate_window * 1_000_000_000),
            "max_batch_inflight_per_stream": block.max_batch_inflight_per_stream,
            "max_batch_inflight_total": block.max_batch_inflight_total,
            "max_batch_size": block.max_batch_size,
            "max_batch_timeout": round(block.max_batch_timeout * 1_000_000_000),
            "default_max_consumers": block.default_max_consumers or DEFAULT_MAX_CONSUMERS,
        }
        return {key: value for key, value in row.items() if value}

    def stats(self) -> Row:
        every = self.accounts.values()
        return {
            **_usage(every),
            **_reserved(
                sum(account.reserved(StorageType.MEMORY) for account in every),
                sum(account.reserved(StorageType.FILE) for account in every),
            ),
            "accounts": len(every),
            "ha_assets": 0,
            "api": _api(every, API_LEVEL),
        }

    def varz(self) -> Row:
        """The part C{jetstream} of C{/varz}."""
        return {"config": self.config(), "stats": self.stats(), "limits": self.limits()}

    def cluster(self) -> Row:
        """The cluster whose brokers serve the streams together, if there is one."""
        for account in self.accounts.values():
            if account.members is not None:
                return {"meta_cluster": account.members.metaCluster()}
        return {}

    def counts(self, isLeader: bool) -> Row:
        """
        The numbers of streams and consumers. C{isLeader} also counts those that this broker leads,
        which are all of them.
        """
        streams = [
            stream for account in self.accounts.values() for stream in account.streams.values()
        ]
        consumers = sum(
            not consumer.config.direct
            for stream in streams
            for consumer in stream.consumers.values()
        )
        leads = {"streams_leader": len(streams)} if isLeader else {}
        leadsConsumers = {"consumers_leader": consumers} if isLeader else {}
        return {
            "streams": len(streams),
            **leads,
            "consumers": consumers,
            **leadsConsumers,
            "messages": sum(stream.messages for stream in streams),
            "bytes": sum(stream.size for stream in streams),
        }

    def account(self, account: JetStreamAccount) -> Row:
        """The row of an account, without its streams. Its limit is shown as reserved."""
        limits = account.limits
        return {
            "name": self.nameOf(account.name),
            "id": account.name,
            **_usage([account]),
            **_reserved(limits.max_memory & _UNSIGNED, limits.max_storage & _UNSIGNED),
            "accounts": 0,
            "ha_assets": 0,
            "api": _api([account], 0),
        }

    def configOf(self, stream: Stream) -> Steps[Row]:
        """The configuration of a stream."""
        return showing(stream.config)

    async def stream(self, stream: Stream, leader: str, config: Row | None = None) -> Row:
        """
        @param leader: the server that leads the stream.
        @param config: the configuration, if it is shown.
        @return: the row of a stream, without its consumers and origins. The state of a stream that
            cannot be read is left out.
        """
        account: Any = stream.account
        members: JetStreamPeers | None = account.members
        row: Row = {
            "name": stream.name,
            "created": formatTime(stream.created),
            "cluster": {"leader": leader}
            if members is None
            else members.shownStream(stream.config, stream.ledSince),
        }
        if config is not None:
            row["config"] = config
        try:
            row["state"] = await shownState(stream)
        except StoreError as error:
            _log.warn("Stream {name} cannot be read: {error}", name=stream.name, error=error)
        return row

    def origins(self, stream: Stream) -> Steps[Row]:
        """The mirror or the sources of a stream."""
        mirror = stream.intake.mirrorInfo()
        row: Row = {} if mirror is None else {"mirror": mirror}
        sources = yield from stream.intake.sourceInfos()
        return {**row, "sources": sources} if sources else row

    def consumers(self, stream: Stream, isDirect: bool) -> list[Consumer]:
        """The consumers of mirrors and sources if C{isDirect}, or all others."""
        chosen = [
            consumer for consumer in stream.consumers.values() if consumer.config.direct is isDirect
        ]
        return sorted(chosen, key=lambda consumer: consumer.name)

    async def consumer(self, consumer: Consumer, showsConfig: bool) -> Row:
        row = await shownConsumer(consumer, isListed=True)
        if not showsConfig:
            del row["config"]
        return row


def _usage(accounts: Iterable[JetStreamAccount]) -> Row:
    every = list(accounts)
    return {
        "memory": sum(account.usage(StorageType.MEMORY) for account in every),
        "storage": sum(account.usage(StorageType.FILE) for account in every),
    }


def _reserved(memory: int, storage: int) -> Row:
    return {"reserved_memory": memory, "reserved_storage": storage}


def _api(accounts: Iterable[JetStreamAccount], level: int) -> Row:
    every = list(accounts)
    return {
        "level": level,
        "total": sum(account.requests for account in every),
        "errors": sum(account.failures for account in every),
    }
