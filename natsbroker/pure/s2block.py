"""
S2 blocks: the content of the compressed chunks of an S2 stream.

A block is the length of its content, as a varint, and elements: literals, and copies of earlier
content. It is a Snappy block with one more element, the repeat, which copies with the offset of the
copy before it. (The format is described in the S2 package of klauspost/compress and in Google's
description of Snappy.)
"""

from __future__ import annotations

#: The most bytes that a length has.
_LONGEST_VARINT = 5

#: The bytes of an offset after the tag of a copy, by the low bits of the tag.
_OFFSET_BYTES = (0, 1, 2, 4)

#: The base of the length of a repeat, by the number of bytes that hold it.
_REPEAT_BASE = (4, 8, 260, 65540)


def decodeBlock(data: bytes, start: int, stop: int, most: int) -> bytes:
    """
    @param data: has the block from C{start} up to C{stop}.
    @param most: the most bytes of its content. No more memory is taken.
    @raise IndexError: if there is no such part of the data.
    @raise ValueError: if it is damaged, or its content is larger.
    """
    if not 0 <= start <= stop <= len(data):
        raise IndexError("the range is outside of the data")
    size, place = _length(data, start, stop)
    if size > max(most, 0):
        raise ValueError("too long")
    plain, offset = bytearray(), 0
    while place < stop:
        tag = data[place]
        place += 1
        kind = tag & 3
        if not kind:
            length, place = _literal(data, tag >> 2, place, stop)
            plain += data[place - length : place]
        else:
            extra = _OFFSET_BYTES[kind]
            position, place = _number(data, place, extra, stop, "copy")
            length = (tag >> 2) + 1
            if kind == 1:
                length = 4 + ((tag >> 2) & 7)
                position |= (tag & 0xE0) << 3
                if not position:
                    extra = max(length - 8, 0)
                    more, place = _number(data, place, extra, stop, "copy")
                    length = more + _REPEAT_BASE[extra] if extra else length
                    position = offset
            offset = position
            if not 0 < offset <= len(plain):
                raise ValueError("offset before the beginning")
            if length > size - len(plain):
                raise ValueError("longer than its length")
            plain += _copy(plain, offset, length)
        if len(plain) > size:
            raise ValueError("longer than its length")
    if len(plain) != size:
        raise ValueError("shorter than its length")
    return bytes(plain)


def _length(data: bytes, start: int, stop: int) -> tuple[int, int]:
    claimed = 0
    for count in range(_LONGEST_VARINT):
        if start + count == stop:
            raise ValueError("truncated length")
        byte = data[start + count]
        claimed |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return claimed, start + count + 1
    raise ValueError("length of too many bytes")


def _number(data: bytes, place: int, count: int, stop: int, what: str) -> tuple[int, int]:
    if stop - place < count:
        raise ValueError(f"truncated {what}")
    return int.from_bytes(data[place : place + count], "little"), place + count


def _literal(data: bytes, length: int, place: int, stop: int) -> tuple[int, int]:
    if length >= 60:
        length, place = _number(data, place, length - 59, stop, "literal")
    length += 1
    if length > stop - place:
        raise ValueError("truncated literal")
    return length, place + length


def _copy(plain: bytearray, offset: int, length: int) -> bytes:
    """The bytes at an offset before the end, repeated if they are too few."""
    begin = len(plain) - offset
    pattern = bytes(plain[begin : begin + length])
    times, rest = divmod(length, len(pattern))
    return pattern * times + pattern[:rest]
