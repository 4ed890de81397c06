"""
Groups and their members.
"""

from __future__ import annotations

from natsbroker.config.settings.streaming import ChannelLimits
from natsbroker.streaming.model import (
    LARGEST_WINDOW,
    Channel,
    ChannelSubscription,
    Group,
    StreamingClient,
    queueName,
)


def group(queue: str = "q", members: int = 1, maxInFlight: int = 2) -> Group:
    """A group whose members are ready."""
    made = Group(Channel("foo", ChannelLimits()), ("queue", queue), queue, "", False)
    for number in range(members):
        member = ChannelSubscription(number, made)
        member.client = StreamingClient(f"c{number}", "hb", b"", 1, "")
        member.maxInFlight = maxInFlight
        member.isReady = member.canHear = True
        made.members.append(member)
    return made


def numbers(subscriptions: list[ChannelSubscription | None]) -> list[int | None]:
    """The numbers of some subscriptions."""
    return [None if subscription is None else subscription.number for subscription in subscriptions]


def test_queueName() -> None:
    """The name of a durable queue group begins with its durable name."""
    assert (queueName("q", ""), queueName("q", "d")) == ("q", "d:q")


class TestSubscription:
    """L{ChannelSubscription}."""

    def test_pending(self) -> None:
        """
        A sent message is pending until it is acknowledged; pending messages are in the order of
        their redelivery.
        """
        member = group().members[0]
        member.sent(1, 10.0, 5)
        member.sent(2, 11.0, 6)
        member.sent(1, 12.0, 5)
        assert list(member.pending) == [2, 1]
        assert member.pendingBytes == 11
        assert member.settled(1)
        assert not member.settled(1)
        assert (member.pendingBytes, list(member.pending)) == (6, [2])

    def test_isStalled(self) -> None:
        """A subscription is stalled when it has as many unacknowledged messages as it may."""
        member = group().members[0]
        member.sent(1, 1.0, 1)
        assert not member.isStalled
        member.sent(2, 1.0, 1)
        assert member.isStalled

    def test_stalledByBytes(self) -> None:
        """
        A subscription is stalled with too many unacknowledged bytes, until the message is settled.
        """
        member = group(maxInFlight=1000).members[0]
        member.sent(1, 1.0, LARGEST_WINDOW)
        assert member.isStalled
        member.settled(1)
        assert not member.isStalled

    def test_inherit(self) -> None:
        """A pending message that another member leaves is redelivered first."""
        member = group().members[0]
        member.sent(9, 10.0, 1)
        member.inherit([(3, 4), (5, 4)], 2.0)
        assert list(member.pending) == [3, 5, 9]
        assert member.pendingBytes == 9


class TestChoose:
    """The member that gets the next message."""

    def test_single(self) -> None:
        """A single subscription is chosen unless it is not ready, on hold, deaf or stalled."""
        one = group("")
        member = one.members[0]
        assert one.choose() is member
        for name, wrong in (("isReady", False), ("isOnHold", True), ("canHear", False)):
            setattr(member, name, wrong)
            assert one.choose() is None
            setattr(member, name, not wrong)
        member.maxInFlight = 0
        assert one.choose() is None

    def test_noMembers(self) -> None:
        """Without members there is no next member."""
        assert group(members=0).choose() is None

    def test_turns(self) -> None:
        """Members with equally many pending messages take turns."""
        three = group(members=3, maxInFlight=9)
        members = []
        for sequence in range(6):
            member = three.choose()
            members.append(member)
            assert member is not None
            member.sent(sequence, 1.0, 1)
        assert sorted(map(str, numbers(members))) == ["0", "0", "1", "1", "2", "2"]

    def test_leastPending(self) -> None:
        """The member with the fewest pending messages is chosen; stalled ones are not."""
        two = group(members=2)
        two.members[0].sent(1, 1.0, 1)
        busy, idle = two.members
        assert two.choose() is idle
        idle.sent(2, 1.0, 1)
        idle.sent(3, 1.0, 1)
        assert two.choose() is busy
        busy.sent(4, 1.0, 1)
        assert two.choose() is None

    def test_answersHeartbeats(self) -> None:
        """A member whose client answers heartbeats is preferred, if it has room."""
        two = group(members=2)
        well, unwell = two.members
        assert unwell.client is not None
        unwell.client.failures = 1
        well.sent(1, 1.0, 1)
        assert two.choose() is well
        well.sent(2, 1.0, 1)
        assert two.choose() is unwell

    def test_onHold(self) -> None:
        """No member gets new messages before those of a lost member are redelivered."""
        two = group(members=2)
        two.members[1].isOnHold = True
        assert two.choose() is None


class TestChooseAgain:
    """The member that gets a message redelivered."""

    def test_single(self) -> None:
        """A single subscription gets its messages redelivered even while it is stalled."""
        one = group("", maxInFlight=0)
        assert one.chooseAgain(one.members[0]) is one.members[0]
        one.members[0].canHear = False
        assert one.chooseAgain(one.members[0]) is None

    def test_queue(self) -> None:
        """In a queue group, a member with room is chosen, or else any member."""
        two = group(members=2)
        full, free = two.members
        full.sent(1, 1.0, 1)
        full.sent(2, 1.0, 1)
        assert two.chooseAgain(full) is free
        free.maxInFlight = 0
        assert two.chooseAgain(full) in (full, free)

    def test_counts(self) -> None:
        """The redeliveries of a message are counted for the group."""
        one = group()
        assert [one.countAgain(5), one.countAgain(5), one.countAgain(6)] == [1, 2, 1]


def test_subscriptions() -> None:
    """A group's subscriptions are its members, or the offline one."""
    one = group(members=2)
    assert len(one.subscriptions) == 2
    one.members = []
    one.offline = ChannelSubscription(7, one)
    assert [subscription.number for subscription in one.subscriptions] == [7]
