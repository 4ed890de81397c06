"""
Tests for L{natsbroker.wire.reserved}.
"""

from __future__ import annotations

import pytest

from natsbroker.wire.reserved import isReserved, isReservedReply


@pytest.mark.parametrize("subject", [b"_GR_.a.b.c", b"$GR.x"])
def test_reservedSubjects(subject: bytes) -> None:
    """Clients may not publish to replies mapped between clusters, in either spelling."""
    assert isReserved(subject)


@pytest.mark.parametrize(
    "subject",
    [b"", b"_", b"$", b"_GR_", b"_GR_.", b"$GR.", b"a._GR_.b", b"$SYS.x", b"_R_.x"],
)
def test_otherSubjects(subject: bytes) -> None:
    """A subject that only resembles a reserved one may be published to."""
    assert not isReserved(subject)


@pytest.mark.parametrize("reply", [b"_R_.abc", b"_R_.", b"$JS.ACK.a.b", b"_GR_.x.y.z", b"$GR.x"])
def test_reservedReplies(reply: bytes) -> None:
    """
    Replies of imports, of acknowledgements and between clusters are refused as reply subjects.
    """
    assert isReservedReply(reply)


@pytest.mark.parametrize(
    "reply", [b"", b"_INBOX.x", b"$JS.ACKS.a", b"$JS.ACK.", b"_GR_.", b"$GR.", b"$SYS.x", b"rep"]
)
def test_otherReplies(reply: bytes) -> None:
    """
    An inbox, or a subject that only resembles a reserved reply, is allowed as a reply subject.
    """
    assert not isReservedReply(reply)
