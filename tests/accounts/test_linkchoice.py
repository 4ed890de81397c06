"""
The choice of another link for a message that a queue group here can no longer take.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.delivery import DIRECTED, Group, isDeserted, mayForward, successors
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message
from tests.support import LinkRecorder, Recorder, Router


class Cluster(LinkRecorder):
    """A leafnode, or a member of our cluster that represents a cluster of leafnodes."""

    def __init__(self, cluster: bytes, account: str = "A", kind: Kind = Kind.HUB) -> None:
        super().__init__()
        self.cluster = cluster
        self.isNamed = bool(cluster)
        self.grant = Grant(account)
        self.kind = kind


@pytest.fixture
def account() -> Account:
    """An account."""
    return Account("A", Router(), AccountDependencies(hot.FlushBatch(lambda call: None), Random(1)))


def groupOf(account: Account) -> Group:
    """The queue group of the subject that all these tests use."""
    group: Group = account.matcher.match(b"foo").groups[0]
    return group


def join(account: Account, kind: Kind, subscriber: Any, queue: bytes = b"q") -> Any:
    """Add a member to the queue group."""
    return account.busFor(kind).subscribe(b"foo", subscriber, b"1", queue)


class TestDeserted:
    """Whether a group that a sender chose has a member left."""

    @pytest.mark.parametrize(
        ("kind", "make"),
        [(Kind.CLIENT, Recorder), (Kind.INTERNAL, Recorder), (Kind.SPOKE, LinkRecorder)],
    )
    def test_members(self, account: Account, kind: Kind, make: Callable[[], Any]) -> None:
        """A member that was advertised counts as a member until it has unsubscribed."""
        sender = LinkRecorder()
        join(account, Kind.ROUTE, sender)
        member = join(account, kind, make())
        message = Message(b"foo", origin=sender, queues=(b"q",))
        group = groupOf(account)
        assert not isDeserted(Kind.ROUTE, group, message)
        member.closed = True
        assert isDeserted(Kind.ROUTE, group, message)

    def test_imported(self, account: Account) -> None:
        """
        A member in another account that imports the stream counts until its subscription ends.
        """
        importer = Account("B", Router(), AccountDependencies(hot.FlushBatch(lambda call: None)))
        member = join(importer, Kind.CLIENT, Recorder())
        account.attach(hot.Shadow(account, b"foo", Recorder(), member))
        group, message = groupOf(account), Message(b"foo", queues=(b"q",))
        assert not isDeserted(Kind.ROUTE, group, message)
        assert hot.closeAll([member]) == [member]
        assert isDeserted(Kind.ROUTE, group, message)

    def test_unadvertised(self, account: Account) -> None:
        """
        A group is deserted if its only members are services of this broker alone or other servers.
        """
        join(account, Kind.LOCAL, Recorder())
        join(account, Kind.ROUTE, LinkRecorder())
        assert isDeserted(Kind.ROUTE, groupOf(account), Message(b"foo", queues=(b"q",)))

    def test_forbidden(self, account: Account) -> None:
        """
        A member that may not receive the message still counts as a member. Otherwise the message
        would come back for ever.
        """
        member = join(account, Kind.CLIENT, Recorder())
        member.permissions = SubscribePermissions(None, [b"foo"])
        join(account, Kind.ROUTE, LinkRecorder())
        assert not isDeserted(Kind.ROUTE, groupOf(account), Message(b"foo", queues=(b"q",)))

    @pytest.mark.parametrize("kind", [Kind.CLIENT, Kind.INTERNAL, Kind.GATEWAY])
    def test_otherSenders(self, account: Account, kind: Kind) -> None:
        """A group is not deserted for messages of clients, services and other clusters."""
        join(account, Kind.ROUTE, LinkRecorder())
        assert not isDeserted(kind, groupOf(account), Message(b"foo", queues=(b"q",)))


class TestSuccessors:
    """The subscription that takes over a queue group's message."""

    def chosen(self, account: Account, kind: Kind, sender: Any) -> list[Any]:
        """The links that may be chosen."""
        matches, message = account.matcher.match(b"foo"), Message(b"foo", origin=sender)
        return [
            successor.subscriber
            for successor in successors(kind, matches, matches.groups[0], message)
        ]

    def test_orderOfServers(self, account: Account) -> None:
        """Servers without plain interest come first, then the others, and the sender last."""
        sender, plain, other = LinkRecorder(), LinkRecorder(), LinkRecorder()
        join(account, Kind.ROUTE, plain, b"")
        last = [join(account, Kind.ROUTE, link) for link in (sender, plain, other)]
        for expected in (other, plain, sender):
            assert self.chosen(account, Kind.ROUTE, sender) == [expected]
            last.pop(-1 if expected is other else 1 if expected is plain else 0).cancel()

    def test_sameKind(self, account: Account) -> None:
        """A message from a route is not given to a hub or to another cluster."""
        sender = LinkRecorder()
        for kind in (Kind.HUB, Kind.GATEWAY):
            join(account, kind, LinkRecorder())
        assert self.chosen(account, Kind.ROUTE, sender) == []

    def test_clusters(self, account: Account) -> None:
        """A message from a cluster of leafnodes does not go back to it."""
        sender, other = Cluster(b"LC"), Cluster(b"other")
        join(account, Kind.HUB, sender)
        join(account, Kind.HUB, Cluster(b"LC"))
        assert self.chosen(account, Kind.HUB, sender) == []
        join(account, Kind.HUB, other)
        assert self.chosen(account, Kind.HUB, sender) == [other]


