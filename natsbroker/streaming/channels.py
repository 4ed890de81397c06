"""
The channels of the service, each with its log in the store.

Promises: what is appended to a channel is stored in the order of the calls, also while its log is
still being opened; nobody is told of a message before it is durable; there are not more channels
than the limit says.
Must never know: clients, or how messages reach subscribers.

A log is called C{stan/CLUSTER/CHANNEL}. Its records have the channel as their subject, so a channel
can be read as a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, FirstError, fail, gatherResults, maybeDeferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import Interface

from natsbroker.interfaces import IHeldLog, IRetainedLog, IStreamLog, IStreamStore
from natsbroker.interfaces.records import Entry, LogBounds, Record, Retention, StoreError
from natsbroker.streaming import errors
from natsbroker.streaming.errors import Refused
from natsbroker.streaming.groups import Group, GroupKey, Subscription
from natsbroker.streaming.limits import ChannelLimits, Limits
from natsbroker.streaming.runs import StoredMessage, storedMessages
from natsbroker.streaming.tail import Tail

if TYPE_CHECKING:
    from natsbroker.streaming.deadlines import Deadline

__all__ = ["Channel", "Channels", "logPrefix"]

_log = Logger(namespace="natsbroker.streaming")

_NANOSECONDS = 1_000_000_000


def logPrefix(clusterId: str) -> str:
    """
    How the names of the logs of a cluster's channels begin.
    """
    return f"stan/{clusterId}/"


class Channel:
    """
    One channel.

    @ivar name: as text.
    @ivar subject: the same in bytes.
    @ivar limits: those that hold for it.
    @ivar groups: the groups of its subscribers, durable ones without members included.
    @ivar tail: its last messages.
    @ivar last: the highest sequence that subscribers may be sent: everything up to it is durable.
    @ivar inFlight: how many appends are not durable yet.
    @ivar isDeleted: whether it is being deleted, or is gone.
    @ivar lastActivity: when it was last published to, or lost its last active subscription, by the
        clock of deadlines.
    @ivar inactivity: when it may be deleted.
    @ivar users: how many are just using it, so that it must not be deleted.
    """

    def __init__(self, name: str, limits: ChannelLimits) -> None:
        self.name = name
        self.subject = name.encode()
        self.limits = limits
        self.groups: dict[GroupKey, Group] = {}
        self.tail = Tail()
        self.last = 0
        self.inFlight = 0
        self.isDeleted = False
        self.lastActivity = 0.0
        self.inactivity: Deadline | None = None
        self.users = 0
        self._log: IStreamLog | None = None
        self._failure: Failure | None = None
        self._waiting: list[Deferred[None]] = []
        self._lastTime = 0

    def opened(self, log: IStreamLog) -> None:
        """
        The log is there: do what waits for it.
        """
        self.last = log.bounds().last
        # What came before the log was there has a timestamp already.
        self._lastTime = max(self._lastTime, log.bounds().lastTime)
        self._retain(log)
        self._log = log
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    def failed(self, failure: Failure) -> Failure:
        """
        The log cannot be opened: refuse what waits for it.
        """
        self.isDeleted = True
        self._failure = failure
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.errback(failure)
        return failure

    def _retain(self, log: IStreamLog) -> None:
        limits = self.limits
        wanted = Retention(limits.max_msgs, limits.max_bytes, round(limits.max_age * _NANOSECONDS))
        if wanted == Retention():
            return
        if not provides(log, IRetainedLog):
            raise StoreError("the store cannot limit a channel")
        log.retain(wanted)  # type: ignore[attr-defined]

    def whenOpen(self) -> Deferred[None]:
        """
        Wait for the log.

        @return: fails with what the log cannot be opened for.
        """
        if self._log is not None:
            return succeed(None)
        if self._failure is not None:
            return fail(self._failure)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    @property
    def log(self) -> IStreamLog:
        """
        The log.

        @raise RuntimeError: while it is not open.
        """
        if self._log is None:
            raise RuntimeError(f"channel {self.name} is not open")
        return self._log

    @property
    def isOpen(self) -> bool:
        """
        Whether the log is there.
        """
        return self._log is not None

    @property
    def bounds(self) -> LogBounds:
        """
        What is durable.
        """
        return self.log.bounds()

    def append(self, batch: list[Entry]) -> Deferred[range]:
        """
        Store messages; see L{IStreamLog.append}.
        """
        self.inFlight += 1
        if self._log is None:
            appending = self.whenOpen().addCallback(lambda _: self.log.append(batch))
        else:
            appending = maybeDeferred(self._log.append, batch)
        return appending.addBoth(self._appended)

    def _appended(self, result: range | Failure) -> range | Failure:
        self.inFlight -= 1
        if not isinstance(result, Failure) and result:
            self.last = result[-1]
        return result

    def timestamp(self, now: int) -> int:
        """
        The timestamp for the next messages: never less than that of the message before.

        @param now: the wall clock, in nanoseconds.
        """
        self._lastTime = max(now, self._lastTime)
        return self._lastTime

    async def settled(self) -> None:
        """
        Wait until everything that was appended before is durable, or has failed.
        """
        await self.whenOpen()
        if self.inFlight:
            try:
                await self.log.append([])
            except StoreError:
                pass  # Whoever appended is told.

    async def read(self, sequence: int, limit: int = 256) -> list[StoredMessage]:
        """
        Messages from the store; see L{IStreamLog.read}.
        """
        records: list[Record] = await self.log.read(sequence, limit)
        return storedMessages(self.subject, records)

    @property
    def subscriptions(self) -> Iterator[Subscription]:
        """
        All of them, offline durable ones included.
        """
        for group in self.groups.values():
            yield from group.subscriptions

    @property
    def isWatched(self) -> bool:
        """
        Whether there is an active subscription.
        """
        return any(group.members for group in self.groups.values())

    @property
    def isHeld(self) -> bool:
        """
        Whether somebody holds messages that are stored.
        """
        log = self._log
        if log is None or not provides(log, IHeldLog):
            return False
        return any(floor <= self.last for floor in log.holds().values())  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<Channel {self.name}>"


def provides(thing: object, interface: type[Interface]) -> bool:
    """
    Whether an object provides an interface.
    """
    return bool(interface.providedBy(thing))


class Channels:
    """
    All channels.
    """

    def __init__(
        self,
        store: IStreamStore,
        limits: Limits,
        clusterId: str,
        created: Callable[[Channel], object],
    ) -> None:
        """
        @param store: where the logs are.
        @param created: told of each channel that was made because it was asked for.
        """
        self.limits = limits
        self._store = store
        self._prefix = logPrefix(clusterId)
        self._created = created
        self._channels: dict[str, Channel] = {}
        self._lowered: dict[str, Channel] = {}

    def get(self, name: str) -> Channel | None:
        """
        The channel of that name, if there is one.
        """
        return self._channels.get(name)

    def demand(self, name: str) -> Channel:
        """
        The channel of that name. If there is none it is made, and its log is opened; whoever uses
        it is served when the log is there.

        @param name: a valid one.
        @raise Refused: if there cannot be such a channel.
        """
        channel = self._channels.get(name)
        if channel is not None:
            if channel.isDeleted:
                raise Refused(errors.BEING_DELETED)
            return channel
        other = self._lowered.get(name.lower())
        if other is not None:
            raise Refused(errors.OTHER_CASE.format(name, other.name))
        if 0 < self.limits.max_channels <= len(self._channels):
            raise Refused(errors.TOO_MANY_CHANNELS)
        channel = self._add(name)
        self._created(channel)
        self._open(channel).addCallbacks(self._opened, self._failed, (name,), {}, (channel,), {})
        return channel

    def _add(self, name: str) -> Channel:
        channel = Channel(name, self.limits.forChannel(name.encode()))
        self._channels[name] = self._lowered[name.lower()] = channel
        return channel

    def _open(self, channel: Channel) -> Deferred[None]:
        opening = self._store.open(self._prefix + channel.name).addCallback(channel.opened)
        return opening.addErrback(channel.failed)

    def _opened(self, _: None, name: str) -> None:
        _log.info('Channel "{name}" has been created', name=name)

    def _failed(self, failure: Failure, channel: Channel) -> None:
        why = failure.getErrorMessage()
        _log.error('Creating channel "{name}" failed: {why}', name=channel.name, why=why)
        self.forget(channel)

    async def recover(self) -> None:
        """
        Open the channels that are in the store.

        @raise StoreError: if one cannot be opened.
        """
        names = [each for each in await self._store.logs() if each.startswith(self._prefix)]
        opening = [self._open(self._add(each[len(self._prefix) :])) for each in names]
        try:
            await gatherResults(opening, consumeErrors=True)
        except FirstError as error:
            error.subFailure.raiseException()

    async def drop(self, channel: Channel) -> None:
        """
        Delete a channel with all its messages. What is published to it in the meantime is refused;
        if it cannot be deleted, it is as it was.

        @raise StoreError: if it cannot be deleted.
        """
        channel.isDeleted = True
        try:
            await self._store.drop(self._prefix + channel.name)
        except StoreError:
            channel.isDeleted = False
            raise
        self.forget(channel)

    def forget(self, channel: Channel) -> None:
        """
        There is no such channel any more.
        """
        channel.isDeleted = True
        del self._channels[channel.name]
        # Imported channels may have names that differ in case only.
        if self._lowered.get(channel.name.lower()) is channel:
            del self._lowered[channel.name.lower()]

    def __len__(self) -> int:
        return len(self._channels)

    def __iter__(self) -> Iterator[Channel]:
        return iter(list(self._channels.values()))
