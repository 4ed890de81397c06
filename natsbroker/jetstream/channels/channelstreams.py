"""
The channels of NATS Streaming that the configuration gives to accounts, as streams there.

NATS Streaming and JetStream start, stop and stand by independently: the streams exist while both
serve. Their configurations and consumers are in the store of the channels, in one space for each
account.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.export.logs import ILogConsumer
from natsbroker.interfaces import IStateStore, ISubjectIndexedLog
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.channels.channelstream import ChannelStream, channelConfig, streamNameOf
from natsbroker.jetstream.damage import Unreadable, readConfig
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.statecopies import CopiedStates
from natsbroker.jetstream.streams.recovery import within
from natsbroker.jetstream.streams.stream import consumerKeys, keyOf

if TYPE_CHECKING:
    from natsbroker.streaming.channels import ChannelDirectory
    from natsbroker.streaming.model import Channel

_log = Logger(namespace="natsbroker.jetstream")

RETRY = 5.0
"""Seconds after which channels are tried again whose streams could not be stored."""


def channelSpace(clusterId: str, account: str) -> str:
    """The space of state of an account's consumers of channels."""
    return f"stan/{clusterId}/jetstream/{sha256(account.encode()).hexdigest()[:16]}"


class _Kept:
    """
    The stored values of an account's channels that are streams.

    @ivar values: everything, by key.
    @ivar streams: by channel, its stream as it was stored.
    @ivar consumers: by stream, its consumers as they were stored.
    """

    def __init__(self, values: Mapping[bytes, bytes]) -> None:
        self.values = values
        self.streams: dict[str, dict[str, Any]] = {}
        self.consumers: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for key, value in values.items():
            if key.startswith(b"stream/"):
                description = json.loads(value)
                self.streams[description["channel"]] = description
            elif key.startswith(b"consumer/"):
                self._addConsumer(value)

    def _addConsumer(self, value: bytes) -> None:
        try:
            description, config = readConfig(value, ConsumerConfig)
        except Unreadable as error:
            name, why = error.name or "without a name", str(error)
            _log.error("Consumer {name} of a channel is not served: {why}", name=name, why=why)
            return
        self.consumers.setdefault(description["stream"], []).append((description, config))

    def keysOf(self, stream: str) -> list[bytes]:
        """The keys of all that is kept about a stream."""
        keys = [keyOf(b"stream", stream)]
        for description, _ in self.consumers.get(stream, ()):
            keys += consumerKeys(stream, description["name"])
        return keys