@pytest.mark.parametrize(
    ("kind", "theirs", "cluster", "origin", "isTaken"),
    [
        (Kind.SPOKE, b"E", b"E", "A", False),
        (Kind.SPOKE, b"E", b"E", "B", True),
        (Kind.SPOKE, b"E", b"F", "A", True),
        (Kind.SPOKE, b"", b"", "B", True),
        (Kind.ROUTE, b"E", b"E", "B", True),
        (Kind.HUB, b"E", b"E", "B", False),
        (Kind.HUB, b"E", b"F", "B", True),
        (Kind.HUB, b"", b"E", "B", True),
        (Kind.HUB, b"E", b"", "B", True),
        (Kind.HUB, b"", b"", "A", True),
        (Kind.HUB, b"", b"", "B", False),
    ],
)
def test_mayForward(
    account: Account, kind: Kind, theirs: bytes, cluster: bytes, origin: str, isTaken: bool
) -> None:
    """
    A message imported from another account is forwarded to leafnodes of the sender's cluster, but
    not to hubs of that cluster.
    """
    subscription = join(account, kind, Cluster(cluster, kind=kind))
    assert mayForward(subscription, Message(b"foo", origin=Cluster(theirs, origin))) == isTaken


class Neighbour(LinkRecorder):
    """A broker on the same host."""

    isNeighbour = True


class TestNeighbours:
    """Queue groups with members at brokers on the same host."""

    def shares(self, account: Account, kind: Kind, *subscribers: Any) -> list[int]:
        """The number of messages that each member got, out of a thousand."""
        bus = account.busFor(kind)
        for _ in range(1000):
            bus.publish(Message(b"foo", queues=(b"q",) if kind in DIRECTED else None))
        return [len(subscriber.got) for subscriber in subscribers]

    @pytest.mark.parametrize("kind", [Kind.CLIENT, Kind.INTERNAL, Kind.GATEWAY, Kind.SPOKE])
    def test_weights(self, account: Account, kind: Kind) -> None:
        """
        Members here and at brokers on this host are equally likely, and no other member of the
        cluster is chosen.
        """
        member, neighbour, other, plain = Recorder(), Neighbour(), Neighbour(), LinkRecorder()
        join(account, Kind.CLIENT, member)
        join(account, Kind.ROUTE, plain)
        join(account, Kind.ROUTE, neighbour)
        account.busFor(Kind.ROUTE).subscribe(b"foo", other, b"1", b"q", 2)
        shares = self.shares(account, kind, member, neighbour, other, plain)
        assert shares[3] == 0 and sum(shares) == 1000
        for share, expected in zip(shares, (250, 250, 500), strict=False):
            assert abs(share - expected) < 80

    def test_fromRoute(self, account: Account) -> None:
        """A message from a broker on this host that chose this one is not sent back."""
        member, neighbour = Recorder(), Neighbour()
        join(account, Kind.CLIENT, member)
        join(account, Kind.ROUTE, neighbour)
        account.busFor(Kind.ROUTE).publish(Message(b"foo", queues=(b"q",)))
        assert len(member.got) == 1 and not neighbour.got
