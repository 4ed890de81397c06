"""
The protocol of NATS Streaming by hand: fields are numbers, and all values are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from natsbroker.testing.memory import MemoryBroker

Value = int | bytes

#: The content of a message: the values of its fields, by their number.
Fields = dict[int, Value]


def encode(fields: dict[int, Value | str]) -> bytes:
    """Encode a message."""
    encoded = b""
    for number, value in fields.items():
        if isinstance(value, int):
            encoded += _varint(number << 3) + _varint(value & (1 << 64) - 1)
        else:
            data = value.encode() if isinstance(value, str) else value
            encoded += _varint(number << 3 | 2) + _varint(len(data)) + data
    return encoded


def decode(message: bytes) -> Fields:
    """
    The fields of a message.

    @raise ValueError: if it has other kinds of fields than this protocol.
    """
    fields: Fields = {}
    rest = iter(message)
    for first in rest:
        tag = _readVarint(first, rest)
        number, kind = tag >> 3, tag & 7
        if kind not in (0, 2) or number in fields:
            raise ValueError(f"field {number} of kind {kind} in {message!r}")
        value = _readVarint(next(rest), rest)
        fields[number] = value if kind == 0 else bytes(next(rest) for _ in range(value))
    return fields


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _readVarint(first: int, rest: Iterator[int]) -> int:
    value, shift, byte = first & 127, 7, first
    while byte > 127:
        byte = next(rest)
        value |= (byte & 127) << shift
        shift += 7
    return value


class Came(NamedTuple):
    """A received message."""

    subject: str
    reply: str
    payload: bytes


_PING = b"PING\r\n"
_HEAD = re.compile(rb"MSG (\S+) 1 (?:(\S+) )?(\d+)\r\n")


class Wire:
    """A connection that receives everything below its name."""

    def __init__(self, broker: MemoryBroker, name: str = "me") -> None:
        self.broker = broker
        self.name = name
        self._connection = broker.connect({"verbose": False, "pedantic": False})
        self._connection.send(f"SUB {name}.> 1\r\n".encode())
        self._replies = count(1)
        self._unread: list[Came] = []

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        """
        Send a message.
        """
        head = f"PUB {subject} {reply} {len(payload)}\r\n".encode()
        self._connection.send(head + payload + b"\r\n")

    def came(self, prefix: str = "") -> list[Came]:
        """The messages since the last call on subjects with a prefix, in order."""
        data = self._connection.receive()
        while data:
            if data.startswith(_PING):
                self._connection.send(b"PONG\r\n")
                data = data[len(_PING) :]
                continue
            head = _HEAD.match(data)
            assert head, data
            end = head.end() + int(head[3])
            reply = (head[2] or b"").decode()
            self._unread.append(Came(head[1].decode(), reply, data[head.end() : end]))
            data = data[end + 2 :]
        taken = [message for message in self._unread if message.subject.startswith(prefix)]
        self._unread = [message for message in self._unread if message not in taken]
        return taken

    def ask(self, subject: str, request: bytes | dict[int, Value | str]) -> bytes | None:
        """
        Send a request.

        @return: the answer, or C{None} if none comes at once.
        """
        reply = f"{self.name}.reply.{next(self._replies)}"
        self.publish(subject, request if isinstance(request, bytes) else encode(request), reply)
        answers = self.came(reply)
        assert len(answers) <= 1
        return answers[0].payload if answers else None

    def fields(self, subject: str, request: bytes | dict[int, Value | str]) -> Fields:
        """Send a request, and return the decoded answer."""
        answer = self.ask(subject, request)
        assert answer is not None, "no answer"
        return decode(answer)
