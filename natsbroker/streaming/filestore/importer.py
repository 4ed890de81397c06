"""
The import of a data directory of nats-streaming-server into a store.

An import has two passes. The first reads and verifies everything and writes nothing. The second
writes the messages, channel by channel. Then one change writes the clients, the subscriptions, and
the mark that the import is finished. A second run of an import that was interrupted goes on behind
the last message of each channel; a run after a finished one does nothing. The service does not
start on a store with an import that is unfinished.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from struct import Struct
from typing import Any

from natsbroker.config.settings.streaming import ChannelLimits, Streaming
from natsbroker.interfaces import ILeasedStore, IRetainedLog, IStateStore, IStreamLog, IStreamStore
from natsbroker.interfaces.records import Entry, StoreError
from natsbroker.streaming.channels import logPrefix
from natsbroker.streaming.filestore.directory import SourceChannel, SourceDirectory
from natsbroker.streaming.filestore.framing import Report, SourceError
from natsbroker.streaming.filestore.messages import OVERHEAD, SourceMessage
from natsbroker.streaming.filestore.state import SourceSubscription
from natsbroker.streaming.ledger import (
    FORMAT,
    IMPORT_KEY,
    SERVICE_KEY,
    ClientState,
    ImportState,
    ServiceState,
    SubscriptionState,
    clientKey,
    ledgerSpace,
    subscriptionKey,
)
from natsbroker.streaming.messages import replyBlock
from natsbroker.streaming.model import provides
from natsbroker.streaming.service import leaderLog
from natsbroker.subjects.channels import isChannel, isClientID
from natsbroker.subjects.grammar import isValidLiteral

#: Messages, and bytes of data, in one batch of the store.
_MOST_MESSAGES = 1024
_MOST_BYTES = 4 << 20

_MARK = Struct("<QqII")

_NANOSECONDS = 1_000_000_000


class ImportRefused(Exception):
    """The store already contains other data. The text is shown to the operator."""


class ImportInterrupted(Exception):
    """The operator stopped the import; it can be run again."""


@dataclass(slots=True)
class ChannelPlan:
    """
    @ivar first: the first sequence that the limits keep; C{last + 1} if they keep none.
    """

    source: SourceChannel
    first: int
    last: int
    count: int
    subscriptions: list[SourceSubscription]


@dataclass(slots=True)
class Plan:
    """
    @ivar fingerprint: identifies the content of the source.
    """

    source: SourceDirectory
    channels: list[ChannelPlan]
    clients: dict[str, Any]
    fingerprint: bytes
    report: Report = field(repr=False)

    @property
    def messages(self) -> int:
        return sum(channel.count for channel in self.channels)

    def subscriptionsOf(self, plan: ChannelPlan) -> list[SourceSubscription]:
        """
        The subscriptions of a channel that continue: durable ones, and those of connected clients.
        """
        return [
            subscription
            for subscription in plan.subscriptions
            if subscription.isDurable or self.isActive(subscription)
        ]

    def isActive(self, subscription: SourceSubscription) -> bool:
        state = subscription.state
        isListening = state.clientID in self.clients and not state.isClosed
        return isListening and isValidLiteral(state.ackInbox.encode())


def planImport(source: SourceDirectory, settings: Streaming, now: int, report: Report) -> Plan:
    """Read and verify everything, which blocks. C{settings} have the limits of the channels."""
    digest = sha256()
    clients = source.clients(report)
    for invalid in [client for client in clients if not isClientID(client)]:
        report.note(f"client id {invalid!r} is not valid: left out")
        del clients[invalid]
    channels = []
    for channel in source.channels():
        if not isChannel(channel.name.encode()):
            report.note(f"{channel.name!r}: jobs can read a channel of this name, clients cannot")
        plan = _planChannel(channel, settings.limitsOf(channel.name), now, report, digest)
        if source.isClustered:
            plan.subscriptions = []
        channels.append(plan)
    if source.isClustered:
        report.note(
            "the server was clustered: its clients and durable subscriptions are in its Raft log "
            "and are not imported"
        )
    for clientID, info in sorted(clients.items()):
        digest.update(clientID.encode() + b"\0" + info.SerializeToString())
    source.checkUnchanged()
    return Plan(source, channels, clients, digest.digest(), report)


def _planChannel(
    channel: SourceChannel, limits: ChannelLimits, now: int, report: Report, digest: Any
) -> ChannelPlan:
    sequences, sizes, timestamps = array("Q"), array("I"), array("q")
    digest.update(channel.name.encode() + b"\0")
    for message in channel.messages(report):
        sequences.append(message.sequence)
        sizes.append(message.size)
        timestamps.append(message.timestamp)
        digest.update(
            _MARK.pack(message.sequence, message.timestamp, message.size, message.checksum)
        )
    start = _firstKept(sizes, timestamps, limits, now)
    subscriptions = channel.subscriptions(report)
    for subscription in subscriptions:
        state = subscription.state.SerializeToString().hex()
        text = f"{state} {subscription.lastSent} {sorted(subscription.pending)}"
        digest.update(text.encode())
    first = sequences[start] if start < len(sequences) else channel.last + 1
    return ChannelPlan(channel, first, channel.last, len(sequences) - start, subscriptions)


def _firstKept(sizes: array[int], timestamps: array[int], limits: ChannelLimits, now: int) -> int:
    """
    The number of messages that the limits remove from the front, by nats-streaming-server's rules.
    """
    start = max(len(sizes) - limits.max_msgs, 0) if limits.max_msgs else 0
    if limits.max_bytes:
        total = sum(sizes[start:]) + OVERHEAD * (len(sizes) - start)
        while total > limits.max_bytes and start < len(sizes) - 1:
            total -= sizes[start] + OVERHEAD
            start += 1
    if limits.max_age:
        age = round(limits.max_age * _NANOSECONDS)
        while start < len(sizes) and now - timestamps[start] >= age:
            start += 1
    return start


class Importer:
    def __init__(
        self, store: IStreamStore, clusterId: str, isStopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._isStopped = isStopped
        self._store = store
        self._clusterId = clusterId
        self._states: IStateStore = store.states(ledgerSpace(clusterId))
        self.written = 0

    async def run(self, plan: Plan) -> bool:
        """Import; false if that was done already. After a L{StoreError} it can be run again."""
        if ILeasedStore.providedBy(self._store):
            # No other broker serves the channels while this one has the lease.
            await self._store.open(leaderLog(self._clusterId))
        if await self._isFinished(plan):
            return False
        for channel in plan.channels:
            await self._channel(channel, plan.report)
        plan.source.checkUnchanged()
        self._checkStopped()
        await self._states.change(self._final(plan))
        return True

    async def _isFinished(self, plan: Plan) -> bool:
        values = await self._states.load()
        mark = values.get(IMPORT_KEY)
        if mark is None:
            await self._checkEmpty(values)
            state = ImportState(source=plan.fingerprint).SerializeToString()
            await self._states.put(IMPORT_KEY, state)
            return False
        progress = ImportState.FromString(mark)
        if progress.source != plan.fingerprint:
            done = "has" if progress.isFinished else "has a part of"
            raise ImportRefused(f"the store {done} an import of other data")
        isFinished: bool = progress.isFinished
        return isFinished

    async def _checkEmpty(self, values: dict[bytes, bytes]) -> None:
        prefix = logPrefix(self._clusterId)
        names = [log for log in await self._store.logs() if log.startswith(prefix)]
        if names or set(values) - {SERVICE_KEY}:
            raise ImportRefused(
                f"the store has channels or clients of cluster {self._clusterId} already: "
                "only into an empty one can be imported"
            )

    async def _channel(self, plan: ChannelPlan, report: Report) -> None:
        log: IStreamLog = await self._store.open(logPrefix(self._clusterId) + plan.source.name)
        subject = plan.source.name.encode()
        known, again = set(report.damaged), Report()
        batch: list[Entry] = []
        size = 0
        for message in plan.source.messages(again, max(plan.first, log.nextSequence) - 1):
            isGap = message.sequence != log.nextSequence + len(batch)
            if isGap or len(batch) >= _MOST_MESSAGES or size >= _MOST_BYTES:
                await self._append(log, batch)
                batch, size = [], 0
            if isGap:
                await _skipTo(log, message.sequence)
            batch.append((subject, _headers(message, report), message.data, message.timestamp))
            size += len(message.data)
        await self._append(log, batch)
        if set(again.damaged) - known:
            raise SourceError(f"{plan.source.name} changed while it was read")
        if log.nextSequence <= plan.last:
            await _skipTo(log, plan.last + 1)

    def _checkStopped(self) -> None:
        if self._isStopped():
            raise ImportInterrupted("interrupted: run it again to finish the import")

    async def _append(self, log: IStreamLog, batch: list[Entry]) -> None:
        self._checkStopped()
        if batch:
            await log.append(batch)
            self.written += len(batch)

    def _final(self, plan: Plan) -> dict[bytes, bytes | None]:
        changes: dict[bytes, bytes | None] = {
            SERVICE_KEY: ServiceState(format=FORMAT).SerializeToString(),
            IMPORT_KEY: ImportState(source=plan.fingerprint, isFinished=True).SerializeToString(),
        }
        for clientID, info in plan.clients.items():
            changes[clientKey(clientID)] = ClientState(
                clientID=clientID,
                heartbeatInbox=info.hbInbox,
                protocol=info.protocol,
                connID=info.connID,
            ).SerializeToString()
        number = 0
        for channel in plan.channels:
            for subscription in plan.subscriptionsOf(channel):
                number += 1
                state = _subscriptionState(
                    number, channel, subscription, plan.isActive(subscription)
                )
                changes[subscriptionKey(number)] = state
        return changes


async def _skipTo(log: Any, sequence: int) -> None:
    if not provides(log, IRetainedLog):
        raise StoreError("the store cannot leave sequences out")
    await log.skipTo(sequence)


def _headers(message: SourceMessage, report: Report) -> bytes:
    try:
        return replyBlock(message.reply) if message.reply else b""
    except ValueError:
        report.note(f"message {message.sequence}: its reply subject is not valid and left out")
        return b""


def _subscriptionState(
    number: int, plan: ChannelPlan, subscription: SourceSubscription, isActive: bool
) -> bytes:
    """The state of a subscription. That of a durable queue without a client is offline."""
    state = subscription.state
    lastSent = min(subscription.lastSent, plan.last)
    encoded: bytes = SubscriptionState(
        id=number,
        channel=plan.source.name,
        clientID=state.clientID,
        inbox=state.inbox,
        ackInbox=state.ackInbox,
        maxInFlight=max(state.maxInFlight, 1),
        ackWaitInSecs=max(state.ackWaitInSecs, 1),
        durableName="" if state.qGroup else state.durableName,
        queue=state.qGroup,
        isDurable=subscription.isDurable,
        isOffline=not isActive,
        lastSent=lastSent,
        mayBeSent=lastSent,
        pending=sorted(
            sequence for sequence in subscription.pending if plan.first <= sequence <= plan.last
        ),
    ).SerializeToString()
    return encoded
