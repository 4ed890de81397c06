"""
The slots of workers. In each, one process follows another: when one ends unasked, the next starts
after a pause.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.workers.channel import ControlChannel, Descriptors
from natsbroker.workers.messages import (
    AskServer,
    Closed,
    Entered,
    Failed,
    Gone,
    Heartbeat,
    PageShown,
    PartShown,
    Ready,
    ReloadPlanned,
    ReloadRefused,
    RemotesLeft,
    Start,
    StartLameDuck,
    StopWorker,
)
from natsbroker.workers.pages import WorkerAnswer
from natsbroker.workers.placing import WorkerLoad

if TYPE_CHECKING:
    from natsbroker.clients.info import ServerInfo

_log = Logger(namespace="natsbroker")

PAUSE = 0.1
"""The pause before a worker that ended is started again, in seconds; it doubles each time."""

LONGEST = 5.0

STEADY = 10.0
"""The seconds that a worker runs before the next pause is the shortest again."""

PATIENCE = 30.0
"""The seconds that a worker may take to stop, or to go on if it hangs, before it is killed."""

BEAT = 2.0
"""The seconds between two heartbeats."""

CHANNEL = 3
"""The descriptor of a worker's end of the channel."""


Value = TypeVar("Value")


class Owner(Protocol):
    """The side of the supervisor that its slots use."""

    def startOf(self, slot: WorkerSlot) -> Start: ...

    def ready(self, slot: WorkerSlot) -> None: ...

    def entered(self, slot: WorkerSlot, client: Entered) -> None: ...

    def answered(self, slot: WorkerSlot, problems: Sequence[str]) -> None: ...

    def told(self, slot: WorkerSlot, number: int, answer: Any) -> None:
        """A worker has answered a question about itself."""
        ...

    def asked(self, slot: WorkerSlot, question: AskServer) -> None: ...

    def leaving(self, slot: WorkerSlot) -> None: ...

    def remotesLeft(self, slot: WorkerSlot) -> None:
        """A worker has no connection to a remote of leafnodes any more."""
        ...

    def ended(self, slot: WorkerSlot, why: str) -> bool:
        """Whether another process is wanted in the slot."""
        ...


class _Process(ProcessProtocol):
    """Lines of a worker, and its end."""

    def __init__(self, line: Callable[[str], object], ended: Callable[[str], object]) -> None:
        self._line = line
        self._ended = ended
        self._rest = b""

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line.decode("utf-8", "replace"))

    def processEnded(self, reason: Failure) -> None:
        if self._rest:
            self._line(self._rest.decode("utf-8", "replace"))
        status: Any = reason.value
        signal, code = status.signal, status.exitCode
        self._ended(f"signal {signal}" if signal else f"exit code {code}")


def spawnWorker(
    reactor: Any, line: Callable[[str], object], ended: Callable[[str], object]
) -> tuple[Any, socket.socket]:
    """
    Start a process.

    @param line: called with each line that it writes.
    @param ended: called with how it ended.
    @return: the process, and our end of its channel.
    """
    ours, theirs = socket.socketpair()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "NOTIFY_SOCKET" and not name.startswith("LISTEN_")
    }
    with theirs, open(os.devnull, "rb") as nothing:
        process = reactor.spawnProcess(
            _Process(line, ended),
            sys.executable,
            [sys.executable, "-m", "natsbroker.workers.worker"],
            environment,
            childFDs={0: nothing.fileno(), 1: "r", 2: "r", CHANNEL: theirs.fileno()},
        )
    return process, ours


