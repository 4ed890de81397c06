"""
Processes of one host in simulated time. Their sockets are the kernel's, UNIX sockets all of them,
so connections on their way from one process to another, and those of a process that dies, are
what they are in an operation. Chance says which process reads or writes next, and when.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, cast

from twisted.internet import tcp, unix
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IReactorTime
from twisted.internet.posixbase import _DisconnectSelectableMixin
from zope.interface import implementer

from natsbroker.testing.simulation.clock import SimulatedClock

__all__ = ["Machine", "ParentsPort", "Process", "Stream"]

_MOMENT = 1e-6
"""The least time that passes at once, in seconds, whatever the rounding."""

_PAUSE = 0.25
"""The seconds between two attempts to make a call of a process that hangs."""


class Stream(tcp.Server):
    """A connection over a pair of sockets, as one over TCP."""

    def setTcpNoDelay(self, enabled: bool) -> None:
        """There is nothing to wait for."""

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "10.0.0.1", 4222)


class ParentsPort:
    """
    A listening port, whose callers wait while nobody accepts.

    @ivar transport: called with what is accepted, see L{natsbroker.workers.acceptor.Acceptor}.
    """

    transport: Any = None
    disconnected = False

    def __init__(self, process: Process, number: int, factory: Any) -> None:
        self._process = process
        self._number = number
        self._factory = factory
        self._isReading = True
        self._callers: list[tuple[socket.socket, int]] = []

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "10.0.0.1", self._number)

    def call(self, number: int) -> socket.socket:
        """
        The caller's end of a connection.

        @param number: the caller's port.
        """
        ours, theirs = socket.socketpair()
        self._callers.append((ours, number))
        self._process.callLater(0, self._soon)
        return theirs

    def startReading(self) -> None:
        self._isReading = True
        self._soon()

    def stopReading(self) -> None:
        self._isReading = False

    def _soon(self) -> None:
        self.doRead()

    def doRead(self) -> None:
        """Accept all."""
        while self._callers and self._isReading:
            accepted, number = self._callers.pop(0)
            place = "10.1.0.1", number
            protocol = self._factory.buildProtocol(IPv4Address("TCP", *place))
            protocol.makeConnection(self.transport(accepted, protocol, place, self, number, None))

    def stopListening(self) -> None:
        self._isReading, self.disconnected = False, True
        for accepted, _ in self._callers:
            accepted.close()
        self._callers.clear()


@implementer(IReactorTime)
class Process:
    """
    The reactor of one process.

    @ivar number: of the worker; 0 for another process.
    @ivar isHung: whether it does nothing for a while.
    @ivar ended: called once with its exit code if it stops by itself.
    """

    running = True

    def __init__(self, machine: Machine, ended: Callable[[int], object] = lambda code: None):
        self.isAlive = True
        self.isHung = False
        self.number = 0
        self.exitCode: Callable[[], int] = lambda: 0
        self.ports: list[ParentsPort] = []
        self._machine = machine
        self._ended = ended
        self._opened: list[Any] = []

    # Time.

    def seconds(self) -> float:
        return self._machine.clock.seconds()

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kw: object
    ) -> Any:
        clock = self._machine.clock

        def run() -> None:
            if self.isHung:
                clock.postpone(made, _PAUSE)
            elif self.isAlive:
                self._machine.current = self
                callable(*args, **kw)

        made = clock.callLater(delay, run)
        return made

    def getDelayedCalls(self) -> Any:
        return self._machine.clock.getDelayedCalls()

    def callWhenRunning(self, callable: Callable[..., Any], *args: object) -> None:
        callable(*args)

    # Sockets.

    def addReader(self, selectable: Any) -> None:
        self._machine.want(self, selectable, select.POLLIN)
        self.note(selectable)

    def addWriter(self, selectable: Any) -> None:
        self._machine.want(self, selectable, select.POLLOUT)
        self.note(selectable)

    def removeReader(self, selectable: Any) -> None:
        self._machine.unwant(self, selectable, select.POLLIN)

    def removeWriter(self, selectable: Any) -> None:
        self._machine.unwant(self, selectable, select.POLLOUT)

    def note(self, selectable: Any) -> None:
        """Remember a socket that is the process's."""
        if selectable not in self._opened:
            self._opened.append(selectable)

    def proceed(self, selectable: Any, isRead: bool) -> None:
        """Have it read or write."""
        self._machine.current = self
        why = selectable.doRead() if isRead else selectable.doWrite()
        if why:
            _DisconnectSelectableMixin._disconnectSelectable(
                cast(_DisconnectSelectableMixin, self), selectable, why, isRead
            )

    def listenTCP(
        self, port: int, factory: Any, backlog: int = 50, interface: str = ""
    ) -> ParentsPort:
        self.ports.append(ParentsPort(self, port, factory))
        return self.ports[-1]

    def listenUNIX(self, address: Any, factory: Any, backlog: int = 50, mode: int = 0o666) -> Any:
        port = unix.Port(address, factory, backlog, mode, cast(Any, self))
        port.startListening()
        return port

    def connectUNIX(
        self, address: Any, factory: Any, timeout: float = 30, checkPID: bool = False
    ) -> Any:
        connector = unix.Connector(address, factory, timeout, cast(Any, self), checkPID)
        connector.connect()
        self.note(connector.transport)
        return connector

    # Life.

    def stop(self) -> None:
        """End by itself."""
        self.die()
        self._ended(self.exitCode())

    def die(self) -> None:
        """End at once, and close everything without another word."""
        self.isAlive = self.isHung = False
        self._machine.forget(self)
        for selectable in self._opened:
            opened = getattr(selectable, "socket", None) or getattr(selectable, "_socket", None)
            if opened is not None:
                opened.close()
        self._opened.clear()


