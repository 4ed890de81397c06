"""
The types of the fields of MQTT packets: how each is read and written.

A L{Reader} never reads behind the end of its packet, and raises nothing but
L{natsbroker.wire.mqtt.reasons.PacketError}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from natsbroker.wire.mqtt.reasons import malformed

#: The largest variable byte integer, and with it the largest remaining length.
LARGEST_VARINT = 0x0FFF_FFFF

#: The largest number of bytes of a text or of binary data.
LONGEST = 0xFFFF


class Reader:
    """
    @ivar data: the body of one packet.
    @ivar isOfClient: whether a client sent it.
    @ivar at: the offset of the next field.
    """

    __slots__ = ("at", "data", "isOfClient")

    def __init__(self, data: bytes, isOfClient: bool = True, at: int = 0) -> None:
        self.data = data
        self.isOfClient = isOfClient
        self.at = at

    @property
    def isAtEnd(self) -> bool:
        return self.at >= len(self.data)

    def take(self, size: int) -> bytes:
        start = self.at
        self.at = end = start + size
        if end > len(self.data):
            raise malformed("a field ends behind its packet")
        return self.data[start:end]

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def byte(self) -> int:
        return self.take(1)[0]

    def short(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def long(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def varint(self) -> int:
        value, size = varintAt(self.data, self.at)
        if not size:
            raise malformed("a field ends behind its packet")
        self.at += size
        return value

    def binary(self) -> bytes:
        return self.take(self.short())

    def text(self) -> str:
        try:
            text = self.binary().decode("utf-8")
        except UnicodeDecodeError:
            raise malformed("a text that is not UTF-8") from None
        if "\0" in text:
            raise malformed("a text with U+0000")
        return text

    def pair(self) -> tuple[str, str]:
        return self.text(), self.text()


def varintAt(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """
    A variable byte integer and its length; the length is 0 if its end has not come yet.

    @raise PacketError: if it has more than four bytes, or more than it needs.
    """
    value = shift = 0
    for place, byte in enumerate(data[at : at + 4], 1):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if place > 1 and not byte:
                raise malformed("a variable byte integer with more bytes than it needs")
            return value, place
        shift += 7
    if shift == 28:
        raise malformed("a variable byte integer of more than four bytes")
    return 0, 0


def varint(value: int) -> bytes:
    if value < 0x80:
        return _SINGLE[value]
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


_SINGLE = tuple(bytes([value]) for value in range(0x80))


def binary(value: bytes) -> bytes:
    """
    Bytes behind their length.

    @raise ValueError: if they are too long for a field.
    """
    if len(value) > LONGEST:
        raise ValueError("a field of more than 65,535 bytes")
    return len(value).to_bytes(2, "big") + value


def text(value: str) -> bytes:
    return binary(value.encode("utf-8"))


@dataclass(frozen=True, eq=False, slots=True)
class FieldType:
    """
    @ivar read: takes a value out of a L{Reader}.
    @ivar write: the bytes of a value. The caller has checked that the value fits.
    """

    name: str
    read: Callable[[Reader], Any]
    write: Callable[[Any], bytes]

    def __repr__(self) -> str:
        return f"<{self.name}>"


BYTE = FieldType("byte", Reader.byte, lambda value: bytes([value]))
SHORT = FieldType("two bytes", Reader.short, lambda value: value.to_bytes(2, "big"))
LONG = FieldType("four bytes", Reader.long, lambda value: value.to_bytes(4, "big"))
VARINT = FieldType("variable byte integer", Reader.varint, varint)
BINARY = FieldType("binary data", Reader.binary, binary)
TEXT = FieldType("text", Reader.text, text)
PAIR = FieldType("pair of texts", Reader.pair, lambda pair: text(pair[0]) + text(pair[1]))
