"""Packets of MQTT out of bytes, and their bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker.wire.mqtt.codec import PacketDecoder, encoded
from natsbroker.wire.mqtt.fields import text
from natsbroker.wire.mqtt.layouts import LAYOUTS
from natsbroker.wire.mqtt.packets import (
    MQTT_3_1,
    MQTT_3_1_1,
    MQTT_5,
    Connect,
    Packet,
    Pingreq,
    Publish,
    Subscribe,
    Unsubscribe,
)
from natsbroker.wire.mqtt.properties import MAX_PROPERTIES, MESSAGE_EXPIRY
from natsbroker.wire.mqtt.reasons import PacketError, ReasonCode
from tests.wire.mqtt.strategies import LEVELS, packetsOf
from tests.wire.mqtt.support import connect, consume, decoder, readAll, varint


class TestRoundTrip:
    """Every packet of the table, in each version and from each side that sends it."""

    @pytest.mark.parametrize("isOfClient", [True, False])
    @pytest.mark.parametrize("number", sorted(LAYOUTS))
    @settings(max_examples=12)
    @given(data=st.data(), level=LEVELS, size=st.integers(1, 9))
    def test_same(
        self, number: int, isOfClient: bool, data: st.DataObject, level: int, size: int
    ) -> None:
        """A packet that is written can be read again, in chunks of any size."""
        layout = LAYOUTS[number]
        if level not in layout.levels:
            return
        if not (layout.isOfClients if isOfClient else layout.isOfServers):
            return
        sent = data.draw(packetsOf(layout.packet, level, isOfClient))
        isFirst = layout.packet is Connect
        reading = PacketDecoder(isOfClient=isOfClient, level=0 if isFirst else level)
        written = encoded(sent, level)
        assert readAll(reading, written, size) == [sent]
        assert reading.level == level
        assert not reading.pending

    @settings(max_examples=15)
    @given(
        data=st.lists(packetsOf(Publish, MQTT_5, True), min_size=1, max_size=3),
        size=st.integers(1, 50),
    )
    def test_several(self, data: list[Packet], size: int) -> None:
        """Packets that follow each other are read in order, however they are cut."""
        written = b"".join(encoded(sent) for sent in data)
        assert readAll(decoder(), written, size) == data

    def test_manyBytes(self) -> None:
        """A decoder keeps no more than the packet that is incomplete."""
        reading = decoder()
        written = encoded(Publish("a", bytes(1000)))
        for _ in range(200):
            reading.feed(written)
            assert reading.next() is not None
        assert reading.next() is None
        assert not reading.pending


#: Bytes on the wire as the standard shows them, with their level, and the values.
KNOWN: list[tuple[bytes, int, Packet]] = [
    (bytes.fromhex("101000044d51545404020000000474657374"), 0, Connect(MQTT_3_1_1, "test")),
    (bytes.fromhex("c000"), MQTT_3_1_1, Pingreq()),
    (bytes.fromhex("30070003612f626869"), MQTT_3_1_1, Publish("a/b", b"hi")),
    (
        bytes.fromhex("320f00036131620010050200000e106869"),
        MQTT_5,
        Publish("a1b", b"hi", qos=1, packetID=16, properties={MESSAGE_EXPIRY: 3600}),
    ),
]


@pytest.mark.parametrize(("data", "level", "value"), KNOWN)
def test_known(data: bytes, level: int, value: Packet) -> None:
    """Bytes that are written down in the standard mean these values."""
    assert readAll(decoder(level), data) == [value]
    assert encoded(value, level or MQTT_3_1_1) == data


class TestBounds:
    """The limits of what is read."""

    def test_atMaximum(self) -> None:
        """A packet of the largest size is read, and one more byte is refused."""
        written = encoded(Publish("a", bytes(100)))
        assert len(readAll(decoder(maximum=len(written)), written)) == 1
        reading = decoder(maximum=len(written) - 1)
        reading.feed(written[:2])
        with pytest.raises(PacketError) as raised:
            reading.next()
        assert raised.value.reason is ReasonCode.PACKET_TOO_LARGE

    def test_manyProperties(self) -> None:
        """A packet has a limited number of properties."""
        for count, isRefused in ((MAX_PROPERTIES, False), (MAX_PROPERTIES + 1, True)):
            given = b"\x26\0\1a\0\1b" * count
            body = text("a") + varint(len(given)) + given
            reading = decoder()
            reading.feed(b"\x30" + varint(len(body)) + body)
            if not isRefused:
                assert reading.next() is not None
                continue
            with pytest.raises(PacketError) as raised:
                reading.next()
            assert raised.value.reason is ReasonCode.QUOTA_EXCEEDED

    @pytest.mark.parametrize("first", [b"\x82", b"\xa2"])
    def test_manyFilters(self, first: bytes) -> None:
        """The filters of a packet are read when they are asked for, not before."""
        options = b"\0" if first == b"\x82" else b""
        body = b"\0\1" + b"\0" + (text("a") + options) * 1000 + b"\0\1\xff" + options
        reading = decoder()
        reading.feed(first + varint(len(body)) + body)
        read = reading.next()
        assert isinstance(read, (Subscribe, Unsubscribe))
        entries = iter(read.requests if isinstance(read, Subscribe) else read.filters)
        for _ in range(1000):
            next(entries)
        with pytest.raises(PacketError):
            next(entries)

    def test_levelOfBrokenConnect(self) -> None:
        """The version is known of a CONNECT whose other fields are wrong."""
        for level in (MQTT_3_1_1, MQTT_5):
            reading = decoder(0)
            reading.feed(connect(level, 3))
            with pytest.raises(PacketError):
                reading.next()
            assert reading.level == level

    def test_unknownLevel(self) -> None:
        """No version is known of a CONNECT of another protocol."""
        reading = decoder(0)
        reading.feed(connect(7))
        with pytest.raises(PacketError):
            reading.next()
        assert reading.level == 0

    def test_longField(self) -> None:
        """A text of more than 65,535 bytes is not written."""
        with pytest.raises(ValueError, match="65,535"):
            encoded(Publish("a" * 65536))


class TestFuzz:
    """Input that is wrong in any way raises nothing but L{PacketError}."""

    @settings(max_examples=200)
    @given(data=st.binary(max_size=80), level=st.sampled_from([0, MQTT_3_1, MQTT_3_1_1, MQTT_5]))
    def test_anyBytes(self, data: bytes, level: int) -> None:
        """Any bytes are read or refused."""
        consume(decoder(level), data)

    @settings(max_examples=200)
    @given(body=st.binary(max_size=60), first=st.integers(0x10, 0xFF), level=LEVELS)
    def test_anyBody(self, body: bytes, first: int, level: int) -> None:
        """A packet with any body is read or refused."""
        reading = decoder(0 if first < 0x20 else level)
        consume(reading, bytes([first]) + varint(len(body)) + body)

    @pytest.mark.parametrize("number", sorted(LAYOUTS))
    @settings(max_examples=15)
    @given(data=st.data(), level=LEVELS)
    def test_damaged(self, number: int, data: st.DataObject, level: int) -> None:
        """A packet with a few bytes changed is read or refused, from clients and from servers."""
        layout = LAYOUTS[number]
        if level not in layout.levels:
            return
        isOfClient = layout.isOfClients
        written = bytearray(encoded(data.draw(packetsOf(layout.packet, level, isOfClient)), level))
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, len(written) - 1))
            written[place] = data.draw(st.integers(0, 255))
        first = 0 if layout.packet is Connect else level
        consume(PacketDecoder(1 << 20, isOfClient, first), bytes(written))
