"""
Subscriptions, and the groups that share one position in a channel.

A I{group} is what has a position: a queue group with any number of members, or a single
subscription, which is a group of one. A durable group stays when its last member leaves: that
member becomes the group's I{offline} subscription, which keeps what was sent and not acknowledged,
and is who comes back when somebody resumes (nats-streaming-server calls it a shadow).

Promises: values and choices only; nothing here sends, stores, or has a timer.
Must never know: clocks, the bus, or the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natsbroker.interfaces import ISubscription
    from natsbroker.streaming.channels import Channel
    from natsbroker.streaming.clients import Client
    from natsbroker.streaming.deadlines import Deadline

__all__ = ["LARGEST_WINDOW", "Group", "GroupKey", "Subscription", "queueName"]

GroupKey = tuple[str, ...]
"""
What tells a group from others in its channel: C{("queue", name)}, C{("durable", clientID, name)} or
C{("plain", number)}.
"""

#: Bytes that one subscription may have without acknowledgement, whatever its maxInFlight: what is
#: sent waits in memory until the client takes it. One message is always allowed.
LARGEST_WINDOW = 16 << 20


def queueName(queue: str, durableName: str) -> str:
    """
    The name of a queue group, which for a durable one begins with its durable name.
    """
    return f"{durableName}:{queue}" if durableName else queue


class Subscription:
    """
    One subscription, active or not.

    @ivar number: tells it from all others of the service, for ever.
    @ivar group: what it is a member, or the offline subscription, of.
    @ivar client: whose it is; C{None} while it is offline.
    @ivar clientID: whose it is, or was.
    @ivar inbox: where messages go.
    @ivar ackInbox: where acknowledgements come from.
    @ivar canHear: whether C{inbox} is a subject that messages can be sent to.
    @ivar maxInFlight: how many messages may be unacknowledged.
    @ivar ackWaitInSecs: after how many seconds they come again.
    @ivar owner: the user that made it, for a durable subscription; see
        L{natsbroker.streaming.requests.access}.
    @ivar pending: sequence -> when it comes again and its size, in the order of these times.
    @ivar pendingBytes: the sum of the sizes.
    @ivar isReady: whether the client knows of the subscription: it is sent nothing before.
    @ivar isOnHold: it is sent nothing new before what it had unacknowledged came again.
    @ivar redelivery: when pending messages are looked at next.
    @ivar isRedelivering: whether they are being looked at now.
    @ivar acks: the bus subscription to C{ackInbox}.
    """

    __slots__ = (
        "ackInbox",
        "ackWaitInSecs",
        "acks",
        "canHear",
        "client",
        "clientID",
        "group",
        "inbox",
        "isOnHold",
        "isReady",
        "isRedelivering",
        "maxInFlight",
        "number",
        "owner",
        "pending",
        "pendingBytes",
        "redelivery",
    )

    def __init__(self, number: int, group: Group) -> None:
        self.number = number
        self.group = group
        self.client: Client | None = None
        self.clientID = ""
        self.inbox = b""
        self.ackInbox = b""
        self.canHear = False
        self.maxInFlight = 1
        self.ackWaitInSecs = 30
        self.owner = ""
        self.pending: dict[int, tuple[float, int]] = {}
        self.pendingBytes = 0
        self.isReady = False
        self.isOnHold = False
        self.redelivery: Deadline | None = None
        self.isRedelivering = False
        self.acks: ISubscription | None = None

    @property
    def isStalled(self) -> bool:
        """
        Whether it must acknowledge something before it gets more.
        """
        return len(self.pending) >= self.maxInFlight or self.bytesLeft <= 0

    @property
    def bytesLeft(self) -> int:
        """
        How many bytes it may be sent before it must acknowledge something; the last message may
        have more.
        """
        return LARGEST_WINDOW - self.pendingBytes

    @property
    def isUnwell(self) -> bool:
        """
        Whether its client left the last heartbeat unanswered.
        """
        return self.client is not None and self.client.failures > 0

    @property
    def isActive(self) -> bool:
        """
        Whether a client has it now.
        """
        return self.client is not None

    def sent(self, sequence: int, again: float, size: int) -> None:
        """
        Note that a message was sent, for the first time or once more.

        @param again: when it comes again; not before any other.
        """
        before = self.pending.pop(sequence, None)
        if before is None:
            self.pendingBytes += size
        self.pending[sequence] = (again, size if before is None else before[1])

    def settled(self, sequence: int) -> bool:
        """
        Note that a message is not pending any more.

        @return: whether it was.
        """
        before = self.pending.pop(sequence, None)
        if before is None:
            return False
        self.pendingBytes -= before[1]
        return True

    def sentMany(self, sequences: Sequence[int], again: float, sizes: Sequence[int]) -> None:
        """
        Note that messages were sent that are not pending yet.

        @param again: when they come again; not before any other.
        @param sizes: of each.
        """
        self.pending.update(zip(sequences, zip(repeat(again), sizes), strict=False))
        self.pendingBytes += sum(sizes)

    def settledMany(self, sequences: Sequence[int]) -> list[int]:
        """
        Note that messages are not pending any more.

        @return: those that were not.
        """
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
        Take over what another one had pending: sequences and sizes.

        @param again: when it comes again; not after any other.
        """
        taken = {sequence: (again, size) for sequence, size in pending}
        self.pendingBytes += sum(size for _, size in taken.values())
        self.pending = {**taken, **self.pending}

    def __repr__(self) -> str:
        return f"<Subscription {self.number} of {self.clientID} to {self.group.channel.name}>"


