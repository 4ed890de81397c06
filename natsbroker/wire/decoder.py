"""
Client bytes to frames, one frame at a time.

Promises: any split of the same bytes gives the same frames; memory is bounded by the longest
control line and the largest payload; input that breaks the protocol gives one C{FAULT} frame, as
early as the real server would answer, and never an exception.
Must never know: sessions, subscriptions, or what a frame causes. The compiled twin in C{_accel}
has the same interface and passes the same tests.
"""

from __future__ import annotations

from typing import Any

from natsbroker import errors
from natsbroker.wire import ops
from natsbroker.wire.dialects import client

__all__ = ["Decoder", "Frame"]

#: The operation code, then what belongs to it:
#: C{(CONNECT | INFO | SUB | UNSUB | ERR, arguments)}, C{(PING,)}, C{(PONG,)}, C{(OK,)},
#: C{(PUB, subject, reply, 0, body, sizeText, b"")},
#: C{(HPUB, subject, reply, headerLength, body, sizeText, headerText)},
#: C{(ANNOUNCED, subject)} and C{(FAULT, WireError)}.
Frame = tuple[Any, ...]

#: What is known of a publish before its payload: operation, subject, reply, length of the header
#: block, size, and the two sizes as they were written.
Head = tuple[int, bytes, bytes, int, int, bytes, bytes]

_NAMES = (*client.LINE_OPERATIONS, *client.BARE_OPERATIONS)
_EXACT = {
    spelling: rule
    for name, rule in client.LINE_OPERATIONS.items()
    for spelling in (name, name.lower())
}
_CONNECTING = (b"C", b"c")


