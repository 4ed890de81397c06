"""
One control line of a client to a frame.

Promises: pure functions of a line and of what the connection allows by now; shared by the pure and
the compiled decoder, so these cannot disagree on anything but buffering.
Must never know: buffers, or how a line arrived.
"""

from __future__ import annotations

from typing import Any, Protocol

from natsbroker import errors
from natsbroker.wire import ops
from natsbroker.wire.dialects import client

__all__ = ["HEAD", "SKIP", "STRIP", "Frame", "LineRules", "readLine", "readPartial"]

#: The operation code, then what belongs to it:
#: C{(CONNECT | INFO | SUB | UNSUB | ERR, arguments)}, C{(PING,)}, C{(PONG,)}, C{(OK,)},
#: C{(PUB, subject, reply, 0, body, sizeText, b"")},
#: C{(HPUB, subject, reply, headerLength, body, sizeText, headerText)},
#: C{(ANNOUNCED, subject)} and C{(FAULT, WireError)}.
Frame = tuple[Any, ...]

#: What L{readLine} gives for a publish, which is complete only with its payload: C{(HEAD,
#: operation, subject, reply, headerLength, size, sizeText, headerText)}.
HEAD = -1

#: What L{readPartial} gives when the rest of a line does not matter: C{(SKIP, operation)}.
SKIP = -2

#: What L{readPartial} gives when a line ends in blanks that do not matter: C{(STRIP, count)}.
STRIP = -3

_NAMES = (*client.LINE_OPERATIONS, *client.BARE_OPERATIONS)
_EXACT = {
    spelling: rule
    for name, rule in client.LINE_OPERATIONS.items()
    for spelling in (name, name.lower())
}
_CONNECTING = (b"C", b"c")
_UNKNOWN: Frame = (ops.FAULT, errors.UNKNOWN_OPERATION)
_BAD: Frame = (ops.FAULT, errors.BAD_ARGUMENTS)
_TOO_LONG: Frame = (ops.FAULT, errors.CONTROL_LINE)
_TOO_LARGE: Frame = (ops.FAULT, errors.PAYLOAD)
_UNAUTHORIZED: Frame = (ops.FAULT, errors.AUTHORIZATION)


class LineRules(Protocol):
    """
    What a connection allows by now; the attributes are those of L{natsbroker.wire.decoder.Decoder}.
    """

    authorized: bool
    headers: bool
    maxControlLine: int
    maxPayload: int


def readLine(line: bytes, rules: LineRules) -> Frame:
    """
    Read a whole line.

    @param line: the line without its LF, perhaps with a CR.
    @return: a frame, which may be a C{FAULT}, or a L{HEAD}.
    """
    if not rules.authorized and not line.startswith(_CONNECTING):
        return _UNAUTHORIZED
    name, _, rest = line.partition(b" ")
    rule = _EXACT.get(name)
    if rule is None or rest[:1] in (b"", b" ", b"\t", b"\r"):
        return _readUnusual(line, rules)
    return _readArguments(rule[0], rest, rules)


def _readUnusual(line: bytes, rules: LineRules) -> Frame:
    name = _operation(line)
    bare = client.BARE_OPERATIONS.get(name)
    if bare is not None:
        return (bare,)
    rule = client.LINE_OPERATIONS.get(name)
    if rule is None or (rule[1] and line[len(name) : len(name) + 1] not in (b" ", b"\t")):
        return _UNKNOWN
    return _readArguments(rule[0], line[len(name) :].lstrip(b" \t"), rules)


def _readArguments(op: int, rest: bytes, rules: LineRules) -> Frame:
    if rest.endswith(b"\r"):
        rest = rest[:-1]
    if len(rest) > rules.maxControlLine:
        return _TOO_LONG
    if op == ops.PUB or op == ops.HPUB:
        return _readPublish(op, rest, rules)
    return (op, rest)


def _readPublish(op: int, rest: bytes, rules: LineRules) -> Frame:
    arguments = client.splitBlanks(rest)
    count = len(arguments)
    headerLength = 0
    headerText = b""
    if op == ops.HPUB:
        if not rules.headers or not 3 <= count <= 4:
            return _BAD
        headerText = arguments[-2]
        headerLength = client.parseSize(headerText)
    elif not 2 <= count <= 3:
        return _BAD
    sizeText = arguments[-1]
    size = client.parseSize(sizeText)
    if size < 0 or not 0 <= headerLength <= size or b"\r" in rest:
        return _BAD
    if 0 <= rules.maxPayload < size:
        return _TOO_LARGE
    reply = arguments[1] if count == (4 if headerText else 3) else b""
    return (HEAD, op, arguments[0], reply, headerLength, size, sizeText, headerText)


def readPartial(line: bytes, rules: LineRules) -> Frame | None:
    """
    Look at a line that is not complete yet.

    @param line: what there is of it: at least one byte, no LF.
    @return: a C{FAULT} if it cannot become right any more, a L{SKIP} if the rest of it does not
        matter, a L{STRIP} if some blanks do not, else C{None}.
    """
    if not rules.authorized and not line.startswith(_CONNECTING):
        return _UNAUTHORIZED
    name = _operation(line)
    bare = client.BARE_OPERATIONS.get(name)
    if bare is not None:
        return (SKIP, bare)
    rule = client.LINE_OPERATIONS.get(name)
    if rule is None:
        capitals = line[:8].upper()
        return None if any(each.startswith(capitals) for each in _NAMES) else _UNKNOWN
    if rule[1] and line[len(name) : len(name) + 1] not in (b"", b" ", b"\t"):
        return _UNKNOWN
    arguments = line[len(name) :].lstrip(b" \t")
    if not arguments and len(line) > len(name) + 1:
        return (STRIP, len(line) - len(name) - 1)
    if len(arguments) - arguments.endswith(b"\r") > rules.maxControlLine:
        return _TOO_LONG
    return None


def _operation(line: bytes) -> bytes:
    """
    The operation that a line begins with, in capitals; what begins with none is given back whole.
    """
    for name in _NAMES:
        if line[: len(name)].upper() == name:
            return name
    return line
