"""
Messages of the protocol in bulk, compared with the library.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.interfaces.records import Record
from natsbroker.streaming.messages import (
    Published,
    StoredMessage,
    Tail,
    acknowledgedIn,
    pubAcks,
    publishedIn,
    replyBlock,
    storedMessages,
)
from natsbroker.streaming.protocol import Ack, Malformed, MsgProto, PubAck, PubMsg
from tests.support import COMPILED, PURE, Names, needsCompiled, onEach, using

#: Texts of which some are alike, so that runs come to be.
TEXTS = st.sampled_from(["", "a", "foo", "foo.bar", "x" * 200, "\xe9", "\0"]) | st.text(max_size=5)
DATA = st.sampled_from([b"", b"x", b"y" * 127, b"z" * 128, b"z" * 20000]) | st.binary(max_size=9)
PUBMSGS = st.builds(
    PubMsg,
    clientID=st.sampled_from(["me", "you", ""]),
    guid=TEXTS,
    subject=st.sampled_from(["foo", "bar", "\xe9"]),
    reply=st.sampled_from(["", "", "", "r"]),
    data=DATA,
    connID=st.sampled_from([b"", b"c"]),
    sha256=st.sampled_from([b"", b"", b"", b"s"]),
).map(lambda message: message.SerializeToString())
ACKS = st.builds(
    Ack, subject=st.sampled_from(["foo", "bar"]), sequence=st.integers(0, (1 << 64) - 1)
).map(lambda message: message.SerializeToString())
#: Bytes that look like messages more often than any bytes do.
ODD = st.lists(
    st.sampled_from(
        [
            *(b"\x0a\x02me", b"\x12\x01g", b"\x1a\x03foo", b"\x22\x00", b"\x2a\x01d", b"\x32\x01c"),
            *(b"\x0a\x82\x00me", b"\x10\x05", b"\x10\x85\x00", b"\x08\x01", b"\x12\x01\xe9"),
            *(b"\x2a\xff\xff\xff\xff\x0f", b"\x52\x01s", b"\x82\x01\x00", b"\x0a\x03foo", b"\x2b"),
        ]
    )
    | st.binary(max_size=3),
    max_size=7,
).map(b"".join)


def read(messageClass: Any, payload: bytes) -> Any:
    """The library's reading of some bytes; C{None} if they are no message."""
    try:
        return messageClass.FromString(payload)
    except Malformed:
        return None


class TestPublishedIn:
    """L{publishedIn}."""

    @needsCompiled
    @given(st.lists(PUBMSGS | ODD, max_size=8), st.integers(0, 8))
    def test_asTheLibrary(self, payloads: list[bytes], start: int) -> None:
        """An accepted field is one that the library accepts, with the same value."""
        assert COMPILED is not None
        with using(COMPILED):
            published = publishedIn(payloads, start)
        if published is None:
            return
        assert len(published.guids) == len(published.data) > 0
        for payload, guid, data in zip(
            payloads[start:], published.guids, published.data, strict=False
        ):
            message = read(PubMsg, payload)
            assert message.clientID == published.clientID
            assert message.subject == published.channel
            assert message.connID == published.connID
            assert message.guid.encode() == guid != b""
            assert message.data == data
            assert message.reply == "" and message.sha256 == b""
        assert published.size == sum(map(len, published.data))

    @needsCompiled
    def test_run(self) -> None:
        """Usual publishes of one client are parsed together, up to the first different message."""
        assert COMPILED is not None
        payloads = [
            PubMsg(clientID="me", guid=f"g{number}", subject=name, data=b"x", connID=b"c")
            for number, name in enumerate(["foo", "foo", "foo", "bar"])
        ]
        encoded = [payload.SerializeToString() for payload in payloads]
        with using(COMPILED):
            assert publishedIn(encoded, 1) == Published(
                "me", "foo", b"c", [b"g1", b"g2"], [b"x", b"x"], 2
            )
            assert publishedIn(encoded, 4) is None

    def test_pure(self) -> None:
        """Without the compiled step, no publishes are parsed together."""
        with using(PURE):
            assert publishedIn([PubMsg(guid="g").SerializeToString()], 0) is None


class TestAcknowledgedIn:
    """L{acknowledgedIn}."""

    @needsCompiled
    @given(st.lists(ACKS | ODD, max_size=8), st.integers(0, 8))
    def test_asTheLibrary(self, payloads: list[bytes], start: int) -> None:
        """An accepted acknowledgement is one that the library accepts."""
        assert COMPILED is not None
        with using(COMPILED):
            acknowledged = acknowledgedIn(payloads, start, b"foo")
        for payload, sequence in zip(payloads[start:], acknowledged, strict=False):
            assert read(Ack, payload) == Ack(subject="foo", sequence=sequence)

    @needsCompiled
    def test_run(self) -> None:
        """Acknowledgements of one channel are parsed together, up to one of another channel."""
        assert COMPILED is not None
        sequences = [1, 127, 128, 1 << 40, (1 << 62) - 1]
        payloads = [
            Ack(subject="foo", sequence=sequence).SerializeToString() for sequence in sequences
        ]
        payloads.append(Ack(subject="fob", sequence=1).SerializeToString())
        with using(COMPILED):
            assert acknowledgedIn(payloads, 0, b"foo") == sequences
            assert acknowledgedIn(payloads, 5, b"foo") == []

    def test_pure(self) -> None:
        """Without the compiled step, no acknowledgements are parsed together."""
        with using(PURE):
            assert acknowledgedIn([Ack(subject="foo").SerializeToString()], 0, b"foo") == []


