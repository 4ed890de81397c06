"""The parsing of a control line to a frame, for any dialect, in pure and compiled decoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from natsbroker import errors
from natsbroker.wire import ops
from natsbroker.wire.dialects import client
from natsbroker.wire.tracing import asksForTrace

#: The operation code, then what belongs to it:
#: C{(CONNECT | INFO | SUB | UNSUB | ERR, arguments)}, C{(PING,)}, C{(PONG,)}, C{(OK,)},
#: C{(PUB, subject, reply, 0, body, sizeText, b"")},
#: C{(HPUB, subject, reply, headerLength, body, sizeText, headerText)},
#: C{(ANNOUNCED, subject)} and C{(FAULT, WireError)}; C{(FAULT, WireError, subject, headers, size)}
#: for a message that is too large and may ask for a trace. Dialects of links have more operations,
#: and append what else belongs to a message to its frame.
Frame = tuple[Any, ...]

#: The kind of a line that a payload follows. L{readLine} returns C{(HEAD, operation, subject,
#: reply, headerLength, size, sizeText, headerText)}, with the parts that a dialect adds.
HEAD = -1

#: The result C{(SKIP, operation)} of L{readPartial}: the rest of the line does not matter.
SKIP = -2

#: The result C{(STRIP, count)} of L{readPartial}: that many blanks end the line and do not matter.
STRIP = -3

#: The line's arguments are wrong: the connection ends in silence.
BAD: Frame = (ops.FAULT, errors.BAD_ARGUMENTS)

CONNECTING = (b"C", b"c")
_HEADERS = b"NATS/1.0\r\n"
_UNKNOWN: Frame = (ops.FAULT, errors.UNKNOWN_OPERATION)
_TOO_LONG: Frame = (ops.FAULT, errors.CONTROL_LINE)
_TOO_LARGE: Frame = (ops.FAULT, errors.PAYLOAD)
_UNAUTHORIZED: Frame = (ops.FAULT, errors.AUTHORIZATION)


class LineRules(Protocol):
    authorized: bool
    headers: bool
    maxControlLine: int
    maxPayload: int

    def take(self) -> bytes:
        """Remove and return the input that no returned frame has used."""


#: Makes the L{HEAD} of a message, or a C{FAULT}, of the operation and its arguments.
HeadReader = Callable[[int, bytes, LineRules], Frame]


class LineReader:
    __slots__ = ("_bare", "_exact", "_first", "_heads", "_names", "_operations")

    def __init__(
        self,
        operations: Mapping[bytes, tuple[int, bool]],
        bare: Mapping[bytes, int],
        heads: Mapping[int, HeadReader],
        first: tuple[bytes, ...] = CONNECTING,
    ) -> None:
        """
        @param operations: the operations whose arguments run to the end of the line, with whether
            a space must follow the name. No name begins with another one.
        @param bare: the operations without arguments; the rest of their line is skipped.
        @param heads: reads the arguments of operations with a payload.
        @param first: the beginnings of lines that are accepted before the peer has logged in.
        """
        self._operations = dict(operations)
        self._bare = dict(bare)
        self._first = first
        self._heads = dict(heads)
        self._names = (*operations, *bare)
        self._exact = {
            spelling: rule for name, rule in operations.items() for spelling in (name, name.lower())
        }

    def readLine(self, line: bytes, rules: LineRules) -> Frame:
        """The frame of a line without its LF: of an operation, a L{HEAD}, or a C{FAULT}."""
        if not rules.authorized and not line.startswith(self._first):
            return _UNAUTHORIZED
        name, _, rest = line.partition(b" ")
        rule = self._exact.get(name)
        if rule is None or rest[:1] in (b"", b" ", b"\t", b"\r"):
            return self._readUnusual(line, rules)
        return self._readArguments(rule[0], rest, rules)

    def _readUnusual(self, line: bytes, rules: LineRules) -> Frame:
        name = self._operation(line)
        bare = self._bare.get(name)
        if bare is not None:
            return (bare,)
        rule = self._operations.get(name)
        if rule is None or (rule[1] and line[len(name) : len(name) + 1] not in (b" ", b"\t")):
            return _UNKNOWN
        return self._readArguments(rule[0], line[len(name) :].lstrip(b" \t"), rules)

    def _readArguments(self, op: int, rest: bytes, rules: LineRules) -> Frame:
        if rest.endswith(b"\r"):
            rest = rest[:-1]
        if len(rest) > rules.maxControlLine:
            return _TOO_LONG
        head = self._heads.get(op)
        return (op, rest) if head is None else head(op, rest, rules)

    def readPartial(self, line: bytes, rules: LineRules) -> Frame | None:
        """
        @param line: an incomplete line: at least one byte, no LF.
        @return: a C{FAULT} if the line cannot become valid, a L{SKIP} if its rest can be ignored, a
            L{STRIP} if some blanks can be ignored, else C{None}.
        """
        if not rules.authorized and not line.startswith(self._first):
            return _UNAUTHORIZED
        name = self._operation(line)
        bare = self._bare.get(name)
        if bare is not None:
            return (SKIP, bare)
        rule = self._operations.get(name)
        if rule is None:
            capitals = line[:8].upper()
            return (
                None
                if any(operation.startswith(capitals) for operation in self._names)
                else _UNKNOWN
            )
        if rule[1] and line[len(name) : len(name) + 1] not in (b"", b" ", b"\t"):
            return _UNKNOWN
        arguments = line[len(name) :].lstrip(b" \t")
        if not arguments and len(line) > len(name) + 1:
            return (STRIP, len(line) - len(name) - 1)
        if len(arguments) - arguments.endswith(b"\r") > rules.maxControlLine:
            return _TOO_LONG
        return None

    def _operation(self, line: bytes) -> bytes:
        """The operation in capitals; the whole line if it begins with no operation."""
        for name in self._names:
            if line[: len(name)].upper() == name:
                return name
        return line


def checkedHead(
    op: int, subject: bytes, reply: bytes, sizes: tuple[bytes, bytes], rules: LineRules
) -> Frame:
    """
    A L{HEAD}, or a C{FAULT} for wrong sizes.

    @param sizes: the size of the headers, empty without headers, and that of headers and payload.
    """
    headerText, sizeText = sizes
    size = client.parseSize(sizeText)
    headerLength = client.parseSize(headerText) if headerText else 0
    if size < 0 or not 0 <= headerLength <= size:
        return BAD
    if 0 <= rules.maxPayload < size:
        return _TOO_LARGE
    return (HEAD, op, subject, reply, headerLength, size, sizeText, headerText)


def _readPublish(op: int, rest: bytes, rules: LineRules) -> Frame:
    arguments = client.splitBlanks(rest)
    count = len(arguments)
    headerText = b""
    if op == ops.HPUB:
        if not rules.headers or not 3 <= count <= 4:
            return BAD
        headerText = arguments[-2]
    elif not 2 <= count <= 3:
        return BAD
    if b"\r" in rest:
        return BAD
    reply = arguments[1] if count == (4 if headerText else 3) else b""
    head = checkedHead(op, arguments[0], reply, (headerText, arguments[-1]), rules)
    return _tooLarge(arguments, rules) if headerText and head is _TOO_LARGE else head


def _tooLarge(arguments: list[bytes], rules: LineRules) -> Frame:
    """A final C{FAULT}. It has subject, headers and size if headers may ask for a trace."""
    rest, length = rules.take(), client.parseSize(arguments[-2])
    start = rest.find(_HEADERS)
    block = rest[start : start + length] if start >= 0 else b""
    if len(block) < length or not asksForTrace(block, length, hasDest=True):
        return _TOO_LARGE
    return (*_TOO_LARGE, arguments[0], block, client.parseSize(arguments[-1]))


#: The dialect of clients.
CLIENT = LineReader(
    client.LINE_OPERATIONS,
    client.BARE_OPERATIONS,
    {ops.PUB: _readPublish, ops.HPUB: _readPublish},
)

readLine = CLIENT.readLine
readPartial = CLIENT.readPartial
