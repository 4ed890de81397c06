"""
A subscription as a value with two counters, and the subscriptions of a connection by their sids.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import Names, onEach


class Owner:
    """
    The owner of subscriptions.
    """

    def __init__(self) -> None:
        self.cancelled: list[Any] = []

    def subscriptionCancelled(self, subscription: Any) -> None:
        """Note the cancelled subscription."""
        self.cancelled.append(subscription)


@onEach
class TestSubscription:
    """One subscription."""

    def test_attributes(self, names: Names) -> None:
        """A subscription has the given attributes, and no deliveries yet."""
        parts = [object() for _ in range(5)]
        owner, subscriber, tag, outbox, permissions = parts
        subscription = names.Subscription(
            owner, b"foo.*", b"q", 3, subscriber, tag, outbox, permissions, 7
        )
        assert (subscription.pattern, subscription.queue) == (b"foo.*", b"q")
        assert (subscription.kind, subscription.weight) == (3, 7)
        assert subscription.owner is owner
        assert subscription.subscriber is subscriber
        assert subscription.tag is tag
        assert subscription.outbox is outbox
        assert subscription.permissions is permissions
        assert (subscription.maximum, subscription.delivered, subscription.closed) == (0, 0, False)

    def test_defaults(self, names: Names) -> None:
        """By default, a subscription has no outbox, no permissions and the weight one."""
        subscription = names.Subscription(None, b"foo", b"", 0, None, None)
        assert (subscription.outbox, subscription.permissions) == (None, None)
        assert subscription.weight == 1

    def test_cancel(self, names: Names) -> None:
        """Cancelling closes a subscription and notifies the owner once."""
        owner = Owner()
        subscription = names.Subscription(owner, b"foo", b"", 0, None, None)
        subscription.cancel()
        subscription.cancel()
        assert subscription.closed
        assert owner.cancelled == [subscription]

    @pytest.mark.parametrize(
        ("delivered", "count", "closed", "maximum"),
        [
            (0, 1, False, 1),
            (2, 3, False, 3),
            (2, 2, True, 0),
            (2, 1, True, 0),
            (0, 0, True, 0),
            (0, -1, True, 0),
        ],
    )
    def test_cancelAfter(
        self, names: Names, delivered: int, count: int, closed: bool, maximum: int
    ) -> None:
        """
        A maximum that is not reached yet is noted; one that is already reached ends the
        subscription at once.
        """
        owner = Owner()
        subscription = names.Subscription(owner, b"foo", b"", 0, None, None)
        subscription.delivered = delivered
        subscription.cancelAfter(count)
        assert (subscription.closed, subscription.maximum) == (closed, maximum)
        assert owner.cancelled == [subscription] * closed

    def test_closedStaysClosed(self, names: Names) -> None:
        """A maximum for a closed subscription does not notify the owner."""
        owner = Owner()
        subscription = names.Subscription(owner, b"foo", b"", 0, None, None)
        subscription.cancel()
        subscription.cancelAfter(5)
        subscription.cancelAfter(0)
        assert subscription.closed
        assert owner.cancelled == [subscription]

    def test_ownerMayClose(self, names: Names) -> None:
        """The owner can close a subscription and count its deliveries."""
        subscription = names.Subscription(None, b"foo", b"", 0, None, None)
        subscription.delivered += 1
        subscription.closed = True
        assert (subscription.delivered, subscription.closed) == (1, True)

    def test_identity(self, names: Names) -> None:
        """Two subscriptions with equal parts are different."""
        one, other = (names.Subscription(None, b"foo", b"", 0, None, b"1") for _ in range(2))
        assert one != other
        assert len({one, other}) == 2

    def test_repr(self, names: Names) -> None:
        """The representation names pattern, group and tag."""
        plain = names.Subscription(None, b"foo", b"", 0, None, b"1")
        member = names.Subscription(None, b"foo", b"q", 0, None, b"1")
        assert repr(plain) == "<Subscription b'foo' tag=b'1'>"
        assert repr(member) == "<Subscription b'foo' queue=b'q' tag=b'1'>"


@onEach
class TestShadow:
    """A subscription as another account sees it."""

    def test_attributes(self, names: Names) -> None:
        """
        A shadow is in the group of the original and of its kind, and has no outbox of its own.
        """
        original = names.Subscription(None, b"foo", b"q", 1, object(), b"1", object())
        owner, relay = object(), object()
        shadow = names.Shadow(owner, b"bar", relay, original)
        assert isinstance(shadow, names.Subscription)
        assert (shadow.pattern, shadow.queue, shadow.kind) == (b"bar", b"q", 1)
        assert (shadow.owner, shadow.subscriber, shadow.original) == (owner, relay, original)
        assert (shadow.outbox, shadow.tag, shadow.rename) == (None, None, None)

    def test_rename(self, names: Names) -> None:
        """A shadow renames subjects to those in the account of the original."""
        original = names.Subscription(None, b"foo", b"", 0, None, b"1")
        shadow = names.Shadow(None, b"bar", None, original, lambda subject: b"x." + subject)
        assert shadow.rename(b"a") == b"x.a"
        assert (shadow.delivered, shadow.maximum, shadow.closed) == (0, 0, False)


@onEach
class TestSidTable:
    """The subscriptions of a connection."""

    def make(self, names: Names, *tags: bytes) -> tuple[Any, list[Any]]:
        """A table with subscriptions."""
        table = names.SidTable()
        made = [names.Subscription(None, b"foo", b"", 0, None, tag) for tag in tags]
        for subscription in made:
            table.add(subscription)
        return table, made

    def test_empty(self, names: Names) -> None:
        """A new table is empty."""
        table, _ = self.make(names)
        assert (len(table), list(table), table.get(b"1"), table.pop(b"1")) == (0, [], None, None)
        assert b"1" not in table

    def test_byTag(self, names: Names) -> None:
        """A subscription is found by its tag, until it is removed."""
        table, made = self.make(names, b"1", b"two", b"\xff")
        assert len(table) == 3
        assert set(table) == set(made)
        for subscription in made:
            assert subscription.tag in table
            assert table.get(bytes(bytearray(subscription.tag))) is subscription
        assert table.pop(b"two") is made[1]
        assert table.pop(b"two") is None
        assert (b"two" in table, table.get(b"two"), len(table)) == (False, None, 2)

    def test_tagInUse(self, names: Names) -> None:
        """A tag in use is refused, and stays with its subscription."""
        table, [first] = self.make(names, b"1")
        with pytest.raises(KeyError):
            table.add(names.Subscription(None, b"bar", b"", 0, None, b"1"))
        assert table.get(b"1") is first
        assert len(table) == 1

    def test_changesWhileWalked(self, names: Names) -> None:
        """Subscriptions may be removed while the table is iterated."""
        table, made = self.make(names, *[b"%d" % number for number in range(50)])
        seen = []
        for entry in table:
            seen.append(entry)
            table.pop(entry.tag)
        assert set(seen) == set(made)
        assert len(table) == 0

    def test_manySubscriptions(self, names: Names) -> None:
        """Thousands of subscriptions that are added and removed are all found."""
        table = names.SidTable()
        alive: dict[bytes, Any] = {}
        for number in range(6000):
            tag = b"%d" % (number * 7919 % 5003)
            if tag in alive:
                assert table.pop(tag) is alive.pop(tag)
            else:
                alive[tag] = names.Subscription(None, b"foo", b"", 0, None, tag)
                table.add(alive[tag])
        assert len(table) == len(alive)
        assert set(table) == set(alive.values())
        assert all(table.get(tag) is subscription for tag, subscription in alive.items())
