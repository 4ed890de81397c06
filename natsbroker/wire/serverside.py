"""
The client's side of the protocol: a server's bytes to frames, and lines for the server::

    INFO {json}
    MSG <subject> <sid> [reply] <size>                    then the payload and CRLF
    HMSG <subject> <sid> [reply] <header size> <size>     then headers, payload and CRLF
    PING  PONG  +OK
    -ERR '<text>'

Input may be split anywhere, and gives the same frames. Memory is bounded by the longest line and
the largest message. Input that is not a server's gives one C{FAULT} frame, never an exception.
Names cannot break the lines that are made here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from natsbroker.subjects.grammar import isValidLiteral, isValidSubject
from natsbroker.wire import ops
from natsbroker.wire.dialects.client import parseSize, splitBlanks
from natsbroker.wire.text import decoded

#: C{(INFO, json)}, C{(MSG | HMSG, subject, sid, reply, headerLength, body)}, C{(PING,)},
#: C{(PONG,)}, C{(OK,)}, C{(ERR, text)} and C{(FAULT, text)}.
Frame = tuple[Any, ...]

#: INFO lists all members of a cluster, so its line may be long.
_LONGEST_LINE = 1 << 20

_BLANKS_AND_CONTROLS = bytes([*range(0x21), 0x7F])

#: Messages as servers write them; what is written otherwise is read piece by piece.
_WORD = rb"([^ \t\r\n]+) "
_PLAIN = re.compile(rb"MSG %b%b(?:%b)?(\d{1,9})\r\n" % (_WORD, _WORD, _WORD))
_HEADED = re.compile(rb"HMSG %b%b(?:%b)?(\d{1,9}) (\d{1,9})\r\n" % (_WORD, _WORD, _WORD))

_BARE = {b"PING": (ops.PING,), b"PONG": (ops.PONG,), b"+OK": (ops.OK,)}


@dataclass(eq=False, slots=True)
class ServerDecoder:
    """C{maxPayload} limits messages, unless negative, and C{maxLine} limits lines."""

    maxPayload: int = 64 << 20
    maxLine: int = _LONGEST_LINE
    _buffer: bytes = field(default=b"", init=False)
    _position: int = field(default=0, init=False)
    _searched: int = field(default=0, init=False)
    _chunks: list[bytes] = field(default_factory=list, init=False)
    _missing: int = field(default=0, init=False)
    _head: tuple[int, bytes, bytes, bytes, int, int] | None = field(default=None, init=False)
    _fault: Frame | None = field(default=None, init=False)

    @property
    def pending(self) -> int:
        return len(self._buffer) - self._position + sum(map(len, self._chunks))

    def append(self, data: bytes) -> None:
        if self._fault is not None:
            return
        if self._missing > 0 or self._chunks:
            self._chunks.append(data)
            self._missing -= len(data)
            return
        left = self._buffer[self._position :]
        self._searched -= self._position
        self._buffer = left + data if left else data
        self._position = 0

    def next(self) -> Frame | None:
        """As L{natsbroker.wire.decoder.Decoder.next}."""
        if self._missing > 0:
            return None
        if self._fault is not None:
            return self._fault
        if self._head is None:
            whole = self._whole()
            if whole is not None:
                return whole
            frame = self._line()
            if self._head is None:
                return frame
        return self._message(self._head)

    def _whole(self) -> Frame | None:
        """A complete message in one step, like L{_line} and L{_message}."""
        buffer, position = self._buffer, self._position
        head = None if buffer.startswith(b"H", position) else _PLAIN.match(buffer, position)
        if head is not None:
            subject, sid, reply, digits = head.groups(b"")
            op, headerLength, size = ops.MSG, 0, int(digits)
        else:
            head = _HEADED.match(buffer, position)
            if head is None:
                return None
            subject, sid, reply, headDigits, digits = head.groups(b"")
            op, headerLength, size = ops.HMSG, int(headDigits), int(digits)
        start = head.end()
        end = start + size
        if (
            buffer[end : end + 2] != b"\r\n"
            or headerLength > size
            or 0 <= self.maxPayload < size
            or start - position - 2 > self.maxLine
        ):
            return None
        self._position = self._searched = end + 2
        return (op, subject, sid, reply, headerLength, buffer[start:end])

    def _line(self) -> Frame | None:
        end = self._buffer.find(b"\n", max(self._searched, self._position))
        length = (end if end >= 0 else len(self._buffer)) - self._position
        if length > self.maxLine:
            return self._violated("a line is too long")
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = self._buffer[self._position : end]
        self._position = self._searched = end + 1
        return self._read(line[:-1] if line.endswith(b"\r") else line)

    def _read(self, line: bytes) -> Frame | None:
        name, _, rest = line.replace(b"\t", b" ").partition(b" ")
        name = name.upper()
        if name == b"MSG" or name == b"HMSG":
            return self._headOf(name == b"HMSG", splitBlanks(rest))
        bare = _BARE.get(name)
        if bare is not None:
            return bare
        argument = line[len(name) :].strip(b" \t")
        if name == b"INFO":
            return (ops.INFO, argument)
        if name == b"-ERR":
            return (ops.ERR, decoded(argument.strip(b"'")))
        return self._violated(f"not a server's operation: {line[:80]!r}")

    def _headOf(self, isHeader: bool, arguments: list[bytes]) -> Frame | None:
        sizes = 2 if isHeader else 1
        if not 2 + sizes <= len(arguments) <= 3 + sizes:
            return self._violated("a message has a wrong number of arguments")
        size = parseSize(arguments[-1])
        headerLength = parseSize(arguments[-2]) if isHeader else 0
        if size < 0 or not 0 <= headerLength <= size:
            return self._violated("a message has a wrong size")
        if 0 <= self.maxPayload < size:
            return self._violated("a message is too large")
        reply = arguments[2] if len(arguments) == 3 + sizes else b""
        op = ops.HMSG if isHeader else ops.MSG
        self._head = (op, arguments[0], arguments[1], reply, headerLength, size)
        return None

    def _message(self, head: tuple[int, bytes, bytes, bytes, int, int]) -> Frame | None:
        op, subject, sid, reply, headerLength, size = head
        if self._chunks:
            self._buffer = b"".join([self._buffer[self._position :], *self._chunks])
            self._position = 0
            self._chunks = []
        end = self._position + size
        tail = self._buffer[end : end + 2]
        if tail != b"\r\n":
            if tail not in (b"", b"\r"):
                return self._violated("a message has no end")
            self._missing = 1 if tail else end - len(self._buffer) + 1
            return None
        body = self._buffer[self._position : end]
        self._position = self._searched = end + 2
        self._head = None
        return (op, subject, sid, reply, headerLength, body)

    def _violated(self, text: str) -> Frame:
        self._fault = (ops.FAULT, text)
        self._buffer = b""
        self._position = self._searched = 0
        self._head = None
        return self._fault


def connectLine(options: Mapping[str, Any]) -> bytes:
    text = json.dumps(dict(options), separators=(",", ":"))
    return b"CONNECT %b\r\n" % text.encode("ascii")


def publishLine(subject: bytes, reply: bytes, headerLength: int, size: int) -> bytes:
    """
    A PUB line or, with headers, an HPUB line for a total size. C{ValueError} for wrong subjects.
    """
    if not isValidLiteral(subject):
        raise ValueError(f"not a subject to publish to: {subject!r}")
    if reply and not isValidLiteral(reply):
        raise ValueError(f"not a reply subject: {reply!r}")
    names = b"%b %b" % (subject, reply) if reply else subject
    if headerLength:
        return b"HPUB %b %d %d\r\n" % (names, headerLength, size)
    return b"PUB %b %d\r\n" % (names, size)


def subscribeLine(pattern: bytes, queue: bytes, sid: bytes) -> bytes:
    """A SUB line. C{ValueError} for an invalid subject or queue group."""
    if not isValidSubject(pattern):
        raise ValueError(f"not a valid subject: {pattern!r}")
    if queue.translate(None, _BLANKS_AND_CONTROLS) != queue:
        raise ValueError(f"not the name of a queue group: {queue!r}")
    names = b"%b %b" % (pattern, queue) if queue else pattern
    return b"SUB %b %b\r\n" % (names, sid)