class WorkerSlot:
    """
    @ivar info: what clients see of the worker; C{None} while none is ready.
    @ivar addresses: URLs of its own listeners, by kind.
    @ivar isStreaming: whether it serves NATS Streaming; C{None} for a worker without it.
    @ivar connections: the account of each connection that it was given, by number; empty before the
        login.
    @ivar links: the same of connections of other servers.
    @ivar leafnodes: those of its leafnodes that have logged in, dialled ones too, by its numbers.
    @ivar start: the message that its process was started with.
    @ivar pid: of its process, or the last one.
    """

    def __init__(
        self,
        number: int,
        owner: Owner,
        reactor: Any,
        line: Callable[[WorkerSlot, str], object],
        spawn: Callable[..., tuple[Any, socket.socket]] = spawnWorker,
    ) -> None:
        self.number = number
        self.info: ServerInfo | None = None
        self.addresses: dict[str, list[str]] = {}
        self.isStreaming: bool | None = None
        self.connections = WorkerLoad()
        self.links = WorkerLoad()
        self.leafnodes = WorkerLoad()
        self.start: Start | None = None
        self.pid = 0
        self._owner = owner
        self._reactor = reactor
        self._line = line
        self._spawn = spawn
        self._process: Any = None
        self._channel: ControlChannel | None = None
        self._pause = PAUSE
        self._began = 0.0
        self._failure = ""
        self._next: Any = None
        self._killing: Any = None
        self._isLeaving = False
        self._missed = 0
        self._beating: Any = None
        self._gone: list[Deferred[None]] = []
        self._decided: list[Deferred[bool]] = []
        self._ended: list[Deferred[None]] = []
        self._handlers: dict[type, Callable[[Any], object]] = {
            Closed: self._closed,
            Entered: self._entered,
            Ready: self._becomeReady,
            Heartbeat: self._answered,
            ReloadPlanned: lambda message: owner.answered(self, ()),
            ReloadRefused: lambda message: owner.answered(self, message.problems),
            PageShown: self._pageShown,
            PartShown: lambda message: owner.told(self, message.number, message.part),
            AskServer: lambda message: owner.asked(self, message),
            Failed: self._failed,
            Gone: lambda message: _fire(self._gone, None),
            RemotesLeft: lambda message: owner.remotesLeft(self),
        }

    @property
    def isReady(self) -> bool:
        """Whether it takes connections."""
        return self.info is not None and not self._isLeaving

    @property
    def isHung(self) -> bool:
        """Whether it has not answered a heartbeat until the next one was due."""
        return self._missed > 1

    def begin(self) -> None:
        """Start a process in an empty slot."""
        self._next = None
        self._began = self._reactor.seconds()
        self._failure = ""
        self._isLeaving = False
        self.start = self._owner.startOf(self)
        self._process, end = self._spawn(
            self._reactor, lambda line: self._line(self, line), self._processEnded
        )
        self.pid = self._process.pid
        self._channel = ControlChannel(self._reactor, end, self._received, lambda: None)
        self._channel.start()
        self._channel.send(self.start)

    def send(self, message: object, sockets: Sequence[socket.socket] = ()) -> None:
        """Send a message; to an empty slot it is lost, and its sockets are closed."""
        self.sendAll([(message, sockets)])

    def sendAll(self, messages: Sequence[tuple[object, Sequence[socket.socket]]]) -> None:
        """Send messages as L{send} does, together."""
        if self._channel is not None:
            self._channel.sendAll(messages)
        else:
            for _, sockets in messages:
                for passed in sockets:
                    passed.close()

    def read(self) -> None:
        """Read what the process has said already."""
        if self._channel is not None:
            self._channel.drain()

    def whenDecided(self) -> Deferred[bool]:
        """Fires when the process is ready, with C{True}, or has ended before."""
        decided: Deferred[bool] = Deferred()
        self._decided.append(decided)
        return decided

    def leave(self) -> Deferred[None]:
        """
        Have its connections closed a few at a time.

        @return: fires after the last one, or when the process has ended.
        """
        gone: Deferred[None] = Deferred()
        if self.info is None:
            gone.callback(None)
        else:
            self._gone.append(gone)
            if not self._isLeaving:
                self._isLeaving = True
                self._owner.leaving(self)
                self.send(StartLameDuck())
        return gone

    def stop(self) -> Deferred[None]:
        """
        End the process, if there is one. The slot stays empty until L{begin}.

        @return: fires when it has ended.
        """
        ended: Deferred[None] = Deferred()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._process is None:
            ended.callback(None)
            return ended
        self._ended.append(ended)
        if len(self._ended) == 1:
            self._isLeaving = True
            self._endBeats()
            self.send(StopWorker())
            self._killing = self._reactor.callLater(PATIENCE, self._kill)
        return ended

    def _kill(self) -> None:
        self._killing = None
        _log.error("Worker {number} does not stop and is killed", number=self.number)
        self._signalKill()

    def _signalKill(self) -> None:
        try:
            self._process.signalProcess("KILL")
        except ProcessExitedAlready:
            _log.debug("Worker {number} has ended meanwhile", number=self.number)

    def _received(self, message: Any, descriptors: Descriptors) -> None:
        self._handlers[type(message)](message)

    def _closed(self, message: Closed) -> None:
        if message.isLeafnode:
            self.leafnodes.pop(message.cid, None)
            return
        self.connections.pop(message.cid, None)
        self.links.pop(message.cid, None)

    def _entered(self, message: Entered) -> None:
        if message.isLeafnode:
            self.leafnodes.enter(message.cid, message.account)
        elif message.cid in self.connections:
            self.connections.enter(message.cid, message.account)
        else:
            return
        self._owner.entered(self, message)

    def _becomeReady(self, message: Ready) -> None:
        wasReady = self.info is not None
        self.info, self.addresses = message.info, message.addresses
        self.isStreaming = message.isStreaming
        if not wasReady:
            self._beating = self._reactor.callLater(BEAT, self._beat)
            self._owner.ready(self)
            _fire(self._decided, True)

    def _pageShown(self, message: PageShown) -> None:
        answer = WorkerAnswer(message.status, message.contentType, message.body)
        self._owner.told(self, message.number, answer)

    def _failed(self, message: Failed) -> None:
        self._failure = message.reason

    def _beat(self) -> None:
        """Ask whether the worker goes on. One whose reactor is held gives no answer."""
        self._beating = None
        self._missed += 1
        if self._missed > PATIENCE / BEAT:
            _log.error(
                "Worker {number} (pid {pid}) has not answered for {seconds:g}s and is killed",
                number=self.number,
                pid=self.pid,
                seconds=PATIENCE,
            )
            self._signalKill()
            return
        if self.isHung:
            if self._missed == 2:
                _log.warn(
                    "Worker {number} (pid {pid}) does not answer", number=self.number, pid=self.pid
                )
        else:
            self.send(Heartbeat())
        self._beating = self._reactor.callLater(BEAT, self._beat)

    def _endBeats(self) -> None:
        beating, self._beating = self._beating, None
        self._missed = 0
        if beating is not None:
            beating.cancel()

    def _answered(self, message: Heartbeat) -> None:
        if self.isHung:
            _log.info("Worker {number} (pid {pid}) goes on", number=self.number, pid=self.pid)
        self._missed = 0

    def _processEnded(self, how: str) -> None:
        # It may have said why just before.
        self.read()
        if self._channel is not None:
            self._channel.close()
        self._process = self._channel = self.info = None
        self.addresses = {}
        self.connections.clear()
        self.links.clear()
        self.leafnodes.clear()
        self._endBeats()
        if self._killing is not None:
            self._killing.cancel()
            self._killing = None
        isAsked = bool(self._ended)
        isWanted = self._owner.ended(self, self._failure or how) and not isAsked
        if isWanted:
            self._beginAgain(self._failure or how)
        # An upgrade that waited goes on at once, and may begin another process instead.
        _fire(self._decided, False)
        _fire(self._gone, None)
        _fire(self._ended, None)

    def _beginAgain(self, why: str) -> None:
        if self._reactor.seconds() - self._began >= STEADY:
            self._pause = PAUSE
        _log.error(
            "Worker {number} (pid {pid}) ended: {why}; the next one starts in {pause:g}s",
            number=self.number,
            pid=self.pid,
            why=why,
            pause=self._pause,
        )
        self._next = self._reactor.callLater(self._pause, self.begin)
        self._pause = min(2 * self._pause, LONGEST)


def _fire(waiting: list[Deferred[Value]], value: Value) -> None:
    fired, waiting[:] = list(waiting), []
    for deferred in fired:
        deferred.callback(value)
