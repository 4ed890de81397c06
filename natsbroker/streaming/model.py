"""
The clients, subscriptions, groups and channels of the service.

A I{group} has a position in a channel: a queue group with any number of members, or a single
subscription. A durable group stays when its last member leaves. That member becomes the group's
I{offline} subscription, keeps its unacknowledged messages, and returns when a client resumes it
(nats-streaming-server calls it a shadow).

Except for the log of a channel, nothing here sends, stores or waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from math import inf

from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.python.failure import Failure
from zope.interface import Interface

from natsbroker.config.settings.streaming import ChannelLimits
from natsbroker.interfaces import IHeldLog, IRetainedLog, IStreamLog, ISubscription
from natsbroker.interfaces.records import Entry, LogBounds, Record, Retention, StoreError
from natsbroker.runtime.deadlines import Deadline
from natsbroker.streaming.messages import StoredMessage, Tail, storedMessages

GroupKey = tuple[str, ...]
"""
Identifies a group in its channel: C{("queue", name)}, C{("durable", clientID, name)} or
C{("plain", number)}.
"""

#: The unacknowledged bytes of a subscription, whatever its maxInFlight: messages wait in memory
#: until the client reads them. One message is always allowed.
LARGEST_WINDOW = 16 << 20


def queueName(queue: str, durableName: str) -> str:
    """The name of a queue group. It begins with the durable name."""
    return f"{durableName}:{queue}" if durableName else queue


@dataclass(slots=True, eq=False, repr=False)
class StreamingClient:
    """
    @ivar connID: empty for a client of protocol 0.
    @ivar owner: the user that connected it; see L{natsbroker.streaming.requests.access}.
    @ivar failures: unanswered heartbeats in a row.
    @ivar heartbeat: the next one; C{None} while one waits for its answer.
    """

    clientID: str
    heartbeatInbox: str
    connID: bytes
    protocol: int
    owner: str
    subscriptions: dict[int, ChannelSubscription] = field(default_factory=dict)
    failures: int = 0
    heartbeat: Deadline | None = None
    isRegistered: bool = False

    def __repr__(self) -> str:
        return f"<StreamingClient {self.clientID}>"


@dataclass(slots=True, eq=False, repr=False)
class ChannelSubscription:
    """
    @ivar number: unique in the service, for ever.
    @ivar client: C{None} while it is offline.
    @ivar canHear: whether C{inbox} is a valid subject.
    @ivar owner: the user that created it, for a durable subscription; see
        L{natsbroker.streaming.requests.access}.
    @ivar pending: sequence -> time of redelivery and size, in the order of these times.
    @ivar isReady: whether the client has its response. No message is sent before that.
    @ivar isOnHold: whether pending messages must be redelivered before new ones are sent.
    @ivar redelivery: the next check of pending messages.
    @ivar acks: the bus subscription to C{ackInbox}.
    """

    number: int
    group: Group
    client: StreamingClient | None = None
    clientID: str = ""
    inbox: bytes = b""
    ackInbox: bytes = b""
    canHear: bool = False
    maxInFlight: int = 1
    ackWaitInSecs: int = 30
    owner: str = ""
    pending: dict[int, tuple[float, int]] = field(default_factory=dict)
    pendingBytes: int = 0
    isReady: bool = False
    isOnHold: bool = False
    redelivery: Deadline | None = None
    isRedelivering: bool = False
    acks: ISubscription | None = None

    @property
    def isStalled(self) -> bool:
        return len(self.pending) >= self.maxInFlight or self.bytesLeft <= 0

    @property
    def bytesLeft(self) -> int:
        """
        The bytes that may be sent before an acknowledgement; the last message may exceed them.
        """
        return LARGEST_WINDOW - self.pendingBytes

    @property
    def isUnwell(self) -> bool:
        return self.client is not None and self.client.failures > 0

    @property
    def isActive(self) -> bool:
        return self.client is not None

    def sent(self, sequence: int, again: float, size: int) -> None:
        """
        Note that a message was sent. C{again}, the time of its redelivery, is not before that of
        any other.
        """
        before = self.pending.pop(sequence, None)
        if before is None:
            self.pendingBytes += size
        self.pending[sequence] = (again, size if before is None else before[1])

    def settled(self, sequence: int) -> bool:
        before = self.pending.pop(sequence, None)
        if before is None:
            return False
        self.pendingBytes -= before[1]
        return True

    def sentMany(self, sequences: Sequence[int], again: float, sizes: Sequence[int]) -> None:
        self.pending.update(zip(sequences, zip(repeat(again), sizes), strict=False))
        self.pendingBytes += sum(sizes)

    def settledMany(self, sequences: Sequence[int]) -> list[int]:
        pop, strange, size = self.pending.pop, [], 0
        for sequence in sequences:
            before = pop(sequence, None)
            if before is None:
                strange.append(sequence)
            else:
                size += before[1]
        self.pendingBytes -= size
        return strange

    def inherit(self, pending: Iterable[tuple[int, int]], again: float) -> None:
        """
        Take pending messages. C{again}, the time of their redelivery, is not after that of any
        other.
        """
        taken = {sequence: (again, size) for sequence, size in pending}
        self.pendingBytes += sum(size for _, size in taken.values())
        self.pending = {**taken, **self.pending}

    def __repr__(self) -> str:
        return (
            f"<ChannelSubscription {self.number} of {self.clientID} to {self.group.channel.name}>"
        )


@dataclass(slots=True, eq=False, repr=False)
class Group:
    """
    @ivar queue: the name of the queue group with its durable name; empty for a single subscription.
    @ivar durableName: of a single subscription; empty for a queue group, whose name has it.
    @ivar offline: the last member of a durable group without members.
    @ivar lastSent: the highest sequence sent to a member.
    @ivar mayBeSent: the highest sequence that may have been sent before an unexpected end.
    @ivar announced: C{mayBeSent} as the store has it.
    @ivar settledAt: the time of the last acknowledgement, by the clock of deadlines.
    @ivar isFlowing: whether acknowledgements were recent when the group was last written.
    @ivar counts: the redeliveries of messages, by sequence.
    @ivar isReading: whether the store is being read for it.
    """

    channel: Channel
    key: GroupKey
    queue: str
    durableName: str
    isDurable: bool
    members: list[ChannelSubscription] = field(default_factory=list)
    offline: ChannelSubscription | None = None
    lastSent: int = 0
    mayBeSent: int = 0
    announced: int = 0
    settledAt: float = -inf
    isFlowing: bool = False
    counts: dict[int, int] = field(default_factory=dict)
    isReading: bool = False

    def choose(self) -> ChannelSubscription | None:
        """The member for the next new message; C{None} while no member can receive one."""
        members = self.members
        if len(members) == 1:
            member = members[0]
            if not member.isReady or member.isOnHold or not member.canHear or member.isStalled:
                return None
            return member
        if any(member.isOnHold for member in members):
            return None
        ready = [
            candidate
            for candidate in members
            if candidate.isReady and candidate.canHear and not candidate.isStalled
        ]
        return self._best(ready)

    def roomOf(self, member: ChannelSubscription, several: int = 1) -> int:
        return member.maxInFlight - len(member.pending) if len(self.members) == 1 else several

    def chooseAgain(self, first: ChannelSubscription) -> ChannelSubscription | None:
        """
        A single subscription itself. In a queue group, the member after C{first} with the fewest
        unacknowledged messages, if possible one that answers heartbeats and is not stalled.
        """
        if not self.queue:
            return first if first.isReady and first.canHear else None
        ready = [member for member in self.members if member.isReady and member.canHear]
        return self._best([member for member in ready if not member.isStalled] or ready)

    def _best(self, candidates: list[ChannelSubscription]) -> ChannelSubscription | None:
        if not candidates:
            return None
        well = [member for member in candidates if not member.isUnwell] or candidates
        best = min(well, key=lambda candidate: len(candidate.pending))
        # Equal members take turns: a chosen first member moves to the end.
        if best is self.members[0]:
            self.members.append(self.members.pop(0))
        return best

    def countAgain(self, sequence: int) -> int:
        count = self.counts[sequence] = self.counts.get(sequence, 0) + 1
        return count

    @property
    def subscriptions(self) -> list[ChannelSubscription]:
        return self.members if self.offline is None else [self.offline]

    def __repr__(self) -> str:
        return f"<Group {'/'.join(self.key)} of {self.channel.name}>"


class Channel:
    """
    @ivar groups: the groups of its subscriptions, including durable ones without members.
    @ivar last: the highest sequence that may be sent: all records up to it are durable.
    @ivar inFlight: the appends that are not durable yet.
    @ivar isDeleted: whether it is being deleted or is deleted.
    @ivar lastActivity: the time of the last message, or of the end of the last active subscription,
        by the clock of deadlines.
    @ivar users: the subscribe requests in progress, which prevent deletion.
    @ivar watchers: called with the sequences and the records that have become durable, before
        subscriptions and publishers learn of them.
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
        self.watchers: list[Callable[[range, Sequence[Entry]], None]] = []
        self._log: IStreamLog | None = None
        self._failure: Failure | None = None
        self._waiting: list[Deferred[None]] = []
        self._lastTime = 0

    def opened(self, log: IStreamLog) -> None:
        self.last = log.bounds().last
        # Messages that came before the log was open have timestamps already.
        self._lastTime = max(self._lastTime, log.bounds().lastTime)
        self._retain(log)
        self._log = log
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.callback(None)

    def failed(self, failure: Failure) -> Failure:
        self.isDeleted = True
        self._failure = failure
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.errback(failure)
        return failure

    def _retain(self, log: IStreamLog) -> None:
        limits = self.limits
        wanted = Retention(limits.max_msgs, limits.max_bytes, round(limits.max_age * 1e9))
        if wanted == Retention():
            return
        if not provides(log, IRetainedLog):
            raise StoreError("the store cannot limit a channel")
        log.retain(wanted)  # type: ignore[attr-defined]

    def whenOpen(self) -> Deferred[None]:
        if self._log is not None:
            return succeed(None)
        if self._failure is not None:
            return fail(self._failure)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    @property
    def log(self) -> IStreamLog:
        if self._log is None:
            raise RuntimeError(f"channel {self.name} is not open")
        return self._log

    @property
    def isOpen(self) -> bool:
        return self._log is not None

    @property
    def bounds(self) -> LogBounds:
        return self.log.bounds()

    def append(self, batch: list[Entry]) -> Deferred[range]:
        """
        Append messages in the order of the calls, even while the log is being opened; see
        L{IStreamLog.append}.
        """
        self.inFlight += 1
        if self._log is None:
            appending = self.whenOpen().addCallback(lambda _: self.log.append(batch))
        else:
            appending = maybeDeferred(self._log.append, batch)
        return appending.addBoth(self._appended, batch)

    def _appended(self, result: range | Failure, batch: list[Entry]) -> range | Failure:
        self.inFlight -= 1
        if not isinstance(result, Failure) and result:
            self.last = result[-1]
            for watcher in self.watchers:
                watcher(result, batch)
        return result

    def timestamp(self, now: int) -> int:
        """
        The timestamp for the next messages, in nanoseconds: never before that of the last message.
        """
        self._lastTime = max(now, self._lastTime)
        return self._lastTime

    async def settled(self) -> None:
        await self.whenOpen()
        if self.inFlight:
            try:
                await self.log.append([])
            except StoreError:
                pass  # The appends have reported it.

    async def read(self, sequence: int, limit: int = 256) -> list[StoredMessage]:
        records: list[Record] = await self.log.read(sequence, limit)
        return storedMessages(self.subject, records)

    @property
    def subscriptions(self) -> Iterator[ChannelSubscription]:
        for group in self.groups.values():
            yield from group.subscriptions

    @property
    def isWatched(self) -> bool:
        return any(group.members for group in self.groups.values())

    @property
    def isHeld(self) -> bool:
        log = self._log
        if log is None or not provides(log, IHeldLog):
            return False
        return any(floor <= self.last for floor in log.holds().values())  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<Channel {self.name}>"


def provides(thing: object, interface: type[Interface]) -> bool:
    """C{interface.providedBy} with a type that mypy knows."""
    return bool(interface.providedBy(thing))