class Machine:
    """
    @ivar latency: the longest time until one of the sockets that are ready is read or written.
    @ivar current: the process that does something, or did so last.
    """

    def __init__(self, clock: SimulatedClock, random: Random) -> None:
        self.clock = clock
        self.latency = 0.001
        self.current: Any = None
        self._random = random
        self._poll = select.poll()
        self._numbers = count()
        # By descriptor: place in the order, process, selectable, and the events that count.
        self._wanted: dict[int, tuple[int, Process, Any, int]] = {}

    def want(self, process: Process, selectable: Any, event: int) -> None:
        descriptor = selectable.fileno()
        known = self._wanted.get(descriptor)
        events = event | (0 if known is None else known[3])
        number = next(self._numbers) if known is None else known[0]
        self._wanted[descriptor] = (number, process, selectable, events)
        self._poll.register(descriptor, events)

    def unwant(self, process: Process, selectable: Any, event: int) -> None:
        for descriptor, (number, owner, known, events) in list(self._wanted.items()):
            if known is not selectable or owner is not process:
                continue
            events &= ~event
            if events:
                self._wanted[descriptor] = (number, process, selectable, events)
                self._poll.register(descriptor, events)
            else:
                del self._wanted[descriptor]
                self._poll.unregister(descriptor)

    def forget(self, process: Process) -> None:
        """Leave the sockets of a process alone."""
        for descriptor, (_, owner, _, _) in list(self._wanted.items()):
            if owner is process:
                del self._wanted[descriptor]
                self._poll.unregister(descriptor)

    def advance(self, amount: float) -> None:
        """Let time pass, in which processes do what they can."""
        clock = self.clock
        end = clock.seconds() + amount
        while clock.seconds() < end:
            ready = self._ready()
            if ready:
                process, selectable, isRead = self._random.choice(ready)
                process.proceed(selectable, isRead)
                clock.advance(self.latency * self._random.random())
            else:
                due = end if clock.due is None else min(clock.due, end)
                clock.advance(max(due - clock.seconds(), _MOMENT))

    def _ready(self) -> list[tuple[Process, Any, bool]]:
        """The sockets that can be read or written, in the order in which they were opened."""
        ready = []
        for descriptor, events in self._poll.poll(0):
            number, process, selectable, wanted = self._wanted[descriptor]
            if process.isHung:
                continue
            isRead = bool(wanted & select.POLLIN and events & ~select.POLLOUT)
            ready.append((number, process, selectable, isRead))
        return [choice[1:] for choice in sorted(ready, key=lambda choice: choice[0])]
