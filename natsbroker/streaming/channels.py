"""
The channels of the service, and their logs in the store, named C{stan/CLUSTER/CHANNEL}. The channel
is the subject of its records, so it can be read as a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Protocol

from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.config.settings.streaming import Streaming
from natsbroker.export.logs import ILogDirectory
from natsbroker.interfaces import IStateStore, IStreamLog, IStreamStore
from natsbroker.interfaces.records import StoreError
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.streaming import errors
from natsbroker.streaming.delivery import Run
from natsbroker.streaming.errors import Refused
from natsbroker.streaming.model import Channel


class InactivityTimers:
    """
    Deletes channels after a limit on inactivity without an active subscription and a new message,
    unless a subscription or an append is in progress or a job holds messages.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        run: Run,
        delete: Callable[[Channel], Coroutine[Any, Any, None]],
    ) -> None:
        self._deadlines = deadlines
        self._run = run
        self._delete = delete

    def created(self, channel: Channel) -> None:
        self.used(channel)
        self.left(channel)

    def used(self, channel: Channel) -> None:
        channel.lastActivity = self._deadlines.now()

    def left(self, channel: Channel) -> None:
        if channel.limits.max_inactivity and not channel.isWatched and not channel.isDeleted:
            self.used(channel)
            self._watch(channel, channel.limits.max_inactivity)

    def joined(self, channel: Channel) -> None:
        inactivity, channel.inactivity = channel.inactivity, None
        if inactivity is not None:
            inactivity.cancel()

    def _watch(self, channel: Channel, seconds: float) -> None:
        self.joined(channel)
        channel.inactivity = self._deadlines.after(seconds, partial(self._passed, channel))

    def _passed(self, channel: Channel) -> None:
        channel.inactivity = None
        if channel.isWatched or channel.isDeleted:
            return
        maximum = channel.limits.max_inactivity
        rest = maximum - (self._deadlines.now() - channel.lastActivity)
        if channel.inFlight or channel.users or channel.isHeld:
            rest = maximum
        if rest > 1e-9:
            self._watch(channel, rest)
        else:
            self._run(self._delete(channel))


_log = Logger(namespace="natsbroker.streaming")


def logPrefix(clusterId: str) -> str:
    return f"stan/{clusterId}/"


class ChannelWatcher(Protocol):
    def opened(self, channel: Channel) -> None:
        """Note that a new channel is open."""

    def dropped(self, channel: Channel) -> None:
        """Note that a channel is deleted, or could not be created."""


class Channels:
    """All channels; C{watchers} learn of those that come and go after the recovery."""

    def __init__(
        self,
        store: IStreamStore,
        settings: Streaming,
        created: Callable[[Channel], object],
    ) -> None:
        self.limitsOf = settings.limitsOf
        self._maximum = settings.max_channels
        self._store = store
        self._prefix = logPrefix(settings.cluster_id)
        self._created = created
        self._channels: dict[str, Channel] = {}
        self._lowered: dict[str, Channel] = {}
        self.watchers: list[ChannelWatcher] = []

    def get(self, name: str) -> Channel | None:
        return self._channels.get(name)

    def demand(self, name: str) -> Channel:
        """
        The channel of a name, or a new one whose log may still be opening. L{Refused} if there may
        be none.
        """
        channel = self._channels.get(name)
        if channel is not None:
            if channel.isDeleted:
                raise Refused(errors.BEING_DELETED)
            return channel
        other = self._lowered.get(name.lower())
        if other is not None:
            raise Refused(errors.OTHER_CASE.format(name, other.name))
        if 0 < self._maximum <= len(self._channels):
            raise Refused(errors.TOO_MANY_CHANNELS)
        channel = self._add(name)
        self._created(channel)
        self._open(channel).addCallbacks(self._opened, self._failed, (channel,), {}, (channel,), {})
        return channel

    def _add(self, name: str) -> Channel:
        channel = Channel(name, self.limitsOf(name))
        self._channels[name] = self._lowered[name.lower()] = channel
        return channel

    def _open(self, channel: Channel) -> Deferred[None]:
        opening = self._store.open(self._prefix + channel.name).addCallback(channel.opened)
        return opening.addErrback(channel.failed)

    def _opened(self, _: None, channel: Channel) -> None:
        _log.info('Channel "{name}" has been created', name=channel.name)
        for watcher in self.watchers:
            watcher.opened(channel)

    def _failed(self, failure: Failure, channel: Channel) -> None:
        why = failure.getErrorMessage()
        _log.error('Creating channel "{name}" failed: {why}', name=channel.name, why=why)
        self.forget(channel)

    async def recover(self) -> None:
        names = [name for name in await self._store.logs() if name.startswith(self._prefix)]
        opening = [self._open(self._add(name[len(self._prefix) :])) for name in names]
        try:
            await gatherResults(opening, consumeErrors=True)
        except FirstError as error:
            error.subFailure.raiseException()

    async def drop(self, channel: Channel) -> None:
        """
        Delete a channel with its messages. Messages that arrive meanwhile are refused.

        @raise StoreError: if it cannot be deleted; it stays unchanged.
        """
        channel.isDeleted = True
        try:
            await self._store.drop(self._prefix + channel.name)
        except StoreError:
            channel.isDeleted = False
            raise
        self.forget(channel)

    def forget(self, channel: Channel) -> None:
        channel.isDeleted = True
        del self._channels[channel.name]
        # Imported channels may have names that differ in case only.
        if self._lowered.get(channel.name.lower()) is channel:
            del self._lowered[channel.name.lower()]
        for watcher in self.watchers:
            watcher.dropped(channel)

    def __len__(self) -> int:
        return len(self._channels)

    def __iter__(self) -> Iterator[Channel]:
        return iter(list(self._channels.values()))


@implementer(ILogDirectory)
class ChannelDirectory:
    kind = "CHANNEL"

    def __init__(self, channels: Channels, store: IStreamStore, clusterId: str) -> None:
        self.realm = clusterId
        self._channels = channels
        self._store = store

    def names(self) -> list[str]:
        return sorted(
            channel.name for channel in self._channels if channel.isOpen and not channel.isDeleted
        )

    def find(self, name: str) -> IStreamLog | None:
        channel = self._channels.get(name)
        if channel is None or channel.isDeleted or not channel.isOpen:
            return None
        return channel.log

    def headerPrefix(self, name: str) -> int:
        return 0

    def readSubjects(self, name: str) -> tuple[bytes, ...]:
        return ()

    def states(self) -> IStateStore:
        return self._store.states(f"pipeline/stan/{self.realm}")

    def statesOf(self, space: str) -> IStateStore:
        states: IStateStore = self._store.states(space)
        return states

    def watch(self, watcher: ChannelWatcher) -> None:
        self._channels.watchers.append(watcher)

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._channels)
