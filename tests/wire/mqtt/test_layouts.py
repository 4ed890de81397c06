"""The fields of MQTT packets, and what is wrong with them."""

from __future__ import annotations

import pytest

from natsbroker.wire.mqtt.fields import text
from natsbroker.wire.mqtt.layouts import LAYOUTS
from natsbroker.wire.mqtt.reasons import PacketError, ReasonCode
from tests.wire.mqtt.support import connect, decoder, packet, readAll

BAD = ReasonCode.MALFORMED_PACKET
WRONG = ReasonCode.PROTOCOL_ERROR


def reasonFor(data: bytes, level: int) -> ReasonCode:
    """The reason for which the input is refused, with the lists at the end of packets."""
    with pytest.raises(PacketError) as raised:
        for read in readAll(decoder(level), data):
            list(getattr(read, "requests", ()))
            list(getattr(read, "filters", ()))
    return raised.value.reason


_ID = b"\0\1"
_NO_LEVEL = 0

#: Input that is refused: a name, the level, the bytes, the reason.
REFUSED = [
    ("type 0", 5, b"\0\0", BAD),
    ("the type of AUTH in 3.1.1", 4, b"\xf0\0", BAD),
    ("bits of CONNECT", _NO_LEVEL, b"\x11\0", BAD),
    ("bits of PUBREL", 5, b"\x60\x02\0\1", BAD),
    ("bits of SUBSCRIBE", 5, b"\x80\0", BAD),
    ("bits of UNSUBSCRIBE", 5, b"\xa0\0", BAD),
    ("bits of PINGREQ", 5, b"\xc1\0", BAD),
    ("bits of DISCONNECT", 4, b"\xe2\0", BAD),
    ("a CONNACK of a client", 5, b"\x20\0", WRONG),
    ("a SUBACK of a client", 5, b"\x90\0", WRONG),
    ("a PINGRESP of a client", 5, b"\xd0\0", WRONG),
    ("PINGREQ first", _NO_LEVEL, b"\xc0\0", WRONG),
    ("PUBLISH first", _NO_LEVEL, b"\x30\0", WRONG),
    ("CONNECT twice", 5, b"\x10\0", WRONG),
    ("a length of five bytes", 5, b"\xc0\x80\x80\x80\x80\1", BAD),
    ("a length with more bytes than needed", 5, b"\xc0\x80\0", BAD),
    ("a large packet", 5, b"\x30\xff\xff\xff\x7f", ReasonCode.PACKET_TOO_LARGE),
    ("bytes behind PINGREQ", 5, b"\xc0\1\0", BAD),
    ("bytes behind CONNECT", _NO_LEVEL, connect(5, 2, text("c"), b"x"), BAD),
    ("an unknown name", _NO_LEVEL, connect(name="MQTA"), ReasonCode.UNSUPPORTED_PROTOCOL_VERSION),
    ("level 6", _NO_LEVEL, connect(6), ReasonCode.UNSUPPORTED_PROTOCOL_VERSION),
    (
        "the name of 3.1 with level 4",
        _NO_LEVEL,
        connect(4, name="MQIsdp"),
        ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
    ),
    ("the reserved flag", _NO_LEVEL, connect(5, 3), BAD),
    ("a will with QoS 3", _NO_LEVEL, connect(5, 0x1E), BAD),
    ("a retained will without a will", _NO_LEVEL, connect(5, 0x22), BAD),
    ("the QoS of no will", _NO_LEVEL, connect(4, 0x0A), BAD),
    ("a password alone in 3.1.1", _NO_LEVEL, connect(4, 0x42, text("c"), text("p")), BAD),
    ("a missing user", _NO_LEVEL, connect(5, 0x82), BAD),
    ("a missing client id", _NO_LEVEL, packet(0x10, text("MQTT"), b"\4\2\0\0"), BAD),
    (
        "a will for a filter",
        _NO_LEVEL,
        connect(4, 6, text("c"), text("a/#"), text("")),
        ReasonCode.TOPIC_NAME_INVALID,
    ),
    ("a client id that is not UTF-8", _NO_LEVEL, connect(5, 2, b"\0\1\xff"), BAD),
    ("a surrogate", _NO_LEVEL, connect(5, 2, b"\0\3\xed\xa0\x80"), BAD),
    ("a long form of UTF-8", _NO_LEVEL, connect(5, 2, b"\0\2\xc0\xaf"), BAD),
    ("U+0000", _NO_LEVEL, connect(5, 2, b"\0\1\0"), BAD),
    ("a text that is cut", _NO_LEVEL, connect(5, 2, b"\0\5abc"), BAD),
    ("QoS 3", 5, packet(0x36, text("a"), _ID, b"\0"), BAD),
    ("a duplicate with QoS 0", 4, packet(0x38, text("a")), BAD),
    ("the packet identifier 0", 4, packet(0x32, text("a"), b"\0\0"), WRONG),
    ("an empty topic", 4, packet(0x30, text("")), ReasonCode.TOPIC_NAME_INVALID),
    (
        "an empty topic without an alias",
        5,
        packet(0x30, text(""), b"\0"),
        ReasonCode.TOPIC_NAME_INVALID,
    ),
    ("a topic with #", 5, packet(0x30, text("a/#"), b"\0"), ReasonCode.TOPIC_NAME_INVALID),
    ("a topic with +", 4, packet(0x30, text("+/a")), ReasonCode.TOPIC_NAME_INVALID),
    ("a topic that is not UTF-8", 4, packet(0x30, b"\0\1\xff"), BAD),
    ("a PUBLISH without a topic", 4, b"\x30\0", BAD),
    ("a PUBLISH without an identifier", 4, packet(0x32, text("a"), b"\0"), BAD),
    ("a PUBLISH without properties", 5, packet(0x30, text("a")), BAD),
    ("PUBACK with identifier 0", 4, packet(0x40, b"\0\0"), WRONG),
    ("a short PUBACK", 4, packet(0x40, b"\0"), BAD),
    ("a long PUBACK in 3.1.1", 4, packet(0x40, _ID, b"\0"), BAD),
    ("a reason that PUBACK has not", 5, packet(0x40, _ID, b"\x8e"), WRONG),
    ("an unknown reason", 5, packet(0xE0, b"\x7f"), WRONG),
    ("a server's reason", 5, packet(0xE0, b"\x8b"), WRONG),
    ("SUBSCRIBE without filters", 5, packet(0x82, _ID, b"\0"), WRONG),
    ("SUBSCRIBE without filters in 3.1.1", 4, packet(0x82, _ID), WRONG),
    ("SUBSCRIBE with identifier 0", 4, packet(0x82, b"\0\0", text("a"), b"\0"), WRONG),
    ("SUBSCRIBE without options", 4, packet(0x82, _ID, text("a")), BAD),
    ("SUBSCRIBE with QoS 3 in 3.1.1", 4, packet(0x82, _ID, text("a"), b"\3"), BAD),
    ("options of MQTT 5 in 3.1.1", 4, packet(0x82, _ID, text("a"), b"\4"), BAD),
    ("SUBSCRIBE with QoS 3", 5, packet(0x82, _ID, b"\0", text("a"), b"\3"), WRONG),
    ("reserved options", 5, packet(0x82, _ID, b"\0", text("a"), b"\x40"), BAD),
    ("retain handling 3", 5, packet(0x82, _ID, b"\0", text("a"), b"\x30"), WRONG),
    ("no local of a group", 5, packet(0x82, _ID, b"\0", text("$share/g/a"), b"\4"), WRONG),
    ("the second filter", 5, packet(0x82, _ID, b"\0", text("a"), b"\0\0\1\xff\0"), BAD),
    ("UNSUBSCRIBE without filters", 4, packet(0xA2, _ID), WRONG),
    ("a filter with U+0000", 4, packet(0xA2, _ID, b"\0\1\0"), BAD),
    ("AUTH with a reason it has not", 5, packet(0xF0, b"\x80"), WRONG),
]