@onEach
@given(guids=st.lists(TEXTS, max_size=5))
def test_pubAcks(names: Names, guids: list[str]) -> None:
    """An encoded PubAck has the library's bytes."""
    with using(names):
        acks = pubAcks([guid.encode() for guid in guids])
    assert acks == [PubAck(guid=guid).SerializeToString() for guid in guids]


class TestStoredMessages:
    """L{storedMessages}, L{StoredMessage}."""

    @onEach
    @given(
        records=st.lists(
            st.builds(
                Record,
                st.integers(0, (1 << 64) - 1),
                st.integers(-(1 << 63), (1 << 63) - 1),
                st.just(b"foo"),
                st.sampled_from([b"", b"", replyBlock("r.\xe9"), b"garbage"]),
                DATA,
            ),
            max_size=5,
        ),
        channel=TEXTS,
    )
    def test_encoded(self, names: Names, records: list[Record], channel: str) -> None:
        """A message has the library's bytes, with the reply subject of the record's headers."""
        with using(names):
            messages = storedMessages(channel.encode(), records)
        for message, record in zip(messages, records, strict=True):
            expected = MsgProto(
                sequence=record.sequence,
                subject=channel,
                reply="r.\xe9" if b"r." in record.headers else "",
                data=record.payload,
                timestamp=record.timestamp,
            )
            assert message.encoded == expected.SerializeToString()
            assert message[:3] == (record.sequence, record.timestamp, len(record.payload))
            assert type(message) is StoredMessage

    @given(st.integers(0, 1 << 40))
    def test_encodedAgain(self, count: int) -> None:
        """A redelivered message is marked, with its redelivery count, in the library's bytes."""
        expected = MsgProto(sequence=3, subject="foo", reply="r", data=b"d", timestamp=7)
        message = StoredMessage(3, 7, 1, expected.SerializeToString())
        expected.redelivered = True
        expected.redeliveryCount = count & 0xFFFFFFFF or 1
        assert message.encodedAgain(count) == expected.SerializeToString()

    @pytest.mark.parametrize(
        "headers", [b"", b"garbage", b"NATS/1.0\r\nOther: x\r\n\r\n", b"NATS/1.0\r\nbad\r\n\r\n"]
    )
    def test_foreignHeaders(self, headers: bytes) -> None:
        """A record of another program is a message without a reply subject."""
        [message] = storedMessages(b"foo", [Record(1, 1, b"foo", headers, b"data")])
        assert MsgProto.FromString(message.encoded).reply == ""

    def test_foreignBytes(self) -> None:
        """A reply subject that is not UTF-8 does no harm."""
        headers = b"NATS/1.0\r\nStan-Reply: a\xff\r\n\r\n"
        [message] = storedMessages(b"foo", [Record(1, 1, b"foo", headers, b"")])
        assert MsgProto.FromString(message.encoded).reply == "a\ufffd"

    @needsCompiled
    def test_notARecord(self) -> None:
        """The compiled step refuses objects that are no records."""
        assert COMPILED is not None
        with pytest.raises(TypeError, match="tuple"):
            COMPILED.writeMessages(dict, [(1, 2, b"", b"", b"")], 0, b"foo")
        for wrong in ((1, 2), None):
            with pytest.raises(ValueError, match="five"):
                COMPILED.writeMessages(StoredMessage, [wrong], 0, b"foo")


class TestReplyBlock:
    """L{replyBlock}."""

    def test_noReplySubject(self) -> None:
        """A message without reply subject has no headers."""
        assert replyBlock("") == b""

    @pytest.mark.parametrize("reply", ["a\r\nb", " a", "a\t"])
    def test_invalidReply(self, reply: str) -> None:
        """A reply subject that could not be read back unchanged is refused."""
        with pytest.raises(ValueError, match=r"blanks|value"):
            replyBlock(reply)


def stored(sequence: int, size: int = 1) -> StoredMessage:
    """A message."""
    return StoredMessage(sequence, 5, size, b"encoded")


class TestTail:
    """L{Tail}."""

    def test_storedMessage(self) -> None:
        """A stored message is returned; a missing one is not."""
        tail = Tail()
        one = stored(1)
        tail.add([one])
        assert tail.get(1) is one
        assert tail.get(2) is None

    def test_followingMessages(self) -> None:
        """Messages are returned in order, up to the first missing one."""
        tail = Tail()
        tail.add(map(stored, (1, 2, 4)))
        assert [message.sequence for message in tail.following(1, 9)] == [1, 2]
        assert [message.sequence for message in tail.following(1, 1)] == [1]
        assert tail.following(3, 9) == []

    def test_trimMessages(self) -> None:
        """The oldest messages of the tail are removed when there are too many."""
        tail = Tail(mostMessages=2)
        for sequence in range(1, 5):
            tail.add([stored(sequence)])
        assert len(tail) == 4
        tail.trim()
        assert [tail.get(number) is not None for number in range(1, 5)] == [
            False,
            False,
            True,
            True,
        ]

    def test_trimBytes(self) -> None:
        """The oldest messages of the tail are removed when they have too many bytes."""
        tail = Tail(mostBytes=10)
        for sequence in (1, 2, 3):
            tail.add([stored(sequence, 5)])
        tail.trim()
        assert (len(tail), tail.get(1)) == (2, None)
        tail.add([stored(4, 11)])
        tail.trim()
        assert len(tail) == 0
