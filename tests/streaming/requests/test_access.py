"""
The sender of a message, and its permissions.
"""

from __future__ import annotations

import pytest

from natsbroker.accounts.requests import ProgramOrigin
from natsbroker.streaming.requests.access import Requester, belongsTo, requesterOf
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.wire.grants import Grant
from tests.streaming.support import Connection

PUB = b"_STAN.pub.c"


def publishing(*allow: bytes, deny: tuple[bytes, ...] = ()) -> Requester:
    """A requester that may publish to some subjects."""
    return Requester(Grant(user="u", publish=PermissionSet(allow or None, deny)))


class TestRequesterOf:
    """L{requesterOf}."""

    def test_program(self) -> None:
        """A program in this process may do everything but act for users."""
        program = requesterOf(ProgramOrigin("A"))
        assert program.may(PUB, b"foo") and program.mayHear(b"anything") and program.actsFor("")
        assert not program.actsFor("A/u")

    @pytest.mark.parametrize("origin", [None, object(), Connection(None)])
    def test_unknownOrigin(self, origin: object) -> None:
        """An origin without a user, or with a revoked user, may do nothing."""
        nobody = requesterOf(origin)
        assert not nobody.may(PUB, b"foo")
        assert not nobody.mayHear(b"_INBOX.x")
        assert not nobody.actsFor("")

    def test_userOfConnection(self) -> None:
        """A connection's requester is its user, in its account."""
        assert requesterOf(Connection(Grant("A", "u"))).name == "A/u"
        assert requesterOf(Connection(Grant("A"))).name == ""


class TestChannels:
    """The permissions of a grant for channels."""

    def test_allSubjects(self) -> None:
        """A user who may publish everywhere may use every channel."""
        assert Requester(Grant()).may(PUB, b"foo")

    def test_allow(self) -> None:
        """
        A channel is allowed if the user may publish to the request's subject followed by the
        channel.
        """
        some = publishing(b"_STAN.pub.c.orders.*", b"_STAN.sub.c")
        assert some.may(PUB, b"orders.eu")
        assert not some.may(PUB, b"orders")
        assert not some.may(PUB, b"orders.eu.west")
        assert not some.may(b"_STAN.sub.c", b"orders.eu")

    def test_deny(self) -> None:
        """A denied channel is denied, whatever else is allowed."""
        some = publishing(deny=(b"_STAN.pub.*.secret.>",))
        assert some.may(PUB, b"open")
        assert not some.may(PUB, b"secret.x")

    def test_answersOnly(self) -> None:
        """A user who may only answer requests may use no channel."""
        assert not Requester(Grant(responses=ResponsePermission())).may(PUB, b"foo")


class TestInboxes:
    """The subjects to which messages may be sent for a requester."""

    def test_allowed(self) -> None:
        """The service sends only to subjects that the requester may subscribe to."""
        some = Requester(Grant(subscribe=SubscribePermissions([b"_INBOX.me.>"])))
        assert some.mayHear(b"_INBOX.me.1")
        assert not some.mayHear(b"_INBOX.you.1")
        assert Requester(Grant()).mayHear(b"_INBOX.you.1")

    @pytest.mark.parametrize("inbox", [b"", b"foo..bar", b"foo.*", b">", b"a b", b"a\r\nPUB"])
    def test_noSubject(self, inbox: bytes) -> None:
        """A text that is no valid subject to publish to is not allowed as an inbox."""
        assert not Requester(Grant()).mayHear(inbox)
        assert not requesterOf(None).mayHear(inbox)


def test_belongsTo() -> None:
    """A subscription of a user belongs to that user alone; one without a user belongs to all."""
    assert belongsTo("A/u", "A/u")
    assert not belongsTo("A/u", "A/v")
    assert not belongsTo("A/u", "")
    assert belongsTo("", "A/v")