class Decoder:
    """
    Cuts the bytes of one client connection into frames.

    The caller may change the attributes between two frames; the next frame is read accordingly.

    @ivar maxControlLine: how many bytes may follow the operation's name and blanks on a line.
    @ivar maxPayload: the largest size of PUB and HPUB (headers included); negative for no limit.
    @ivar headers: whether HPUB is allowed on this connection by now.
    @ivar announce: whether the arguments of a publish are announced before its payload is there.
    @ivar authorized: while false, an operation that does not begin like CONNECT is answered with
        an authorization violation at its first byte.
    @ivar messages: how many publishes were read.
    @ivar messageBytes: how many bytes of headers and payload they had.
    @ivar received: how many bytes were appended.
    """

    __slots__ = (
        "_buffer",
        "_chunks",
        "_fault",
        "_head",
        "_missing",
        "_position",
        "_skipping",
        "announce",
        "authorized",
        "headers",
        "maxControlLine",
        "maxPayload",
        "messageBytes",
        "messages",
        "received",
    )

    def __init__(self, maxControlLine: int = 4096, maxPayload: int = 1 << 20) -> None:
        self.maxControlLine = maxControlLine
        self.maxPayload = maxPayload
        self.headers = False
        self.announce = False
        self.authorized = True
        self.messages = 0
        self.messageBytes = 0
        self.received = 0
        self._buffer = b""
        self._position = 0
        self._chunks: list[bytes] = []
        self._missing = 0
        self._skipping = 0
        self._head: Head | None = None
        self._fault: Frame | None = None

    @property
    def pending(self) -> int:
        """
        How many bytes were appended and are not part of a returned frame yet.
        """
        return len(self._buffer) - self._position + sum(map(len, self._chunks))

    def append(self, data: bytes) -> None:
        """
        Take more input.

        @param data: what the transport delivered.
        """
        self.received += len(data)
        if self._missing > 0:
            self._chunks.append(data)
            self._missing -= len(data)
            return
        left = self._buffer[self._position :]
        self._buffer = left + data if left else data
        self._position = 0

    def next(self) -> Frame | None:
        """
        Read the next frame.

        @return: the frame, or C{None} if it is not complete yet. After a C{FAULT} the same fault
            is returned for ever.
        """
        if self._missing > 0:
            return None
        if self._head is not None:
            return self._payload(self._head)
        if self._fault is not None:
            return self._fault
        return self._control()

    def _violation(self, error: errors.WireError) -> Frame:
        self._fault = (ops.FAULT, error)
        self._buffer = b""
        self._position = 0
        return self._fault

    def _control(self) -> Frame | None:
        buffer = self._buffer
        start = self._position
        end = buffer.find(b"\n", start)
        if end < 0:
            return self._incomplete()
        if self._skipping:
            skipped = self._skipping
            self._skipping = 0
            self._position = end + 1
            return (skipped,)
        line = buffer[start:end]
        if not self.authorized and not line.startswith(_CONNECTING):
            return self._violation(errors.AUTHORIZATION)
        name, _, rest = line.partition(b" ")
        rule = _EXACT.get(name)
        if rule is None or rest[:1] in b" \t\r":
            return self._unusual(line, end + 1)
        return self._line(rule[0], rest, end + 1)

    def _unusual(self, line: bytes, after: int) -> Frame | None:
        name = _operation(line)
        bare = client.BARE_OPERATIONS.get(name)
        if bare is not None:
            self._position = after
            return (bare,)
        rule = client.LINE_OPERATIONS.get(name)
        if rule is None or (rule[1] and line[len(name) : len(name) + 1] not in (b" ", b"\t")):
            return self._violation(errors.UNKNOWN_OPERATION)
        rest = line[len(name) :].lstrip(b" \t")
        return self._line(rule[0], rest, after)

    def _line(self, op: int, rest: bytes, after: int) -> Frame | None:
        if rest.endswith(b"\r"):
            rest = rest[:-1]
        if len(rest) > self.maxControlLine:
            return self._violation(errors.CONTROL_LINE)
        self._position = after
        if op == ops.PUB or op == ops.HPUB:
            return self._publish(op, rest)
        return (op, rest)

    def _publish(self, op: int, rest: bytes) -> Frame | None:
        if b"\r" in rest:
            return self._violation(errors.BAD_ARGUMENTS)
        arguments = client.splitBlanks(rest)
        count = len(arguments)
        headerLength = 0
        headerText = b""
        if op == ops.HPUB:
            if not self.headers or not 3 <= count <= 4:
                return self._violation(errors.BAD_ARGUMENTS)
            headerText = arguments[-2]
            headerLength = client.parseSize(headerText)
        elif not 2 <= count <= 3:
            return self._violation(errors.BAD_ARGUMENTS)
        sizeText = arguments[-1]
        size = client.parseSize(sizeText)
        if size < 0 or not 0 <= headerLength <= size:
            return self._violation(errors.BAD_ARGUMENTS)
        if 0 <= self.maxPayload < size:
            return self._violation(errors.PAYLOAD)
        reply = arguments[1] if count == (4 if headerText else 3) else b""
        head = (op, arguments[0], reply, headerLength, size, sizeText, headerText)
        self._head = head
        if self.announce:
            return (ops.ANNOUNCED, arguments[0])
        return self._payload(head)

    def _payload(self, head: Head) -> Frame | None:
        op, subject, reply, headerLength, size, sizeText, headerText = head
        if self._chunks:
            self._buffer = b"".join([self._buffer[self._position :], *self._chunks])
            self._position = 0
            self._chunks = []
        buffer = self._buffer
        start = self._position
        end = start + size
        tail = buffer[end : end + 2]
        if tail != b"\r\n":
            if tail not in (b"", b"\r"):
                self._head = None
                return self._violation(errors.UNKNOWN_OPERATION)
            self._missing = 1 if tail else max(end - len(buffer), 0) + 1
            return None
        self._head = None
        self._position = end + 2
        self.messages += 1
        self.messageBytes += size
        return (op, subject, reply, headerLength, buffer[start:end], sizeText, headerText)

    def _incomplete(self) -> Frame | None:
        line = self._buffer[self._position :]
        if not line or self._skipping:
            self._forget()
            return None
        if not self.authorized and not line.startswith(_CONNECTING):
            return self._violation(errors.AUTHORIZATION)
        name = _operation(line)
        if name in client.BARE_OPERATIONS:
            self._skipping = client.BARE_OPERATIONS[name]
            self._forget()
            return None
        rule = client.LINE_OPERATIONS.get(name)
        if rule is None:
            if any(each.startswith(line.upper()) for each in _NAMES):
                return None
            return self._violation(errors.UNKNOWN_OPERATION)
        follows = line[len(name) : len(name) + 1]
        if rule[1] and follows not in (b"", b" ", b"\t"):
            return self._violation(errors.UNKNOWN_OPERATION)
        arguments = line[len(name) :].lstrip(b" \t")
        if len(arguments) - arguments.endswith(b"\r") > self.maxControlLine:
            return self._violation(errors.CONTROL_LINE)
        return None

    def _forget(self) -> None:
        self._buffer = b""
        self._position = 0


def _operation(line: bytes) -> bytes:
    """
    The operation that a line begins with, in capitals; what begins with none is given back whole.
    """
    for name in _NAMES:
        if line[: len(name)].upper() == name:
            return name
    return line
