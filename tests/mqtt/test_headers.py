"""Properties of MQTT 5 as headers of NATS, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.mqtt.headers import STATUS, headersOf, propertiesOf, replyOf
from natsbroker.mqtt.topics import TopicError
from natsbroker.wire.headers import Headers
from natsbroker.wire.mqtt.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    MAX_PROPERTIES,
    MESSAGE_EXPIRY,
    PAYLOAD_FORMAT,
    RESPONSE_TOPIC,
    USER_PROPERTY,
    Properties,
)
from natsbroker.wire.values import Message

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)


def message(pairs: list[tuple[str, str]], reply: bytes = b"", status: int = 0) -> Message:
    block = Headers(pairs, status).block()
    return Message(b"a", block + b"x", reply, len(block))


class TestBothWays:
    """Properties that are headers, and are properties again."""

    @given(
        st.fixed_dictionaries(
            {},
            optional={
                CONTENT_TYPE: TEXT.map(str.strip).filter(bool),
                PAYLOAD_FORMAT: st.just(1),
                MESSAGE_EXPIRY: st.integers(1, 0xFFFF_FFFF),
                CORRELATION_DATA: st.binary(min_size=1, max_size=9),
                USER_PROPERTY: st.lists(
                    st.tuples(st.from_regex("[a-z]{1,5}", fullmatch=True), TEXT.map(str.strip)),
                    min_size=1,
                    max_size=3,
                ).map(tuple),
            },
        )
    )
    def test_same(self, given: Properties) -> None:
        """Properties survive the way through NATS."""
        assert propertiesOf(message(headersOf(0, given))) == given

    def test_request(self) -> None:
        """The response topic is the reply subject."""
        assert replyOf({RESPONSE_TOPIC: "a/b"}) == b"a.b"
        assert replyOf({}) == b""
        assert propertiesOf(Message(b"a", b"", b"a.b")) == {RESPONSE_TOPIC: "a/b"}
        with pytest.raises(TopicError):
            replyOf({RESPONSE_TOPIC: "a b"})

    def test_order(self) -> None:
        """User properties keep their order and their duplicates."""
        pairs = [("b", "1"), ("a", "2"), ("b", "1")]
        assert headersOf(1, {USER_PROPERTY: tuple(pairs)}) == [("Nmqtt-Pub", "1"), *pairs]
        assert propertiesOf(message(pairs)) == {USER_PROPERTY: tuple(pairs)}


@pytest.mark.parametrize(
    "pair",
    [("", "x"), ("a b", "x"), ("a:b", "x"), ("a", "x\r\ny"), ("a", "\n"), ("nmqtt-pub", "2")],
)
def test_noHeader(pair: tuple[str, str]) -> None:
    """A user property that cannot be a header is left out, so that no line is forged."""
    assert headersOf(0, {USER_PROPERTY: (pair,)}) == [("Nmqtt-Pub", "0")]


def test_contentType() -> None:
    """A content type of several lines is left out."""
    assert headersOf(0, {CONTENT_TYPE: "a\r\nb: c"}) == [("Nmqtt-Pub", "0")]


class TestForeign:
    """Headers that a client of NATS wrote."""

    @pytest.mark.parametrize(
        ("value", "seconds"), [("60", 60), ("1m", 60), ("1h", 3600), ("4294967295", 4294967295)]
    )
    def test_expiry(self, value: str, seconds: int) -> None:
        """The time to live is a message expiry in seconds."""
        assert propertiesOf(message([("Nats-TTL", value)])) == {MESSAGE_EXPIRY: seconds}

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("Nats-TTL", "never"),
            ("Nats-TTL", "0"),
            ("Nats-TTL", "4294967296"),
            ("Nats-TTL", "-1"),
            ("Nmqtt-Payload-Format", "7"),
            ("Nmqtt-Correlation-Data", "?"),
            ("Nmqtt-Correlation-Data", "ü"),
        ],
    )
    def test_otherValue(self, name: str, value: str) -> None:
        """A value that the property cannot have is shown as a user property."""
        assert propertiesOf(message([(name, value)])) == {USER_PROPERTY: ((name, value),)}

    def test_unwritable(self) -> None:
        """Headers that are not Unicode, too long, or have U+0000 are left out."""
        pairs = [("a", "\udcff"), ("b", "\0"), ("c", "x" * 65536), ("d", "1")]
        assert propertiesOf(message(pairs)) == {USER_PROPERTY: (("d", "1"),)}

    def test_status(self) -> None:
        """A status is a user property."""
        assert propertiesOf(message([], status=503)) == {USER_PROPERTY: ((STATUS, "503"),)}

    def test_damaged(self) -> None:
        """A block that cannot be read has no properties."""
        assert propertiesOf(Message(b"a", b"NATS/1.0\r\nx\r\n\r\n", b"", 15)) == {}

    def test_many(self) -> None:
        """A message has at most as many properties as a packet may have."""
        pairs = [("Content-Type", "x"), *[("a", str(number)) for number in range(2000)]]
        properties = propertiesOf(message(pairs, b"r"))
        assert len(properties[USER_PROPERTY]) == MAX_PROPERTIES - 2

    @pytest.mark.parametrize("reply", [b"a.#", b"\xff"])
    def test_reply(self, reply: bytes) -> None:
        """A reply subject that is not a topic is not shown."""
        assert propertiesOf(Message(b"a", b"", reply)) == {}
