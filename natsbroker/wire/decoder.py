"""
Bytes to frames, one frame at a time, for the dialect of clients or any other.

Input may be split anywhere, and gives the same frames. Memory is bounded by the longest control
line and the largest payload. Input that breaks the protocol gives one C{FAULT} frame, as early as
nats-server would answer, and never an exception.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from natsbroker import errors
from natsbroker.wire import ops
from natsbroker.wire.lines import CLIENT, HEAD, SKIP, STRIP, Frame, LineReader

_UNKNOWN: Frame = (ops.FAULT, errors.UNKNOWN_OPERATION)


@dataclass(eq=False, slots=True)
class Decoder:
    """
    The caller may change the attributes between two frames. The next frame is read accordingly.

    @ivar maxControlLine: how many bytes may follow the operation's name and blanks on a line.
    @ivar maxPayload: the largest size of PUB and HPUB (headers included); negative for no limit.
    @ivar headers: whether HPUB is allowed on this connection by now.
    @ivar announce: whether the arguments of a publish are announced before its payload is there.
    @ivar authorized: while false, an operation that does not begin like CONNECT is answered with an
        authorization violation at its first byte.
    @ivar heard: when the peer last sent anything but PONG; kept here for the session.
    """

    maxControlLine: int = 4096
    maxPayload: int = 1 << 20
    dialect: LineReader = CLIENT
    headers: bool = field(default=False, init=False)
    announce: bool = field(default=False, init=False)
    authorized: bool = field(default=True, init=False)
    messages: int = field(default=0, init=False)
    messageBytes: int = field(default=0, init=False)
    received: int = field(default=0, init=False)
    heard: float = field(default=0.0, init=False)
    _buffer: bytes = field(default=b"", init=False)
    _position: int = field(default=0, init=False)
    _chunks: list[bytes] = field(default_factory=list, init=False)
    _missing: int = field(default=0, init=False)
    _skipping: int = field(default=0, init=False)
    _head: Frame | None = field(default=None, init=False)
    _fault: Frame | None = field(default=None, init=False)

    @property
    def pending(self) -> int:
        return len(self._buffer) - self._position + sum(map(len, self._chunks))

    @property
    def ahead(self) -> int:
        """The first byte of input that no returned frame has used; -1 if there is none."""
        return self._buffer[self._position] if self._position < len(self._buffer) else -1

    @property
    def isBetweenLines(self) -> bool:
        """Whether a line begins next; for the lane."""
        return not (
            self._head is not None
            or self._fault is not None
            or self._skipping
            or self._chunks
            or self._missing > 0
        )

    @property
    def window(self) -> tuple[bytes, int]:
        """The input, and the place in it where the next line begins; for the lane."""
        return self._buffer, self._position

    def took(self, position: int, messages: int, messageBytes: int) -> None:
        """Note that the lane took publishes. The next line begins at C{position} now."""
        self._position = position
        self.messages += messages
        self.messageBytes += messageBytes

    def append(self, data: bytes) -> None:
        self.received += len(data)
        if self._fault is not None:
            return
        if self._missing > 0 or self._chunks:
            self._chunks.append(data)
            self._missing -= len(data)
            return
        left = self._buffer[self._position :]
        self._buffer = left + data if left else data
        self._position = 0

    def take(self) -> bytes:
        """
        Remove and return the input that no returned frame has used: it will be read in another way.
        """
        data = b"".join([self._buffer[self._position :], *self._chunks])
        self._chunks = []
        self._missing = 0
        self._forget()
        return data

    def next(self) -> Frame | None:
        """
        The next complete frame, or C{None}. After a C{FAULT} it is always C{None}, and input is
        lost.
        """
        if self._missing > 0:
            return None
        if self._head is not None:
            return self._payload(self._head)
        if self._fault is not None:
            return self._fault
        buffer = self._buffer
        start = self._position
        end = buffer.find(b"\n", start)
        if end < 0:
            return self._partial(buffer[start:])
        self._position = end + 1
        if self._skipping:
            skipped, self._skipping = self._skipping, 0
            return (skipped,)
        frame = self.dialect.readLine(buffer[start:end], self)
        if frame[0] == HEAD:
            self._head = frame
            return (ops.ANNOUNCED, frame[2]) if self.announce else self._payload(frame)
        return self._violation(frame) if frame[0] == ops.FAULT else frame

    def _partial(self, line: bytes) -> Frame | None:
        if not line or self._skipping:
            self._forget()
            return None
        frame = self.dialect.readPartial(line, self)
        if frame is None:
            return None
        if frame[0] == SKIP:
            self._skipping = frame[1]
            self._forget()
            return None
        if frame[0] == STRIP:
            self._buffer = line[: -frame[1]]
            self._position = 0
            return None
        return self._violation(frame)

    def _payload(self, head: Frame) -> Frame | None:
        size = head[5]
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
                return self._violation(_UNKNOWN)
            self._missing = 1 if tail else end - len(buffer) + 1
            return None
        self._head = None
        self._position = end + 2
        self.messages += 1
        self.messageBytes += size
        return (*head[1:5], buffer[start:end], *head[6:])

    def _violation(self, fault: Frame) -> Frame:
        self._fault = fault
        self._forget()
        return fault

    def _forget(self) -> None:
        self._buffer = b""
        self._position = 0