def _property(*parts: bytes, topic: bytes = b"a") -> bytes:
    """PUBLISH with these bytes as its properties."""
    given = b"".join(parts)
    return packet(0x30, len(topic).to_bytes(2, "big"), topic, bytes([len(given)]), given)


REFUSED += [
    (f"properties: {name}", 5, data, reason)
    for name, data, reason in [
        ("an unknown one", _property(b"\x7e\0"), BAD),
        ("the number 0", _property(b"\0\0"), BAD),
        ("one of other packets", _property(b"\x11\0\0\0\0"), BAD),
        ("a server's", _property(b"\x0b\1"), WRONG),
        ("twice", _property(b"\1\0\1\0"), WRONG),
        ("a payload format of 2", _property(b"\1\2"), WRONG),
        ("an empty response topic", _property(b"\x08\0\0"), WRONG),
        ("a response topic with +", _property(b"\x08", text("a/+")), WRONG),
        ("the alias 0", _property(b"\x23\0\0"), ReasonCode.TOPIC_ALIAS_INVALID),
        ("a value that is cut", _property(b"\2\0\0"), BAD),
        ("a text that is not UTF-8", _property(b"\3\0\1\xff"), BAD),
        ("half a pair", _property(b"\x26", text("a")), BAD),
        ("longer than the packet", packet(0x30, text("a"), b"\x05\1\1"), BAD),
        ("a length with bytes it does not need", packet(0x30, text("a"), b"\x80\0"), BAD),
        ("identifier 0", packet(0x82, _ID, b"\2\x0b\0", text("a"), b"\0"), WRONG),
        ("two identifiers", packet(0x82, _ID, b"\4\x0b\1\x0b\2", text("a"), b"\0"), WRONG),
    ]
]
REFUSED += [
    (f"properties of CONNECT: {name}", _NO_LEVEL, data, reason)
    for name, data, reason in [
        (name, packet(0x10, text("MQTT"), b"\5\2\0\0", bytes([len(part)]), part, text("c")), reason)
        for name, part, reason in [
            ("a receive maximum of 0", b"\x21\0\0", WRONG),
            ("a packet size of 0", b"\x27\0\0\0\0", WRONG),
            ("response information of 2", b"\x19\2", WRONG),
            ("two receive maxima", b"\x21\0\1\x21\0\1", WRONG),
            ("a will delay", b"\x18\0\0\0\0", BAD),
        ]
    ]
]


@pytest.mark.parametrize(
    ("level", "data", "reason"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_wrongInput(level: int, data: bytes, reason: ReasonCode) -> None:
    """Input that breaks the protocol is refused for the reason that MQTT 5 has for it."""
    assert reasonFor(data, level) == reason


def test_complete() -> None:
    """The table has all types of packets from 1 to 15."""
    assert sorted(LAYOUTS) == list(range(1, 16))
