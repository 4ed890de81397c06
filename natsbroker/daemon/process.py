"""A broker as a whole process: its log, its signals and its exit code, as nats-server has them."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from socket import socket
from typing import Any, TextIO

from twisted.internet.defer import ensureDeferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger, globalLogBeginner
from twisted.python.failure import Failure

from natsbroker import hot
from natsbroker.broker import Broker
from natsbroker.config.model import Settings
from natsbroker.daemon.logs import ProcessLog
from natsbroker.daemon.processfiles import ProcessFiles
from natsbroker.daemon.servicemanager import ServiceManager
from natsbroker.daemon.signals import Signals
from natsbroker.runtime.failures import failureReason
from natsbroker.runtime.process import threadTimes

_log = Logger(namespace="natsbroker")

SLICE = 500_000
"""
The time slice that the broker asks of the scheduler, in nanoseconds. A message gives the broker
less work than that. With the default slice, it would wait on a busy machine for programs that run
for milliseconds.
"""

INTERVAL = 1.0
"""Seconds between two looks at what the broker does."""

IDLE = 0.1
"""Seconds of work in an interval below which the broker has little to do."""

DUE = 100
"""
The number of passes over young objects after which a pass over all objects may come. Each looks at
up to seven thousand new objects.
"""

OVERDUE = 5 * DUE
"""
The number of passes over young objects after which a pass over all objects comes in any case. It
bounds the memory that reference cycles take.
"""

PART = 50
"""The least time of work between passes, as a multiple of the last pass."""

_NEVER = 1 << 30


def busySeconds() -> float:
    """
    The seconds in which this thread worked or waited for a processor. Among busy processes, a
    broker with much to do works little. If the kernel does not provide this, only the working time
    counts.
    """
    return sum(threadTimes())


class FullPasses:
    """
    Passes of Python's garbage collector over all objects, which stop the broker while they last.

    Only long-lived objects in reference cycles need such a pass. The collector itself passes over
    young objects, which takes few milliseconds. A pass over all objects waits for a second with
    little work, or until too much memory could be in use.
    """

    def __init__(self, reactor: Any, worked: Callable[[], float] = busySeconds) -> None:
        self._worked = worked
        self._seen = self._next = 0.0
        self._thresholds = gc.get_threshold()
        self._looking = LoopingCall(self._look)
        self._looking.clock = reactor

    def start(self) -> None:
        gc.set_threshold(*self._thresholds[:2], _NEVER)
        self._looking.start(INTERVAL)

    def stop(self) -> None:
        if self._looking.running:
            self._looking.stop()
            gc.set_threshold(*self._thresholds)

    def _look(self) -> None:
        worked = self._worked()
        isIdle = worked - self._seen < IDLE
        self._seen = worked
        if worked >= self._next and gc.get_count()[2] >= (DUE if isIdle else OVERDUE):
            gc.collect()
            self._seen = self._worked()
            self._next = self._seen + PART * (self._seen - worked)


@dataclass(eq=False)
class ServerProcess:
    """
    @ivar make: makes the broker, or the L{natsbroker.workers.supervisor.Supervisor} of several.
    """

    settings: Settings
    reactor: Any
    stderr: TextIO
    program: str
    read: Callable[[], Settings] | None = None
    warnings: Iterable[str] = ()
    sockets: Mapping[str, socket] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    make: Callable[..., Any] = Broker
    exitCode: int = field(default=0, init=False)
    _broker: Any = field(default=None, init=False)
    _manager: ServiceManager | None = field(default=None, init=False)
    _isStopping: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._passes = FullPasses(self.reactor)
        self._processLog = ProcessLog(self.stderr, self.settings.logging)
        self._signals = Signals(
            self.reactor,
            {
                signal.SIGINT: self.stop,
                signal.SIGTERM: self._terminate,
                signal.SIGHUP: self._reload,
                signal.SIGUSR1: self._processLog.reopen,
                signal.SIGUSR2: self._lameDuck,
                **({} if self.make is Broker else {signal.SIGURG: self._upgrade}),
            },
        )

    def run(self) -> int:
        self._processLog.open()
        globalLogBeginner.beginLoggingTo([self._processLog.observer], redirectStandardIO=False)
        if hot.useShortSlices is not None:
            hot.useShortSlices(SLICE)
        self.reactor.callWhenRunning(self._start)
        self.reactor.run()
        self._passes.stop()
        self._signals.uninstall()
        self._processLog.close()
        return self.exitCode

    def _start(self) -> None:
        self._signals.install()
        # Before clients connect: the stores create many objects when they are read.
        self._passes.start()
        try:
            broker = self._broker = self.make(
                self.settings, reactor=self.reactor, sockets=self.sockets
            )
            broker.gaveUp = self.stop
            broker.addPlanner(self._processLog.plan)
            processFiles = ProcessFiles(broker, self.program, self.read)
            processFiles.setServiceParent(broker)  # type: ignore[no-untyped-call]
            self._manager = ServiceManager(broker, processFiles.reload, self.environment)
            self._manager.setServiceParent(broker)  # type: ignore[no-untyped-call]
            for warning in self.warnings:
                _log.warn("{warning}", warning=warning)
            broker.startService()
        except BaseException:
            # The reactor would log the error and continue, without any listener.
            self._giveUp(Failure())
        else:
            # Collections while stores are read skip the modules and the parts of the broker.
            gc.freeze()
            gc.enable()
            waiting = broker.whenReady()
            # Objects made until now live as long as the process.
            waiting.addCallback(lambda _: gc.freeze())
            waiting.addErrback(self._giveUp)

    def _giveUp(self, failure: Failure) -> None:
        _log.critical("{reason}", reason=failureReason(failure))
        self.exitCode = 1
        self.stop()

    def _reload(self) -> None:
        if self._manager is not None:
            self._manager.reload()

    def _terminate(self) -> None:
        if self._broker is None or not self._broker.isLameDuck:
            self.stop()

    def _lameDuck(self) -> None:
        if self._broker is not None and not self._broker.isLameDuck and not self._isStopping:
            leaving = self._broker.lameDuck()
            leaving.addErrback(lambda failure: _log.failure("Lame duck mode failed", failure))
            leaving.addCallback(lambda _: self.stop())

    def _upgrade(self) -> None:
        if self._broker is not None:
            self._broker.upgrade()

    def stop(self) -> None:
        if not self._isStopping:
            self._isStopping = True
            ensureDeferred(self._stop())

    async def _stop(self) -> None:
        try:
            if self._broker is not None and self._broker.running:
                await self._broker.stopService()
        except Exception:
            _log.failure("The broker did not stop properly")
            self.exitCode = 1
        self.reactor.stop()
