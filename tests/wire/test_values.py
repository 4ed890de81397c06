"""
Messages and kinds.
"""

from __future__ import annotations

import pytest

from natsbroker.subjects.subscription import FIRST_LINK_KIND
from natsbroker.wire.values import GroupMessage, Kind, Message


class TestMessage:
    """One published message."""

    def test_defaults(self) -> None:
        """A message needs only a subject."""
        message = Message(b"foo")
        assert (message.subject, message.body, message.reply) == (b"foo", b"", b"")
        assert (message.headerLength, message.headers, message.payload) == (0, b"", b"")
        assert (message.origin, message.queues) == (None, None)
        assert (message.sizeText, message.headerText) == (b"0", b"")

    def test_forGroups(self) -> None:
        """A message for queue groups only equals the original in all other fields."""
        message = GroupMessage(b"a", b"HHHpayload", b"r", 3, queues=(b"q",))
        assert isinstance(message, Message) and not hasattr(message, "__dict__")
        assert (message.payload, message.queues) == (b"payload", (b"q",))

    def test_sizes(self) -> None:
        """The sizes are written as decimals unless the publisher's spelling is given."""
        assert Message(b"a", b"12345").sizeText == b"5"
        assert Message(b"a", b"12345", headerLength=3).headerText == b"3"
        message = Message(b"a", b"12345", headerLength=3, sizeText=b"0005", headerText=b"03")
        assert (message.sizeText, message.headerText) == (b"0005", b"03")

    def test_parts(self) -> None:
        """The body is the header block and the payload."""
        message = Message(b"a", b"HHHpayload", headerLength=3)
        assert (message.headers, message.payload) == (b"HHH", b"payload")
        plain = Message(b"a", b"payload")
        assert (plain.headers, plain.payload) == (b"", b"payload")

    def test_payloadIsNotCopied(self) -> None:
        """Without headers the payload is the body itself."""
        body = b"x" * 100
        assert Message(b"a", body).payload is body

    def test_repr(self) -> None:
        """The representation has subject, reply subject and length, not the payload."""
        assert repr(Message(b"a", b"secret", b"r")) == "<Message b'a' reply=b'r' 6 bytes>"

    def test_noOtherAttributes(self) -> None:
        """A message has no attributes beyond its fields."""
        with pytest.raises(AttributeError):
            Message(b"a").colour = "red"  # type: ignore[attr-defined]


def test_linkKindsComeLast() -> None:
    """The kinds of links have higher numbers than those of this broker's own subscribers."""
    assert [kind for kind in Kind if kind < FIRST_LINK_KIND] == [
        Kind.CLIENT,
        Kind.INTERNAL,
        Kind.LOCAL,
    ]
    assert sorted(Kind) == list(range(len(Kind)))
