"""
Interest that two members of a cluster exchange.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zope.interface.verify import verifyObject

from natsbroker.interfaces import IClusterInterestWatcher
from natsbroker.links.interest import InterestAdvertiser, RemoteInterest, RoutePermissions
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.dialects.route import LinkInterest
from natsbroker.wire.values import Kind
from tests.routes.clusters import Node
from tests.support import LinkRecorder, Recorder


class Heard:
    """
    The interest that a peer has received.

    @ivar known: the present interest, with weights.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[bytes, bytes], int] = {}

    def gained(self, pattern: bytes, queue: bytes, weight: int, origin: bytes) -> None:
        """Record interest."""
        self.known[pattern, queue] = weight if queue else 0

    def lost(self, pattern: bytes, queue: bytes, origin: bytes) -> None:
        """Record the end of interest, which must have been announced before."""
        del self.known[pattern, queue]


def announced(node: Node, heard: Heard, permissions: RoutePermissions) -> InterestAdvertiser:
    """A receiver of the interest of account A."""
    bus: Any = node.buses.busOf("A")
    return InterestAdvertiser(bus, permissions, heard.gained, heard.lost)


class TestAnnouncer:
    """Interest that is sent."""

    def test_interface(self) -> None:
        """The announcer provides the interface of a watcher."""
        assert verifyObject(IClusterInterestWatcher, announced(Node(), Heard(), RoutePermissions()))

    @given(
        steps=st.lists(
            st.tuples(
                st.sampled_from([b"a", b"b.*", b"c.>"]),
                st.sampled_from([b"", b"q", b"r"]),
                st.integers(0, 3),
            ),
            max_size=20,
        ),
        when=st.integers(0, 20),
    )
    def test_agrees(self, steps: list[tuple[bytes, bytes, int]], when: int) -> None:
        """
        After any changes of interest, and whenever the link began, the peer knows the present
        interest.
        """
        node, heard = Node(), Heard()
        bus = node.bus()
        made: dict[tuple[bytes, bytes], list[Any]] = {}
        announcer = None
        for place, (pattern, queue, count) in enumerate(steps):
            if place == when:
                announcer = announced(node, heard, RoutePermissions())
            there = made.setdefault((pattern, queue), [])
            while len(there) < count:
                there.append(bus.subscribe(pattern, Recorder(), None, queue))
            while len(there) > count:
                there.pop().cancel()
        if announcer is None:
            announcer = announced(node, heard, RoutePermissions())
        assert heard.known == {
            key: len(there) if key[1] else 0 for key, there in made.items() if there
        }
        assert len(announcer) == len(heard.known)
        announcer.end(True)
        assert heard.known == {}

    def test_permissions(self) -> None:
        """Denied interest is not sent, and is withdrawn or sent when permissions change."""
        node, heard = Node(), Heard()
        for pattern in (b"a.x", b"b.x", b"a.*"):
            node.subscribe(pattern)
        announcer = announced(node, heard, RoutePermissions(PermissionSet([b"a.>"])))
        assert set(heard.known) == {(b"a.x", b""), (b"a.*", b"")}
        announcer.permit(RoutePermissions(PermissionSet(None, [b"a.x"])))
        assert set(heard.known) == {(b"b.x", b""), (b"a.*", b"")}
        announcer.permit(RoutePermissions())
        assert len(heard.known) == 3

    def test_endsWhileRepeated(self) -> None:
        """Interest that ends while it is being sent again is not sent."""
        node, heard = Node(), Heard()
        made = [node.bus().subscribe(b"a.%d" % number, Recorder(), None) for number in range(5000)]
        announcer = announced(node, heard, RoutePermissions())
        node.clock.pump([0.0] * 20)
        assert len(heard.known) == 5000
        announcer.permit(RoutePermissions(PermissionSet(None, [b"a.1"])))
        for subscription in made[-10:]:
            subscription.cancel()
        node.clock.pump([0.0] * 20)
        assert len(heard.known) == 4989
        assert len(announcer) == 4989

    def test_afterItsEnd(self) -> None:
        """No interest is sent after the end."""
        node, heard = Node(), Heard()
        node.subscribe(b"a")
        announcer = announced(node, heard, RoutePermissions())
        announcer.end(False)
        node.subscribe(b"b")
        assert set(heard.known) == {(b"a", b"")}


