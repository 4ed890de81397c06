"""
The subscriptions of one connection, by their sids.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from natsbroker import errors, hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.clients.subscriptions import SubscriptionTable
from natsbroker.errors import ProtocolViolation
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message
from tests.support import Names, Recorder, Router, onEach, using


class Desk:
    """A table of subscriptions in an account."""

    def __init__(
        self, permissions: SubscribePermissions | None = None, maximum: int = 0, maxTokens: int = 0
    ) -> None:
        self.account = Account(
            "A", Router(), AccountDependencies(hot.FlushBatch(lambda call: None), Random(1))
        )
        self.bus = self.account.busFor(Kind.CLIENT)
        self.client = Recorder()
        self.table = SubscriptionTable(
            self.bus, self.client, Grant(subscribe=permissions), maximum, maxTokens
        )

    def refusal(self, subject: bytes, queue: bytes = b"", sid: bytes = b"1") -> str:
        """Try to subscribe, and return the error."""
        try:
            self.table.subscribe(subject, queue, sid)
        except ProtocolViolation as violation:
            assert not violation.error.closes
            return violation.error.text % violation.arguments
        return ""

    def publish(self, subject: bytes) -> list[Any]:
        """Publish, and return the sids that received the message."""
        self.client.got.clear()
        self.bus.publish(Message(subject))
        return sorted(self.client.tags)


@pytest.fixture
def implementation(names: Names) -> Iterator[Names]:
    """Use the implementation under test."""
    with using(names):
        yield names


@onEach
@pytest.mark.usefixtures("implementation")
class TestTable:
    """The table of one connection."""

    def test_subscribe(self) -> None:
        """A subscription delivers under its sid. The table counts and lists it."""
        desk = Desk()
        assert desk.refusal(b"foo.*", sid=b"1") == desk.refusal(b"bar", b"q", b"two") == ""
        assert desk.publish(b"foo.x") == [b"1"]
        assert desk.publish(b"bar") == [b"two"]
        assert len(desk.table) == 2
        listed = {
            sid: (subscription.pattern, subscription.queue) for sid, subscription in desk.table
        }
        assert listed == {b"1": (b"foo.*", b""), b"two": (b"bar", b"q")}

    def test_sidInUse(self) -> None:
        """A second subscription with a sid in use is ignored, and the first one stays."""
        desk = Desk()
        desk.table.subscribe(b"foo", b"", b"1")
        assert desk.refusal(b"bar", sid=b"1") == ""
        assert (desk.publish(b"foo"), desk.publish(b"bar")) == ([b"1"], [])

    @pytest.mark.parametrize("subject", [b"foo.", b".foo", b"foo..bar", b"foo.>.bar", b">.foo"])
    def test_invalid(self, subject: bytes) -> None:
        """A subscription to an invalid subject is refused, and its sid stays free."""
        desk = Desk()
        assert desk.refusal(subject) == "Invalid Subject"
        assert len(desk.table) == 0
        assert desk.refusal(b"foo") == ""

    def test_invalidButInUse(self) -> None:
        """A second subscription with a sid in use is ignored, also if its subject is invalid."""
        desk = Desk()
        desk.table.subscribe(b"foo", b"", b"1")
        assert desk.refusal(b"foo.", sid=b"1") == ""

    def test_maximum(self) -> None:
        """
        A subscription beyond the maximum is refused, also with a sid in use. There is room again
        when one ends.
        """
        desk = Desk(maximum=2)
        desk.table.subscribe(b"a", b"", b"1")
        desk.table.subscribe(b"b", b"", b"2")
        assert desk.refusal(b"c", sid=b"3") == "maximum subscriptions exceeded"
        assert desk.refusal(b"a", sid=b"1") == "maximum subscriptions exceeded"
        desk.table.unsubscribe(b"1", 0)
        assert desk.refusal(b"c", sid=b"3") == ""

    def test_tokens(self) -> None:
        """A subject of too many tokens is refused by name."""
        desk = Desk(maxTokens=3)
        assert desk.refusal(b"a.b.c") == ""
        expected = 'Permissions Violation for Subscription to "a.b.c.d", too many tokens'
        assert desk.refusal(b"a.b.c.d", sid=b"2") == expected

    def test_systemQueue(self) -> None:
        """A subscription in the queue group that is reserved for the server is refused."""
        expected = 'Permissions Violation for Subscription to "foo" using queue "_sys_"'
        assert Desk().refusal(b"foo", b"_sys_") == expected

    def test_tooManyShapes(self) -> None:
        """
        A subscription that the router refuses is an error for the client, and the connection stays.
        """
        desk = Desk()
        texts = set()
        for bits in range(1 << 11):
            tokens = [b"*" if bits >> place & 1 else b"x" for place in range(11)]
            texts.add(desk.refusal(b".".join(tokens), sid=b"%d" % bits))
        assert texts == {"", "maximum subscription shapes exceeded"}
        assert len(desk.table) == len(desk.account)

    def test_denied(self) -> None:
        """
        A subscription that the permissions deny is refused by name, with its queue group if it has
        one.
        """
        desk = Desk(SubscribePermissions([b"ok.>", b"work v1"], [b"ok.secret"]))
        assert desk.refusal(b"ok.a") == ""
        assert desk.refusal(b"no", sid=b"2") == 'Permissions Violation for Subscription to "no"'
        expected = 'Permissions Violation for Subscription to "work" using queue "v2"'
        assert desk.refusal(b"work", b"v2", b"2") == expected
        assert desk.refusal(b"work", b"v1", b"2") == ""

    def test_filtered(self) -> None:
        """
        A subscription has the permissions of the grant only if it matches denied subjects too.
        """
        desk = Desk(SubscribePermissions(None, [b"foo.secret"]))
        desk.table.subscribe(b"foo.*", b"", b"1")
        desk.table.subscribe(b"bar", b"", b"2")
        [wide, narrow] = [
            subscription for _, subscription in sorted(desk.table, key=lambda pair: pair[0])
        ]
        assert wide.permissions is desk.table.grant.subscribe
        assert narrow.permissions is None

    def test_order(self) -> None:
        """
        A subscription is checked for permissions first, then for tokens, the maximum, the sid and
        the subject.
        """
        desk = Desk(SubscribePermissions([b"ok.>", b"ok"]), maximum=1, maxTokens=2)
        assert 'to "no.b.c"\'' not in desk.refusal(b"ok.b.c")
        assert "too many tokens" in desk.refusal(b"ok.b.c")
        assert "too many tokens" not in desk.refusal(b"no.b.c")
        assert desk.refusal(b"ok") == ""
        assert desk.refusal(b"ok.", sid=b"2").startswith(("Permissions", "maximum"))


@onEach
@pytest.mark.usefixtures("implementation")
class TestEnding:
    """The end of subscriptions in the table."""

    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_atOnce(self, count: int) -> None:
        """UNSUB without a count, or with a count that is reached, frees the sid at once."""
        desk = Desk()
        desk.table.subscribe(b"foo", b"", b"1")
        desk.publish(b"foo")
        desk.publish(b"foo")
        desk.table.unsubscribe(b"1", count)
        assert (len(desk.table), desk.publish(b"foo")) == (0, [])
        assert desk.refusal(b"bar") == ""

    def test_later(self) -> None:
        """UNSUB with a higher count keeps the sid until the count is reached."""
        desk = Desk()
        desk.table.subscribe(b"foo", b"", b"1")
        desk.table.unsubscribe(b"1", 2)
        assert desk.publish(b"foo") == [b"1"]
        assert len(desk.table) == 1
        desk.publish(b"foo")
        assert desk.client.ended == [b"1"]
        desk.table.ended(b"1")
        assert len(desk.table) == 0

    def test_unknown(self) -> None:
        """UNSUB of an unknown sid does nothing."""
        desk = Desk()
        desk.table.unsubscribe(b"1", 0)
        desk.table.ended(b"1")
        assert len(desk.table) == 0

    def test_clear(self) -> None:
        """Clearing the table ends all subscriptions."""
        desk = Desk()
        for number in range(5):
            desk.table.subscribe(b"foo", b"", b"%d" % number)
        desk.table.clear()
        assert (len(desk.table), len(desk.account), desk.publish(b"foo")) == (0, 0, [])
        assert desk.refusal(b"foo", sid=b"1") == ""


@onEach
@pytest.mark.usefixtures("implementation")
class TestPermit:
    """Changed permissions for existing subscriptions."""

    def test_endsWhatIsDenied(self) -> None:
        """A subscription that is denied now ends and is reported, and the others stay."""
        desk = Desk()
        for sid, subject in [(b"1", b"a"), (b"2", b"b"), (b"3", b"a")]:
            desk.table.subscribe(subject, b"", sid)
        permissions = SubscribePermissions([b"b"])
        ended = [
            subscription
            for subscription in desk.table.permit(Grant(subscribe=permissions))
            if subscription
        ]
        assert sorted(ended) == [(b"a", b"", b"1"), (b"a", b"", b"3")]
        assert (desk.publish(b"a"), desk.publish(b"b")) == ([], [b"2"])
        assert desk.refusal(b"c", sid=b"1") != ""

    def test_filters(self) -> None:
        """
        A subscription is filtered while it matches denied subjects, and no longer when all are
        allowed.
        """
        desk = Desk()
        desk.table.subscribe(b"foo.*", b"", b"1")
        permissions = SubscribePermissions(None, [b"foo.secret"])
        assert [*filter(None, desk.table.permit(Grant(subscribe=permissions)))] == []
        [(_, subscription)] = desk.table
        assert subscription.permissions is permissions
        assert [*filter(None, desk.table.permit(Grant()))] == []
        assert subscription.permissions is None


@onEach
@pytest.mark.usefixtures("implementation")
class TestSidFor:
    """The sid under which a client receives the status for no responders."""

    def test_ownPlainSubscription(self) -> None:
        """
        The sid is that of a plain subscription of the client, possibly with wildcards.
        Subscriptions of other clients and of queue groups do not count.
        """
        desk = Desk()
        other = SubscriptionTable(desk.bus, Recorder(), Grant(), 0, 0)
        other.subscribe(b"_INBOX.>", b"", b"9")
        desk.table.subscribe(b"_INBOX.x", b"q", b"1")
        assert desk.table.sidFor(b"_INBOX.x") is None
        desk.table.subscribe(b"_INBOX.*", b"", b"2")
        assert desk.table.sidFor(b"_INBOX.x") == b"2"
        assert desk.table.sidFor(b"_INBOX.x.y") is None


def test_refusalsStayOpen() -> None:
    """No refusal of a subscription closes the connection."""
    for error in (errors.MAX_SUBSCRIPTIONS, errors.MAX_SHAPES, errors.TOO_MANY_TOKENS):
        assert not error.closes
