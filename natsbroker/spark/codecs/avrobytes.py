"""
Avro's binary encoding, read with distrust.

The bytes may be hostile: counts and lengths are compared with the rest of the payload before they
are used, and items of length 0 have a limit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from natsbroker.spark.codecs.payloads import BadPayload, abbreviated

#: The most items of length 0 (nulls, empty records) in a payload.
MOST_EMPTY = 4096

_DOUBLE = struct.Struct("<d")
_SINGLE = struct.Struct("<f")


class Input:
    __slots__ = ("data", "empty", "place")

    def __init__(self, data: bytes, place: int = 0) -> None:
        self.data = data
        self.place = place
        self.empty = 0

    def long(self) -> int:
        data, place = self.data, self.place
        number = shift = 0
        try:
            while True:
                byte = data[place]
                place += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift > 63:
                    raise BadPayload(f"a number at byte {self.place} does not end")
        except IndexError:
            raise BadPayload("it ends in a number") from None
        if number >> 64:
            raise BadPayload(f"a number at byte {self.place} has more than 64 bits")
        self.place = place
        return (number >> 1) ^ -(number & 1)

    def whole(self) -> int:
        place = self.place
        number = self.long()
        if not -0x80000000 <= number <= 0x7FFFFFFF:
            raise BadPayload(f"{number} at byte {place} is beyond 32 bits")
        return number

    def take(self, size: int) -> bytes:
        stop = self.place + size
        if size < 0 or stop > len(self.data):
            left = len(self.data) - self.place
            raise BadPayload(f"{size} bytes are said to follow byte {self.place}, and {left} do")
        found = self.data[self.place : stop]
        self.place = stop
        return found

    def binary(self) -> bytes:
        return self.take(self.long())

    def text(self) -> str:
        place = self.place
        try:
            return self.take(self.long()).decode("utf-8")
        except UnicodeDecodeError:
            raise BadPayload(f"a text at byte {place} is no UTF-8") from None

    def boolean(self) -> bool:
        byte = self.take(1)[0]
        if byte > 1:
            raise BadPayload(f"{byte} at byte {self.place - 1} is neither true nor false")
        return byte == 1

    def index(self, count: int, what: str) -> int:
        place = self.place
        number = self.long()
        if not 0 <= number < count:
            raise BadPayload(f"{number} at byte {place} is none of {count} {what}")
        return number


Read = Callable[[Input], Any]


def single(source: Input) -> float:
    found: float = _SINGLE.unpack(source.take(4))[0]
    return found


def double(source: Input) -> float:
    found: float = _DOUBLE.unpack(source.take(8))[0]
    return found


def fixedOf(size: int) -> Read:
    return lambda source: source.take(size)


def arrayOf(item: Read, least: int) -> Read:
    """
    What reads the items of an array.

    @param least: how many bytes an item takes at least.
    """

    def read(source: Input) -> list[Any]:
        found: list[Any] = []
        _blocks(source, least, lambda: found.append(item(source)))
        return found

    return read


def mapOf(item: Read) -> Read:
    def read(source: Input) -> list[tuple[str, Any]]:
        found: dict[str, Any] = {}

        def one() -> None:
            key = source.text()
            if key in found:
                raise BadPayload(f"the key {abbreviated(key)} is there twice")
            found[key] = item(source)

        _blocks(source, 1, one)
        return list(found.items())

    return read


def _blocks(source: Input, least: int, one: Callable[[], object]) -> None:
    while True:
        place = source.place
        count = source.long()
        if not count:
            return
        stop = -1
        if count < 0:
            count = -count
            size = source.long()
            stop = source.place + size
            if not 0 <= size <= len(source.data) - source.place:
                raise BadPayload(f"a block at byte {place} is said to have {size} bytes")
        if least * count > len(source.data) - source.place:
            raise BadPayload(f"{count} items are said to follow byte {place}: there is no room")
        if not least:
            source.empty += count
            if source.empty > MOST_EMPTY:
                raise BadPayload(f"it has more than {MOST_EMPTY} items that take no bytes")
        for _ in range(count):
            one()
        if stop >= 0 and source.place != stop:
            raise BadPayload(f"a block at byte {place} has not the bytes that it says")