class TestRemoteInterest:
    """Interest that was received."""

    def interest(self, node: Node) -> tuple[RemoteInterest, LinkRecorder]:
        """The interest of a peer, and the link that receives its messages."""
        link = LinkRecorder()
        return RemoteInterest(node.buses.busOf, lambda account, origin: link, "peer"), link

    def test_kind(self) -> None:
        """
        Received interest is a subscription of the account with the kind of a route, and its weight.
        """
        node = Node()
        interest, _ = self.interest(node)
        interest.gained(LinkInterest(b"A", b"", b"foo", b"q", 3))
        (made,) = node.buses.accounts["A"].subscriptions()
        assert (made.kind, made.weight, made.queue) == (Kind.ROUTE, 3, b"q")
        interest.gained(LinkInterest(b"A", b"", b"foo", b"q", 5))
        assert made.weight == 5 and len(interest) == 1
        assert list(interest) == [LinkInterest(b"A", b"", b"foo", b"q", 5)]

    def test_clear(self) -> None:
        """Clearing removes all received interest."""
        node = Node()
        interest, _ = self.interest(node)
        for account in (b"A", b"B", b"nope"):
            interest.gained(LinkInterest(account, b"", b"foo", b""))
        interest.clear()
        assert len(interest) == 0
        assert not any(len(account) for account in node.buses.accounts.values())

    def test_forget(self) -> None:
        """The received interest in one account can be removed."""
        node = Node()
        interest, link = self.interest(node)
        for account in (b"A", b"B"):
            interest.gained(LinkInterest(account, b"", b"foo", b""))
        interest.forget(b"A")
        assert (node.publish(b"foo"), node.publish(b"foo", account="B")) == (0, 1)
        assert len(link.got) == 1

    def test_permissions(self) -> None:
        """Received interest that is denied has no effect until it is permitted."""
        node = Node()
        interest, _ = self.interest(node)
        interest.permit(RoutePermissions(None, SubscribePermissions([b"a"])))
        interest.gained(LinkInterest(b"A", b"", b"a", b""))
        interest.gained(LinkInterest(b"A", b"", b"b", b""))
        assert (node.publish(b"a"), node.publish(b"b")) == (1, 0)
        interest.permit(RoutePermissions())
        assert (node.publish(b"a"), node.publish(b"b")) == (1, 1)

    def test_fullRouter(self) -> None:
        """A router that accepts no more subscriptions does not close the link."""
        node = Node()
        interest, _ = self.interest(node)
        patterns = [
            b".".join(b"*" if number >> bit & 1 else b"a" for bit in range(11))
            for number in range(1500)
        ]
        for pattern in patterns:
            interest.gained(LinkInterest(b"A", b"", pattern, b""))
        assert len(interest) == 1500
        for pattern in patterns:
            interest.lost(LinkInterest(b"A", b"", pattern, b""))
        assert len(node.buses.accounts["A"]) == 0


@pytest.mark.parametrize(
    "told, pattern, may",
    [
        (None, b"a", True),
        (PermissionSet([b"a.>"]), b"a.b", True),
        (PermissionSet([b"a.>"]), b"b", False),
        (PermissionSet(None, [b"a.b"]), b"a.*", True),
    ],
)
def test_mayImport(told: PermissionSet | None, pattern: bytes, may: bool) -> None:
    """A pattern is compared with permissions as a literal subject, as in nats-server."""
    assert RoutePermissions(told).mayImport(pattern) is may


def test_equalPermissions() -> None:
    """Permissions with the same entries are equal."""
    assert RoutePermissions(PermissionSet([b"a"])) == RoutePermissions(PermissionSet([b"a"]))
    assert RoutePermissions(PermissionSet([b"a"])) != RoutePermissions()
    assert RoutePermissions() != object()
