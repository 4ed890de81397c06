"""
The control channel between the parent and one worker: pickled messages in frames, over a pair of
Unix sockets. A frame may carry open sockets, which the receiver gets as descriptors of its own.

Both ends belong to one user, and no other process has the sockets, so pickles are trusted. After an
upgrade a worker may be of a newer release than its parent. Values are therefore sent by the names
of their fields: an unknown field is ignored by the receiver, and a missing one has its default.
"""

from __future__ import annotations

import array
import io
import os
import pickle
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from twisted.internet.interfaces import IReadWriteDescriptor
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

_log = Logger(namespace="natsbroker")

_HEADER = struct.Struct("!IB")
"""The length of the pickle, and the number of descriptors that come with the frame's first byte."""

_MOST = 253
"""The most descriptors of one frame, by the kernel's rule."""

_CHUNK = 1 << 16

GATHER = 0.01
"""Seconds that a message which may wait does so: each call wakes up the other process."""

Descriptors = tuple[int, ...]


@cache
def _namesOf(kind: type) -> tuple[str, ...]:
    """The names of the fields of a dataclass; none for another class."""
    return tuple(field.name for field in fields(kind) if field.init) if is_dataclass(kind) else ()


class _ByName(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if not is_dataclass(kind):
            return NotImplemented
        return rebuilt, (kind, {name: getattr(value, name) for name in _namesOf(kind)})


def rebuilt(kind: Any, named: dict[str, object]) -> Any:
    """A value of another process, whose fields may be those of another release."""
    known = _namesOf(kind)
    return kind(**{name: value for name, value in named.items() if name in known})


def frameOf(message: object, descriptors: int = 0) -> bytes:
    written = io.BytesIO()
    _ByName(written, pickle.HIGHEST_PROTOCOL).dump(message)
    pickled = written.getvalue()
    return _HEADER.pack(len(pickled), descriptors) + pickled


class FrameDecoder:
    """
    Messages decoded from a stream of bytes, in order.

    The kernel passes the descriptors of one frame as one set, with the frame's first byte. If the
    process runs out of descriptors, the set is smaller than the frame says: its descriptors are
    closed, and the message comes without any.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._sets: deque[Descriptors] = deque()

    def received(self, data: bytes, passed: Descriptors | None = None) -> list[Any]:
        """
        @param passed: the descriptors that came with the data; C{None} for none.
        @return: pairs of a message and its descriptors.
        """
        self._buffer += data
        if passed is not None:
            self._sets.append(passed)
        messages = []
        start = 0
        while len(self._buffer) - start >= _HEADER.size:
            length, count = _HEADER.unpack_from(self._buffer, start)
            end = start + _HEADER.size + length
            if len(self._buffer) < end:
                break
            message = pickle.loads(memoryview(self._buffer)[start + _HEADER.size : end])
            messages.append((message, self._taken(count)))
            start = end
        del self._buffer[:start]
        return messages

    def _taken(self, count: int) -> Descriptors:
        if not count:
            return ()
        passed = self._sets.popleft()
        if len(passed) == count:
            return passed
        _closeAll(passed)
        return ()

    def close(self) -> None:
        """Close the descriptors of frames that are not complete."""
        while self._sets:
            _closeAll(self._sets.popleft())


def _closeAll(descriptors: Descriptors) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


@implementer(IReadWriteDescriptor)
class ControlChannel:
    """
    One end of the socket pair, on a reactor.

    @ivar received: called with each message and its descriptors, which the callee must close.
    @ivar lost: called once, when the other end has been closed.
    """

    def __init__(
        self,
        reactor: Any,
        end: socket.socket,
        received: Callable[[Any, Descriptors], object],
        lost: Callable[[], object],
    ) -> None:
        self._reactor = reactor
        self._socket = end
        self._received = received
        self._lost = lost
        self._decoder = FrameDecoder()
        # Sockets are passed with the first byte of their frame.
        self._waiting: deque[tuple[memoryview, Sequence[socket.socket]]] = deque()
        self._gathered = bytearray()
        self._flush: Any = None
        self._isOpen = True
        self._hasCome = False
        end.setblocking(False)

    def start(self) -> None:
        self._reactor.addReader(self)

    @property
    def waiting(self) -> int:
        """The number of frames that wait because the other end reads slowly."""
        return len(self._waiting)

    def send(self, message: object, sockets: Sequence[socket.socket] = ()) -> None:
        """
        Send a message, after all earlier ones.

        @param sockets: sockets to pass, which are closed here when the other process has received
            them or has ended.
        """
        if len(sockets) > _MOST:
            raise ValueError(f"{len(sockets)} sockets, and a frame takes {_MOST}")
        if not self._isOpen:
            _closeSockets(sockets)
            return
        self._sendGathered()
        self._sendFrame(frameOf(message, len(sockets)), sockets)

    def sendSoon(self, message: object) -> None:
        """Send a message within L{GATHER}, together with others."""
        if self._isOpen:
            self._gathered += frameOf(message)
            if self._flush is None:
                self._flush = self._reactor.callLater(GATHER, self._sendGathered)

    def _sendGathered(self) -> None:
        flush, self._flush = self._flush, None
        if flush is not None:
            if flush.active():
                flush.cancel()
            gathered, self._gathered = self._gathered, bytearray()
            self._sendFrame(gathered, ())

    def _sendFrame(self, frame: bytes | bytearray, sockets: Sequence[socket.socket]) -> None:
        self._waiting.append((memoryview(frame), sockets))
        if len(self._waiting) == 1:
            self.doWrite()
            if self._waiting:
                self._reactor.addWriter(self)

    def doWrite(self) -> Failure | None:
        """Send one frame at a time, because one call must not pass the sockets of two frames."""
        while self._waiting:
            frame, sockets = self._waiting[0]
            rights = array.array("i", [passed.fileno() for passed in sockets])
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if sockets else []
            try:
                sent = self._socket.sendmsg([frame], ancillary)
            except BlockingIOError:
                return None
            except OSError:
                # The reader is called at the end, after the last messages of the other process.
                self._forget()
                break
            _closeSockets(sockets)
            if sent < len(frame):
                self._waiting[0] = (frame[sent:], ())
            else:
                self._waiting.popleft()
        self._reactor.removeWriter(self)
        return None

    def drain(self) -> None:
        """Read all input that is already available."""
        while self._isOpen and self.doRead() is None and self._hasCome:
            pass

    def doRead(self) -> Failure | None:
        self._hasCome = False
        room = socket.CMSG_SPACE(_MOST * array.array("i").itemsize)
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(_CHUNK, room, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        except OSError:
            return Failure(CONNECTION_LOST)
        passed: Descriptors | None = None
        for level, kind, rights in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(rights[: len(rights) - len(rights) % numbers.itemsize])
                passed = tuple(numbers)
        if passed is None and flags & socket.MSG_CTRUNC:
            passed = ()
        if not data:
            return Failure(CONNECTION_DONE)
        self._hasCome = True
        for message, descriptors in self._decoder.received(data, passed):
            try:
                self._received(message, descriptors)
            except Exception:
                _log.failure("A message between parent and worker could not be handled")
        return None

    def fileno(self) -> int:
        return self._socket.fileno()

    def logPrefix(self) -> str:
        return "workers"

    def connectionLost(self, reason: Failure) -> None:
        if self._isOpen:
            self.close()
            self._lost()

    def close(self) -> None:
        """Close this end, with sockets that were not sent. C{lost} is not called."""
        if self._isOpen:
            self._isOpen = False
            self._reactor.removeReader(self)
            self._reactor.removeWriter(self)
            self._forget()
            if self._flush is not None:
                self._flush.cancel()
            self._decoder.close()
            self._socket.close()

    def _forget(self) -> None:
        while self._waiting:
            _closeSockets(self._waiting.popleft()[1])


def _closeSockets(sockets: Sequence[socket.socket]) -> None:
    for passed in sockets:
        passed.close()
