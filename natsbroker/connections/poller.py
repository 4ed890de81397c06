"""
Plain TCP connections with compiled buffers: the poller, and the transports of clients that connect.

The reactor, endpoints, accepting, timers and the life cycle of protocols stay Twisted's. Only the
reading and writing of established connections is ours. They are in an epoll set of their own, which
is one reader for the reactor, so one call handles many events. The kernel reads into a buffer that
is parsed in place, and finished frames are sent from where they lie.

A session cannot tell the difference. Everything that the lane does not take uses the readable path.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.internet import main, tcp
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IReactorFromThreads, IReadDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import hot
from natsbroker.connections.polledsocket import PolledSocket
from natsbroker.runtime.process import availableCores

if TYPE_CHECKING:
    from natsbroker.connections.polledsocket import PolledSession

_log = Logger()

CONTROL_GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")


def hasSpareProcessor(groups: Path = CONTROL_GROUPS, own: Path = OWN_GROUP) -> bool:
    """
    Whether peers on this machine can run while this process keeps one processor busy: the process
    may use two, and no control group limits it to less. A group that has used up its limit stands
    still for the rest of each period.

    @param groups: where the second version of control groups is mounted.
    @param own: the file that names the group of this process.
    """
    if availableCores() < 2:
        return False
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return True
    name = next((line[3:] for line in lines if line.startswith("0::")), "/")
    group = groups / name.lstrip("/")
    return all(_hasTwo(directory / "cpu.max") for directory in (group, *group.parents))


def _hasTwo(limit: Path) -> bool:
    try:
        quota, period = limit.read_text().split()
        return quota == "max" or int(quota) >= 2 * int(period)
    except (OSError, ValueError):
        return True


@implementer(IReadDescriptor, IReactorFromThreads)
class SocketPoller:
    def __init__(self, reactor: Any, batch: hot.FlushBatch) -> None:
        self._reactor = reactor
        self.sockets = hot.Poller(batch, hasSpareProcessor())
        self._isClosed = False
        self._hasFailed = False
        self._lock = threading.Lock()
        self._calls: deque[tuple[Callable[..., Any], Any, Any]] = deque()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.sockets.watch(self._bell, self._makeCalls)
        reactor.addReader(self)
        # Twisted has no public name for its reactor's epoll set. Without one the poller waits for
        # nothing by itself.
        outer = getattr(reactor, "_poller", None)
        if isinstance(outer, select.epoll):
            self.sockets.attend(outer.fileno(), reactor.timeout)

    def fileno(self) -> int:
        return int(self.sockets.fileno())

    def logPrefix(self) -> str:
        return "connections"

    def doRead(self) -> None:
        """
        Handle ready connections. This raises nothing, because the reactor would then drop them all.
        """
        try:
            self.sockets.run()
        except BaseException:
            self._hasFailed = True
            _log.failure("Reading and writing connections failed")
        else:
            self._hasFailed = False

    def connectionLost(self, reason: Failure) -> None:
        """The reactor has dropped the reader: because it ends, or because of an exception."""
        if not self._isClosed and not reason.check(ConnectionDone, ConnectionLost):
            _log.failure("The reactor dropped the connections", reason)
            self._reactor.addReader(self)

    def callFromThread(self, callable: Callable[..., Any], *args: object, **kwargs: object) -> None:
        """
        Call a function as the reactor does; sooner if the poller is waiting in the reactor's place.
        """
        with self._lock:
            if not self._isClosed:
                self._calls.append((callable, args, kwargs))
                os.eventfd_write(self._bell, 1)
                return
        self._reactor.callFromThread(callable, *args, **kwargs)

    def _makeCalls(self) -> None:
        os.eventfd_read(self._bell)
        # Calls that are added meanwhile write to the eventfd again.
        for _ in range(len(self._calls)):
            call, args, kwargs = self._calls.popleft()
            try:
                call(*args, **kwargs)
            except Exception:
                _log.failure("A call from a thread failed")

    def addReader(self, reader: IReadDescriptor) -> None:
        """Have C{doRead} called, in a batch, for readers that are not connections."""
        self.sockets.watch(reader.fileno(), reader.doRead)

    def writeSoon(self, writer: Any) -> None:
        """
        Write a piece of a L{hot.SyncedWriter}: here if nothing else is to do, else in its thread.
        """
        self.sockets.writeSoon(writer)

    def sendNow(self) -> None:
        """Send the waiting output of connections, while the caller still has work to do."""
        self.sockets.sendNow()

    def removeReader(self, reader: IReadDescriptor) -> None:
        self.sockets.unwatch(reader.fileno())

    @property
    def trouble(self) -> str:
        """The reason why clients are not served, in a sentence; empty if they are."""
        if not any(reader is self for reader in self._reactor.getReaders()):
            return "the reactor does not watch the connections"
        return "reading and writing connections fails" if self._hasFailed else ""

    def turnLengths(self) -> tuple[list[float], list[int], float]:
        """
        A histogram of turns: upper bounds, cumulated counts with the count of all, and total
        seconds.
        """
        lengths: tuple[list[float], list[int], float] = self.sockets.turnLengths()
        return lengths

    def close(self) -> None:
        """End; there must be no connections any more."""
        with self._lock:
            self._isClosed = True
        for call, args, kwargs in self._calls:
            self._reactor.callFromThread(call, *args, **kwargs)
        self._reactor.removeReader(self)
        self.sockets.unwatch(self._bell)
        os.close(self._bell)
        self.sockets.close()


class PolledServer(tcp.Server):
    """A server's side of a TCP connection whose bytes go through a L{SocketPoller}."""

    # No other process has the descriptor, so closing it is enough, without a shutdown.
    _shouldShutdown = False

    def __init__(self, poller: SocketPoller, *arguments: Any) -> None:
        self._poller = poller
        self._socket: PolledSocket | None = None
        self._session: PolledSession | None = None
        super().__init__(*arguments)

    def attachSession(self, session: PolledSession) -> None:
        self._session = session
        reactor: Any = self.reactor
        self._socket = PolledSocket(
            self._poller.sockets, self.fileno(), session, reactor, self.connectionLost
        )

    def useLane(self, lane: Any) -> None:
        if self._socket is not None:
            self._socket.useLane(lane)

    def startReading(self) -> None:
        if self._socket is not None:
            self._socket.setReading(True)

    def stopReading(self) -> None:
        if self._socket is not None:
            self._socket.setReading(False)

    def startWriting(self) -> None:
        """Nothing to do: the outbox asks for it by itself."""

    def stopWriting(self) -> None:
        """Nothing to do: the outbox asks for it by itself."""

    def write(self, data: bytes) -> None:
        if self._session is not None and self.connected:
            self._session.outbox.write(data)

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """The outbox informs the session itself."""

    def unregisterProducer(self) -> None:
        """Nothing to do, as in L{registerProducer}."""

    def loseConnection(self, _connDone: Failure | None = None) -> None:
        if not self.connected or self.disconnecting:
            return
        self.disconnecting = True
        if self._socket is not None:
            self._socket.finish()
        else:
            reactor: Any = self.reactor
            reactor.callLater(0, self.connectionLost, Failure(main.CONNECTION_DONE))

    def connectionLost(self, reason: Failure) -> None:
        self._session = None
        polled, self._socket = self._socket, None
        if polled is not None:
            polled.forget()
        super().connectionLost(reason)


def installTransport(port: Any, poller: SocketPoller) -> bool:
    """Have a port's later connections use a poller. Return whether it is a plain TCP port."""
    if type(port) is not tcp.Port or not getattr(port.factory, "isPlain", False):
        return False
    acceptor: Any = port
    acceptor.transport = partial(PolledServer, poller)
    return True
