"""Helpers of the tests of MQTT packets."""

from __future__ import annotations

from natsbroker.wire.mqtt.codec import PacketDecoder
from natsbroker.wire.mqtt.fields import text
from natsbroker.wire.mqtt.packets import MQTT_5, Packet
from natsbroker.wire.mqtt.reasons import PacketError


def packet(first: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    assert len(body) < 128
    return bytes([first, len(body)]) + body


def connect(level: int = 5, flags: int = 2, *parts: bytes, name: str = "MQTT") -> bytes:
    """CONNECT with a keep-alive of 0; the parts stand behind the properties, if any."""
    own = parts or (text("c"),)
    return packet(0x10, text(name), bytes([level, flags]), b"\0\0", b"\0" * (level == 5), *own)


def decoder(level: int = MQTT_5, maximum: int = 1 << 20) -> PacketDecoder:
    return PacketDecoder(maximum, level=level)


def readAll(reading: PacketDecoder, data: bytes, size: int = 1 << 20) -> list[Packet]:
    """The packets of input that comes in chunks of C{size} bytes."""
    read = []
    for start in range(0, len(data), size):
        reading.feed(data[start : start + size])
        while (value := reading.next()) is not None:
            read.append(value)
    return read


def varint(value: int) -> bytes:
    parts = []
    while True:
        value, rest = value >> 7, value & 0x7F
        parts.append(rest | (0x80 if value else 0))
        if not value:
            return bytes(parts)


def consume(reading: PacketDecoder, data: bytes) -> None:
    """Read input until it ends or is refused."""
    try:
        for read in readAll(reading, data, 7):
            list(getattr(read, "requests", ()))
            list(getattr(read, "filters", ()))
    except PacketError as error:
        assert error.reason.isError
