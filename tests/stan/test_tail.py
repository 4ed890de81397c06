"""
The last messages of a channel.
"""

from __future__ import annotations

import pytest

from natsbroker._istore import Record
from natsbroker.stan.protocol import MsgProto
from natsbroker.stan.tail import StoredMessage, Tail, replyBlock


def stored(sequence: int, data: bytes = b"x") -> StoredMessage:
    """A message."""
    return StoredMessage("foo", sequence, 5, "", data)


class TestStoredMessage:
    """L{StoredMessage}."""

    def test_encoded(self) -> None:
        """It is encoded once, as a new message."""
        message = StoredMessage("foo", 3, 7, "r", b"data")
        encoded = message.encoded()
        assert MsgProto.FromString(encoded) == MsgProto(
            sequence=3, subject="foo", reply="r", data=b"data", timestamp=7
        )
        assert message.encoded() is encoded

    def test_encodedAgain(self) -> None:
        """A message that is sent again says so, and how often it was."""
        again = MsgProto.FromString(stored(3).encodedAgain(2))
        assert (again.redelivered, again.redeliveryCount) == (True, 2)
        assert MsgProto.FromString(stored(3).encodedAgain(1 << 32)).redeliveryCount == 1

    def test_fromRecord(self) -> None:
        """A record gives the same message, with its reply subject."""
        record = Record(3, 7, b"foo", replyBlock("r.\xe9"), b"data")
        message = MsgProto.FromString(StoredMessage.fromRecord("foo", record).encoded())
        assert (message.sequence, message.timestamp, message.reply) == (3, 7, "r.\xe9")
        assert message.data == b"data"

    @pytest.mark.parametrize(
        "headers", [b"", b"garbage", b"NATS/1.0\r\nOther: x\r\n\r\n", b"NATS/1.0\r\nbad\r\n\r\n"]
    )
    def test_foreignHeaders(self, headers: bytes) -> None:
        """A record that somebody else wrote is a message without a reply subject."""
        message = StoredMessage.fromRecord("foo", Record(1, 1, b"foo", headers, b"data"))
        assert MsgProto.FromString(message.encoded()).reply == ""

    def test_foreignBytes(self) -> None:
        """A reply subject that is not UTF-8 does no harm."""
        headers = b"NATS/1.0\r\nStan-Reply: a\xff\r\n\r\n"
        message = StoredMessage.fromRecord("foo", Record(1, 1, b"foo", headers, b""))
        assert MsgProto.FromString(message.encoded()).reply == "a\ufffd"


class TestReplyBlock:
    """L{replyBlock}."""

    def test_none(self) -> None:
        """A message without reply subject has no headers."""
        assert replyBlock("") == b""

    @pytest.mark.parametrize("reply", ["a\r\nb", " a", "a\t"])
    def test_wrong(self, reply: str) -> None:
        """What would not come back as it was is refused."""
        with pytest.raises(ValueError, match=r"blanks|value"):
            replyBlock(reply)


class TestTail:
    """L{Tail}."""

    def test_get(self) -> None:
        """What was added is there, and nothing else."""
        tail = Tail()
        one = stored(1)
        tail.add(one)
        assert tail.get(1) is one
        assert tail.get(2) is None

    def test_trimMessages(self) -> None:
        """The oldest go when there are too many."""
        tail = Tail(mostMessages=2)
        for sequence in range(1, 5):
            tail.add(stored(sequence))
        assert len(tail) == 4
        tail.trim()
        assert [tail.get(each) is not None for each in range(1, 5)] == [False, False, True, True]

    def test_trimBytes(self) -> None:
        """They go as well when they are too large."""
        tail = Tail(mostBytes=10)
        for sequence in (1, 2, 3):
            tail.add(stored(sequence, b"x" * 5))
        tail.trim()
        assert (len(tail), tail.get(1)) == (2, None)
        tail.add(stored(4, b"x" * 11))
        tail.trim()
        assert len(tail) == 0