class Group:
    """
    Those who share one position.

    @ivar channel: what they subscribe to.
    @ivar key: see L{GroupKey}.
    @ivar queue: the name of the queue group with its durable name; empty for a single subscription.
    @ivar durableName: of a single subscription; empty in a queue group, whose name has it.
    @ivar isDurable: whether it outlives its members.
    @ivar members: the active ones.
    @ivar offline: the one that was last, in a durable group without members.
    @ivar lastSent: the highest sequence that was sent to any of them.
    @ivar mayBeSent: up to here, messages may have been sent before the broker stopped unexpectedly.
    @ivar announced: the same mark as it stands in the store.
    @ivar settledAt: when something was acknowledged last, by the clock of deadlines.
    @ivar isFlowing: whether it was just before the group was written down last.
    @ivar counts: how often messages were sent again.
    @ivar isReading: whether messages are being read for it.
    """

    __slots__ = (
        "announced",
        "channel",
        "counts",
        "durableName",
        "isDurable",
        "isFlowing",
        "isReading",
        "key",
        "lastSent",
        "mayBeSent",
        "members",
        "offline",
        "queue",
        "settledAt",
    )

    def __init__(
        self, channel: Channel, key: GroupKey, queue: str, durableName: str, isDurable: bool
    ) -> None:
        self.channel = channel
        self.key = key
        self.queue = queue
        self.durableName = durableName
        self.isDurable = isDurable
        self.members: list[Subscription] = []
        self.offline: Subscription | None = None
        self.lastSent = 0
        self.mayBeSent = 0
        self.announced = 0
        self.settledAt = -inf
        self.isFlowing = False
        self.counts: dict[int, int] = {}
        self.isReading = False

    def choose(self) -> Subscription | None:
        """
        Who gets the next new message; C{None} while nobody can take one.
        """
        members = self.members
        if len(members) == 1:
            member = members[0]
            if not member.isReady or member.isOnHold or not member.canHear or member.isStalled:
                return None
            return member
        if any(member.isOnHold for member in members):
            return None
        ready = [each for each in members if each.isReady and each.canHear and not each.isStalled]
        return self._best(ready)

    def roomOf(self, member: Subscription, several: int = 1) -> int:
        """
        How many new messages somebody who was chosen may be sent before anybody is chosen again,
        if their bytes allow it.

        @param several: the answer where there are several members, who take turns.
        """
        return member.maxInFlight - len(member.pending) if len(self.members) == 1 else several

    def chooseAgain(self, first: Subscription) -> Subscription | None:
        """
        Who gets a message again.

        @param first: who had it.
        @return: for a single subscription itself; in a queue group the member with the fewest
            unacknowledged messages that answers its heartbeats and is not stalled, if there is one.
        """
        if not self.queue:
            return first if first.isReady and first.canHear else None
        ready = [each for each in self.members if each.isReady and each.canHear]
        return self._best([each for each in ready if not each.isStalled] or ready)

    def _best(self, candidates: list[Subscription]) -> Subscription | None:
        if not candidates:
            return None
        well = [each for each in candidates if not each.isUnwell] or candidates
        best = min(well, key=lambda each: len(each.pending))
        # Equals take turns: whoever is first and was chosen goes to the end.
        if best is self.members[0]:
            self.members.append(self.members.pop(0))
        return best

    def countAgain(self, sequence: int) -> int:
        """
        Count that a message is sent again.

        @return: how often it was.
        """
        count = self.counts[sequence] = self.counts.get(sequence, 0) + 1
        return count

    @property
    def subscriptions(self) -> list[Subscription]:
        """
        The members, or the offline subscription.
        """
        return self.members if self.offline is None else [self.offline]

    def __repr__(self) -> str:
        return f"<Group {'/'.join(self.key)} of {self.channel.name}>"
