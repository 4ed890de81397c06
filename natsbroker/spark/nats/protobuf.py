"""
The few messages of NATS Streaming that a publisher needs, in protobuf's wire format.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Malformed", "decode", "encode"]

_VARINT, _BYTES = 0, 2


class Malformed(ValueError):
    """
    Bytes that are no message.
    """


def _varint(number: int) -> bytes:
    return _SHORT[number] if number < len(_SHORT) else _anyVarint(number)


def _anyVarint(number: int) -> bytes:
    pieces = bytearray()
    while number > 0x7F:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


#: Those of most keys and of many lengths.
_SHORT = tuple(map(_anyVarint, range(4096)))


def encode(fields: Mapping[int, bytes | int]) -> bytes:
    """
    A message; what is empty or 0 is left out.

    @param fields: the values by their numbers: bytes, or whole numbers from 0.
    """
    pieces = []
    for number, value in fields.items():
        if not value:
            continue
        if isinstance(value, int):
            pieces += [_varint(number << 3 | _VARINT), _varint(value)]
        else:
            pieces += [_varint(number << 3 | _BYTES), _varint(len(value)), value]
    return b"".join(pieces)


def decode(data: bytes) -> dict[int, bytes | int]:
    """
    The fields of a message; of one that is there twice, the last.

    @raise Malformed: if it is none, or has fields of other kinds.
    """
    fields: dict[int, bytes | int] = {}
    offset = 0
    while offset < len(data):
        key, offset = _number(data, offset)
        value, offset = _number(data, offset)
        if key & 7 == _VARINT:
            fields[key >> 3] = value
        elif key & 7 == _BYTES and offset + value <= len(data):
            fields[key >> 3] = data[offset : offset + value]
            offset += value
        else:
            raise Malformed(f"no field at {offset}")
    return fields


def _number(data: bytes, offset: int) -> tuple[int, int]:
    number = shift = 0
    while offset < len(data) and shift < 64:
        byte = data[offset]
        number |= (byte & 0x7F) << shift
        offset += 1
        if byte < 0x80:
            return number, offset
        shift += 7
    raise Malformed(f"no number ends at {offset}")
