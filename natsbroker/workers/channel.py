"""
The control channel between the parent and one worker: pickled messages in frames, over a pair of
UNIX sockets. A frame may carry open sockets, which the receiver gets as descriptors of its own.

Both ends belong to one user, and no other process has the sockets, so pickles are trusted. After an
upgrade a worker may be of a newer release than its parent. Values are therefore sent by the names
of their fields: an unknown field is ignored by the receiver, and a missing one has its default.
Messages about single connections are sent by the places of their fields, for speed: a new field
goes to the end.
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
from operator import attrgetter
from typing import Any

from twisted.internet.interfaces import IReadWriteDescriptor
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.workers.messages import OFTEN

_log = Logger(namespace="natsbroker")

HEADER = struct.Struct("!IBB")
"""
The length of the pickle, the number of its descriptors, and the number of those that came with the
first byte of this frame, for it and the frames behind it.
"""

_MOST = 253
"""The most descriptors of one call, by the kernel's rule."""

_CHUNK = 1 << 16

GATHER = 0.01
"""Seconds that a message which may wait does so: each call wakes up the other process."""

Descriptors = tuple[int, ...]


@cache
def _namesOf(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that make it; none of another class."""
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


_VALUES: dict[type, tuple[int, Callable[[Any], Any]]] = {
    kind: (number, attrgetter(*_namesOf(kind))) for number, kind in enumerate(OFTEN)
}


def pickled(message: object) -> bytes:
    """
    The message as bytes. One of L{OFTEN} is the tuple of its number and values, which takes a
    tenth of the time.
    """
    often = _VALUES.get(type(message))
    if often is not None:
        number, valuesOf = often
        return pickle.dumps((number, *valuesOf(message)), pickle.HIGHEST_PROTOCOL)
    written = io.BytesIO()
    _ByName(written, pickle.HIGHEST_PROTOCOL).dump(message)
    return written.getvalue()


def unpickled(data: Any) -> Any:
    message = pickle.loads(data)
    if type(message) is not tuple:
        return message
    number, *values = message
    kind = OFTEN[number]
    return kind(*values[: len(_namesOf(kind))])


class FrameDecoder:
    """
    Messages from what is read, in order.

    The kernel hands over the descriptors of one call as one set, with the call's first byte. Where
    the process has no descriptor left, the last ones are missing: messages that would have them
    come without any.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._sets: deque[Descriptors] = deque()
        self._ready: deque[int | None] = deque()

    def received(self, data: bytes, passed: Descriptors | None = None) -> list[Any]:
        """
        @param passed: the set that came with it; C{None} for none.
        @return: pairs of message and its descriptors.
        """
        self._buffer += data
        if passed is not None:
            self._sets.append(passed)
        messages = []
        start = 0
        while len(self._buffer) - start >= HEADER.size:
            length, count, came = HEADER.unpack_from(self._buffer, start)
            end = start + HEADER.size + length
            if len(self._buffer) < end:
                break
            if came:
                there = self._sets.popleft()
                self._ready.extend(there)
                self._ready.extend([None] * (came - len(there)))
            message = unpickled(memoryview(self._buffer)[start + HEADER.size : end])
            messages.append((message, self._taken(count) if count else ()))
            start = end
        del self._buffer[:start]
        return messages

    def _taken(self, count: int) -> Descriptors:
        wanted = [self._ready.popleft() for _ in range(count)]
        there = tuple(descriptor for descriptor in wanted if descriptor is not None)
        if len(there) == count:
            return there
        _closeAll(there)
        return ()

    def close(self) -> None:
        """Close descriptors whose frames have not come."""
        _closeAll(tuple(descriptor for descriptor in self._ready if descriptor is not None))
        self._ready.clear()
        while self._sets:
            _closeAll(self._sets.popleft())


def _closeAll(descriptors: Descriptors) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


@implementer(IReadWriteDescriptor)
class ControlChannel:
    """
    One end of the socket pair, on a reactor.

    @ivar received: called with each message and its descriptors, which are the callee's to close.
    @ivar lost: called once, when the other end is gone.
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
        self._waiting: deque[tuple[bytes, Sequence[socket.socket]]] = deque()
        # Of the call that is under way: what is left, and the sockets that go with its first byte.
        self._rest = memoryview(b"")
        self._passing: list[socket.socket] = []
        self._gathered: list[object] = []
        self._flush: Any = None
        self._isOpen = True
        self._hasCome = False
        end.setblocking(False)

    def start(self) -> None:
        self._reactor.addReader(self)

    @property
    def waiting(self) -> int:
        """The number of messages that the other end is too slow for."""
        return len(self._waiting) + bool(self._rest)

    def send(self, message: object, sockets: Sequence[socket.socket] = ()) -> None:
        """
        Send a message, after all that were to be sent before.

        @param sockets: closed here when the other process has them, or is gone.
        """
        self.sendAll([(message, sockets)])

    def sendAll(self, messages: Sequence[tuple[object, Sequence[socket.socket]]]) -> None:
        """Send messages as L{send} does, with few calls: each wakes up the other process."""
        for _, sockets in messages:
            if len(sockets) > _MOST:
                raise ValueError(f"{len(sockets)} sockets, and a frame takes {_MOST}")
        if not self._isOpen:
            for _, sockets in messages:
                _closeSockets(sockets)
            return
        isBusy = self.waiting > 0
        self._takeGathered()
        self._waiting.extend((pickled(message), sockets) for message, sockets in messages)
        if not isBusy:
            self._write()

    def sendSoon(self, message: object) -> None:
        """Send a message within L{GATHER}, together with others."""
        if self._isOpen:
            self._gathered.append(message)
            if self._flush is None:
                self._flush = self._reactor.callLater(GATHER, self.sendAll, ())

    def _takeGathered(self) -> None:
        flush, self._flush = self._flush, None
        if flush is not None:
            if flush.active():
                flush.cancel()
            gathered, self._gathered = self._gathered, []
            self._waiting.extend((pickled(message), ()) for message in gathered)

    def _write(self) -> None:
        self.doWrite()
        if self.waiting:
            self._reactor.addWriter(self)

    def doWrite(self) -> Failure | None:
        """Send what waits, in calls that each have room for some messages and their sockets."""
        while self._rest or self._waiting:
            if not self._rest:
                self._begin()
            rights = array.array("i", [passed.fileno() for passed in self._passing])
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else []
            try:
                sent = self._socket.sendmsg([self._rest], ancillary)
            except BlockingIOError:
                return None
            except OSError:
                # The reader learns of the end, after what the other process still said.
                self._forget()
                break
            _closeSockets(self._passing)
            self._passing = []
            self._rest = self._rest[sent:]
        self._reactor.removeWriter(self)
        return None

    def _begin(self) -> None:
        """Begin a call with the first messages that wait."""
        size = count = 0
        frames: list[tuple[bytes, int]] = []
        while self._waiting:
            body, sockets = self._waiting[0]
            size, count = size + len(body), count + len(sockets)
            if frames and (size > _CHUNK or count > _MOST):
                break
            frames.append((body, len(sockets)))
            self._passing += sockets
            self._waiting.popleft()
        came = len(self._passing)
        call = bytearray()
        for body, own in frames:
            call += HEADER.pack(len(body), own, came)
            call += body
            came = 0
        self._rest = memoryview(call)

    def drain(self) -> None:
        """Read what the other end has sent already."""
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
        """Close this end, with sockets that could not be sent; C{lost} is not called."""
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
        _closeSockets(self._passing)
        self._passing, self._rest = [], memoryview(b"")
        while self._waiting:
            _closeSockets(self._waiting.popleft()[1])


def _closeSockets(sockets: Sequence[socket.socket]) -> None:
    for passed in sockets:
        passed.close()