@implementer(ILogConsumer)
class ChannelStreams:
    """Makes streams of channels, and ends them."""

    def __init__(self, accountOf: Callable[[str], str], isInFile: bool) -> None:
        """
        @param accountOf: gives the account of a channel; empty for none.
        @param isInFile: whether channels survive a restart.
        """
        self._accountOf = accountOf
        self._isInFile = isInFile
        self._channels: ChannelDirectory | None = None
        self._accounts: dict[str, JetStreamAccount] = {}
        self._streams: dict[str, ChannelStream] = {}
        self._lock = DeferredLock()

    # NATS Streaming.

    def begin(self, catalogue: Any) -> Deferred[None]:
        """
        Begin to make streams, because NATS Streaming serves its channels.

        @param catalogue: a L{ChannelDirectory}.
        """
        self._channels = catalogue
        catalogue.watch(self)
        return self._lock.run(lambda: ensureDeferred(self._serveAll()))

    def end(self) -> Deferred[None]:
        """Write the consumers down, because NATS Streaming is about to stop."""
        return self._lock.run(lambda: ensureDeferred(self._endAll()))

    def opened(self, channel: Channel) -> None:
        """Make a new channel a stream."""
        account = self._accounts.get(self._accountOf(channel.name))
        if account is not None:
            adding = self._lock.run(lambda: ensureDeferred(self._added(account, channel)))
            account.run(adding)

    def dropped(self, channel: Channel) -> None:
        """End the stream of a deleted channel, with its consumers."""
        stream = self._streams.pop(channel.name, None)
        if stream is None:
            return
        account: Any = stream.account
        stream.isDeleted = True
        changes: dict[bytes, bytes | None] = {stream.stateKey(): None}
        for consumer in list(stream.consumers.values()):
            consumer.stop("deleted")
            changes.update(dict.fromkeys(consumerKeys(stream.name, consumer.name)))
        stream.close()
        account.streams.pop(stream.name, None)
        forget = partial(self._forget, stream, channel.name, changes)
        account.run(stream.upkeep.retry.untilDone(forget))
        stream.advise("DELETED", "stream_action", action="delete")

    async def _forget(
        self, stream: ChannelStream, channel: str, changes: Mapping[bytes, bytes | None]
    ) -> None:
        """Delete the stored values of a stream, unless its channel has another stream."""
        if channel not in self._streams:
            await stream.states.change(changes)

    # JetStream.

    def serve(self, account: JetStreamAccount) -> Deferred[None]:
        """Make streams of an account's channels, because JetStream serves the account."""
        self._accounts[account.name] = account
        return self._lock.run(lambda: ensureDeferred(self._serve(account)))

    def leave(self, account: JetStreamAccount) -> Deferred[None]:
        """End the streams of an account, because JetStream is about to end its service."""
        self._accounts.pop(account.name, None)
        return self._lock.run(lambda: ensureDeferred(self._endThose(account)))

    # Streams.

    async def _serveAll(self) -> None:
        for account in list(self._accounts.values()):
            await self._serve(account)

    async def _serve(self, account: JetStreamAccount) -> None:
        """
        Make streams of all channels that an account has. Those that were streams before come first,
        and keep their names.
        """
        if self._channels is None:
            return
        channels = [
            channel for channel in self._channels if self._accountOf(channel.name) == account.name
        ]
        if not channels:
            return
        try:
            states = self._statesOf(self._channels, account)
            kept = await self._load(states, channels)
            for channel in sorted(channels, key=lambda item: item.name not in kept.streams):
                await self._add(account, channel, states, kept)
        except StoreError as error:
            name, why = account.name, str(error)
            _log.error("Account {name} has no channels yet: {why}", name=name, why=why)
            account.deadlines.after(RETRY, partial(self._serveAgain, account))

    def _serveAgain(self, account: JetStreamAccount) -> None:
        if self._accounts.get(account.name) is account:
            account.run(self.serve(account))

    def _statesOf(self, channels: ChannelDirectory, account: JetStreamAccount) -> IStateStore:
        return channels.statesOf(channelSpace(channels.realm, account.name))

    async def _load(self, states: IStateStore, channels: list[Channel]) -> _Kept:
        """
        The stored values, without those of deleted channels: a later channel of the same name is
        another one.
        """
        kept = _Kept(await CopiedStates(states).load())
        identities = {channel.name: channel.log.identity for channel in channels if channel.isOpen}
        changes: dict[bytes, bytes | None] = {}
        for name, description in list(kept.streams.items()):
            if identities.get(name) != description["identity"]:
                changes.update(dict.fromkeys(kept.keysOf(description["name"])))
                del kept.streams[name]
                kept.consumers.pop(description["name"], None)
        if changes:
            await CopiedStates(states).change(changes)
        return kept

    async def _added(self, account: JetStreamAccount, channel: Channel) -> None:
        if self._channels is None or account.name not in self._accounts:
            return
        try:
            await self._add(account, channel, self._statesOf(self._channels, account), _Kept({}))
        except StoreError as error:
            name, why = channel.name, str(error)
            _log.error("Channel {name} is not a stream yet: {why}", name=name, why=why)
            account.deadlines.after(RETRY, partial(self.opened, channel))

    async def _add(
        self, account: JetStreamAccount, channel: Channel, states: IStateStore, kept: _Kept
    ) -> None:
        if channel.name in self._streams or not _isThere(channel):
            return
        description = kept.streams.get(channel.name) or self._described(account, channel)
        name = description["name"]
        if name in account.streams or name in account.damaged or name in account.opening:
            text = "Channel {channel} is no stream: account {account} already has a stream {name}"
            _log.error(text, channel=channel.name, account=account.name, name=name)
            return
        if not ISubjectIndexedLog.providedBy(channel.log):
            text = "Channel {channel} is no stream: its store has no index of subjects"
            _log.error(text, channel=channel.name)
            return
        account.opening.add(name)
        try:
            if channel.name not in kept.streams:
                value = json.dumps(description).encode()
                await CopiedStates(states).put(keyOf(b"stream", name), value)
        finally:
            account.opening.discard(name)
        if not _isThere(channel):
            await CopiedStates(states).delete(keyOf(b"stream", name))
            return
        config = channelConfig(name, channel, self._isInFile)
        stream = ChannelStream(account, config, description["created"], channel, states)
        await self._start(account, stream, channel, kept)

    def _described(self, account: JetStreamAccount, channel: Channel) -> dict[str, Any]:
        return {
            "name": streamNameOf(channel.name),
            "channel": channel.name,
            "identity": channel.log.identity,
            "created": account.now(),
        }

    async def _start(
        self, account: JetStreamAccount, stream: ChannelStream, channel: Channel, kept: _Kept
    ) -> None:
        for description, config in kept.consumers.get(stream.name, ()):
            name = description["name"]
            state = kept.values.get(consumerKeys(stream.name, name)[1])
            await stream.addConsumer(name, config, description["created"], state)
        self._streams[channel.name] = account.streams[stream.name] = stream
        stream.serve()
        for consumer in list(stream.consumers.values()):
            await consumer.start()
        if channel.name not in kept.streams:
            stream.advise("CREATED", "stream_action", action="create")

    async def _endAll(self) -> None:
        self._channels = None
        for name in list(self._streams):
            await self._end(name)

    async def _endThose(self, account: JetStreamAccount) -> None:
        for name, stream in list(self._streams.items()):
            if stream.account is account:
                await self._end(name)

    async def _end(self, name: str) -> None:
        stream = self._streams.pop(name, None)
        if stream is None:
            return
        account: Any = stream.account
        stream.close()
        account.streams.pop(stream.name, None)
        for consumer in list(stream.consumers.values()):
            await within(stream, consumer.stop("shutdown"))


def _isThere(channel: Channel) -> bool:
    return channel.isOpen and not channel.isDeleted
