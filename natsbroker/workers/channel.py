"""
The control channel between the parent and one worker: pickled messages in frames, over a pair of
UNIX sockets. A frame may carry open sockets, which the receiver gets as descriptors of its own.

Both ends belong to one user, and no other process has the sockets: pickles are trusted. After an
upgrade a worker may be of a newer release than its parent, so values go by the names of their
fields: one that the receiver does not know is left out, and one that the sender does not know has
its default.
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
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IReadWriteDescriptor
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

if TYPE_CHECKING:
    from natsbroker.clients.info import ServerInfo
    from natsbroker.config.model import Settings

_log = Logger(namespace="natsbroker")

_HEADER = struct.Struct("!IB")
"""The length of the pickle, and the number of descriptors that come with the frame's first byte."""

_MOST = 253
"""The most descriptors of one frame, by the kernel's rule."""

_CHUNK = 1 << 16

GATHER = 0.01
"""Seconds that a message which may wait does so: each call wakes up the other process."""

Descriptors = tuple[int, ...]

CLIENTS = "client"
"""The listener for clients, beside which others have their configuration keys as names."""


@dataclass(frozen=True, slots=True)
class Start:
    """
    The first message to a worker.

    @ivar number: of the worker, from 1.
    @ivar count: of all workers.
    @ivar secrets: of L{natsbroker.server.identity.ServerKeys}, by which all workers are one server.
    @ivar directory: private, for the sockets between workers of this run.
    @ivar addresses: hosts and ports at which the parent listens, by listener.
    @ivar announces: whether the worker logs for all of them where links listen.
    """

    number: int
    count: int
    settings: Settings
    secrets: tuple[bytes, bytes]
    directory: str
    addresses: dict[str, tuple[str, int]]
    announces: bool = False


@dataclass(frozen=True, slots=True)
class Adopt:
    """
    A connection for a worker; the frame carries its descriptor.

    @ivar cid: its number, unique over all workers.
    @ivar peer: host and port of the client.
    @ivar read: what was read from it already.
    @ivar nonce: of the INFO that it was sent.
    @ivar isGreeted: whether it was sent INFO.
    @ivar waited: the seconds since then.
    @ivar isExcess: whether it is over C{max_connections}, so the worker refuses it.
    @ivar listener: at which it was accepted, see L{CLIENTS}.
    """

    cid: int
    peer: tuple[str, int]
    read: bytes = b""
    nonce: str = ""
    isGreeted: bool = False
    isExcess: bool = False
    listener: str = CLIENTS
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class PlanReload:
    """New settings, which a worker checks and answers with L{ReloadPlanned} or L{ReloadRefused}."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class ApplyReload:
    """Put the planned settings into force."""


@dataclass(frozen=True, slots=True)
class DiscardReload:
    """Forget the planned settings, because another worker refuses them."""


@dataclass(frozen=True, slots=True)
class UseRemotes:
    """Dial the remotes of leafnodes, which one worker does for all, or leave them to another."""

    isDialling: bool


@dataclass(frozen=True, slots=True)
class StartLameDuck:
    """Close connections a few at a time, and answer with L{Gone} after the last one."""


@dataclass(frozen=True, slots=True)
class StopWorker:
    """End in order."""


@dataclass(frozen=True, slots=True)
class ShowPage:
    """
    A monitoring page, which a worker answers with L{PageShown}.

    @ivar number: of the question.
    """

    number: int
    path: str
    query: dict[str, str]


@dataclass(frozen=True, slots=True)
class ShowPart:
    """
    A part of an answer about the server, which a worker answers with L{PartShown}.

    @ivar number: of the question.
    @ivar name: of one of L{natsbroker.workers.parts.partsOf}.
    @ivar arguments: for it.
    """

    number: int
    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PartShown:
    """
    A part of one worker.

    @ivar number: of the question.
    """

    number: int
    part: Any


@dataclass(frozen=True, slots=True)
class AskServer:
    """
    A question of a worker about the whole server, which the parent answers with L{ServerAnswered}.

    @ivar number: of the question, at this worker.
    @ivar method: of L{natsbroker.system.answers.SystemAnswers}.
    """

    number: int
    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ServerAnswered:
    """
    The answer about the whole server.

    @ivar number: of the question.
    """

    number: int
    answer: Any


@dataclass(frozen=True, slots=True)
class Speak:
    """Speak for the server from now on, or, if C{isSpeaking} is false, no more."""

    isSpeaking: bool


@dataclass(frozen=True, slots=True)
class PageShown:
    """
    A page as one worker shows it.

    @ivar number: of the question.
    """

    number: int
    status: int
    contentType: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """
    A worker takes connections; sent again when its INFO changes.

    @ivar info: which clients see.
    @ivar addresses: URLs of its own listeners, by kind.
    @ivar isStreaming: whether it serves NATS Streaming now; C{None} for a worker without it.
    """

    info: ServerInfo
    addresses: dict[str, list[str]]
    isStreaming: bool | None = None


@dataclass(frozen=True, slots=True)
class Entered:
    """
    A client was let into an account.

    @ivar maximum: the most connections that the account may have; negative for any number.
    """

    cid: int
    account: str
    maximum: int = -1


@dataclass(frozen=True, slots=True)
class CloseExcess:
    """Close a connection, one more than its account may have at all workers together."""

    cid: int


@dataclass(frozen=True, slots=True)
class Closed:
    """An adopted connection has ended; C{account} is empty for one that was never let in."""

    cid: int
    account: str = ""


@dataclass(frozen=True, slots=True)
class ReloadPlanned:
    """The settings can be taken."""


@dataclass(frozen=True, slots=True)
class ReloadRefused:
    """Reasons against the settings of L{PlanReload}."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker cannot start, for a reason that a second attempt would meet again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The last connection of a lame duck has ended."""


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


def frameOf(message: object, descriptors: int = 0) -> bytes:
    written = io.BytesIO()
    _ByName(written, pickle.HIGHEST_PROTOCOL).dump(message)
    pickled = written.getvalue()
    return _HEADER.pack(len(pickled), descriptors) + pickled


class FrameDecoder:
    """
    Messages from what is read, in order.

    The kernel hands over the descriptors of one frame as one set, with the frame's first byte.
    Where the process has no descriptor left, the set is smaller than the frame says: the others are
    closed and the message comes without any.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._sets: deque[Descriptors] = deque()

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
        """Close descriptors whose frames have not come."""
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
        # Each frame begins with the sockets that go along with its first byte.
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
        """The number of frames that the other end is too slow for."""
        return len(self._waiting)

    def send(self, message: object, sockets: Sequence[socket.socket] = ()) -> None:
        """
        Send a message, after all that were to be sent before.

        @param sockets: closed here when the other process has them, or is gone.
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
        """Send frames one by one: two with sockets must not share a call."""
        while self._waiting:
            frame, sockets = self._waiting[0]
            rights = array.array("i", [passed.fileno() for passed in sockets])
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if sockets else []
            try:
                sent = self._socket.sendmsg([frame], ancillary)
            except BlockingIOError:
                return None
            except OSError:
                # The reader learns of the end, after what the other process still said.
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
        while self._waiting:
            _closeSockets(self._waiting.popleft()[1])


def _closeSockets(sockets: Sequence[socket.socket]) -> None:
    for passed in sockets:
        passed.close()
