"""
A worker: a broker in a process of its own, whose connections come from its parent. C{python -m
natsbroker.workers.worker} is started by the parent only.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.interfaces import IAddress, IListeningPort, IStreamServerEndpoint
from twisted.internet.tcp import Server
from twisted.logger import Logger, globalLogBeginner
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import hot
from natsbroker.advisories import Advisory, ClientConnected
from natsbroker.broker import Broker
from natsbroker.config.diff import Change
from natsbroker.config.model import Settings
from natsbroker.connections.poller import PolledServer, SocketPoller
from natsbroker.daemon.process import SLICE, FullPasses
from natsbroker.daemon.signals import Signals
from natsbroker.interfaces import IObserver
from natsbroker.runtime.failures import failureReason
from natsbroker.runtime.reload import ReloadError, Step
from natsbroker.workers.channel import (
    Adopt,
    ApplyReload,
    Closed,
    ControlChannel,
    Descriptors,
    DiscardReload,
    Entered,
    Failed,
    Gone,
    PlanReload,
    Ready,
    ReloadPlanned,
    ReloadRefused,
    Start,
    StartLameDuck,
    StopWorker,
)
from natsbroker.workers.lines import WorkerLog
from natsbroker.workers.slots import CHANNEL
from natsbroker.workers.supervisor import serverKeys

_log = Logger(namespace="natsbroker")


def addressAt(host: str, port: int) -> IPv4Address | IPv6Address:
    return (IPv6Address if ":" in host else IPv4Address)("TCP", host, port)


@implementer(IListeningPort)
class ParentsPort:
    """The port at which the parent listens, as a listener of the worker's broker."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def startListening(self) -> None:
        """The parent does."""

    def stopListening(self) -> None:
        """The parent does."""

    def getHost(self) -> IAddress:
        return addressAt(*self._address)


@implementer(IStreamServerEndpoint)
class ParentsEndpoint:
    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def listen(self, protocolFactory: Any) -> Deferred[IListeningPort]:
        return succeed(ParentsPort(self._address))


@implementer(IObserver)
class WorkerProcess:
    def __init__(self, reactor: Any, end: socket.socket, stderr: TextIO) -> None:
        self.exitCode = 0
        self._reactor = reactor
        self._stderr = stderr
        self._channel = ControlChannel(reactor, end, self._received, self.stop)
        self._passes = FullPasses(reactor)
        self._log: WorkerLog | None = None
        self._broker: Broker | None = None
        self._planned: Step | None = None
        self._isStopping = False
        self._handlers: dict[type, Callable[..., None]] = {
            Adopt: self._adopt,
            PlanReload: self._plan,
            ApplyReload: self._apply,
            DiscardReload: self._discard,
            StartLameDuck: self._lameDuck,
        }

    def run(self) -> int:
        if hot.useShortSlices is not None:
            hot.useShortSlices(SLICE)
        # The parent has the terminal's signals too, and says what they mean.
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        signals = Signals(self._reactor, {signal.SIGTERM: self.stop})
        self._reactor.callWhenRunning(signals.install)
        self._reactor.callWhenRunning(self._channel.start)
        self._reactor.run()
        self._passes.stop()
        return self.exitCode

    def _received(self, message: Any, descriptors: Descriptors) -> None:
        if isinstance(message, Start):
            self._start(message)
        elif isinstance(message, StopWorker):
            self.stop()
        elif self._broker is not None and not self._isStopping:
            self._handlers[type(message)](message, *descriptors)
        else:
            for descriptor in descriptors:
                os.close(descriptor)

    def _start(self, start: Start) -> None:
        settings = start.settings
        self._log = WorkerLog(self._stderr, settings.logging)
        globalLogBeginner.beginLoggingTo([self._log], redirectStandardIO=False)
        self._passes.start()
        try:
            broker = self._broker = Broker(
                settings,
                reactor=self._reactor,
                keys=serverKeys(start.secrets),
                endpoints=[ParentsEndpoint(start.address)],
                observers=[self],
            )
            broker.gaveUp = self.stop
            broker.addPlanner(self._planLogging)
            broker.startService()
        except BaseException:
            # The reactor would log it and run on.
            self._giveUp(Failure())
        else:
            gc.freeze()
            gc.enable()
            broker.whenReady().addCallbacks(lambda _: self._ready(), self._giveUp)

    def _ready(self) -> None:
        gc.freeze()
        broker = self._broker
        if broker is not None:
            # After the callbacks of the start, of which the last settles INFO.
            self._reactor.callLater(0, self._sayReady, broker)

    def _sayReady(self, broker: Broker) -> None:
        self._channel.send(Ready(broker.clientContext.info, broker.links.addresses()))

    def _giveUp(self, failure: Failure) -> None:
        self._channel.send(Failed(failureReason(failure)))
        self.exitCode = 1
        self.stop()

    def _planLogging(self, new: Settings, changes: Sequence[Change]) -> Step:
        def apply() -> None:
            if self._log is not None:
                self._log.use(new.logging)

        return apply

    def _adopt(self, message: Adopt, *descriptors: int) -> None:
        broker = self._broker
        if not descriptors or broker is None:
            self._channel.send(Closed(message.cid))
            return
        accepted = socket.socket(fileno=descriptors[0])
        accepted.setblocking(False)
        factory: Any = next(iter(broker.listeners)).factory
        protocol = factory.buildProtocol(addressAt(*message.peer))
        poller = broker.readers
        make: Any = Server
        first: tuple[Any, ...] = ()
        if isinstance(poller, SocketPoller) and factory.isPlain:
            make, first = PolledServer, (poller,)
        lost = protocol.connectionLost

        def ended(reason: Failure) -> None:
            grant = protocol.session.grant
            lost(reason)
            self._channel.send(Closed(message.cid, "" if grant is None else grant.account))

        protocol.connectionLost = ended
        broker.clientContext.connections.nextNumber = lambda: message.cid
        made = make(*first, accepted, protocol, message.peer, None, message.cid, self._reactor)
        protocol.makeConnection(made)

    def observe(self, advisory: Advisory) -> None:
        if isinstance(advisory, ClientConnected):
            self._channel.send(Entered(advisory.cid, advisory.account))

    def _plan(self, message: PlanReload) -> None:
        if self._broker is None:
            return
        try:
            self._planned = self._broker.planReload(message.settings)
        except ReloadError as refused:
            self._channel.send(ReloadRefused(refused.problems))
        else:
            self._channel.send(ReloadPlanned())

    def _apply(self, message: ApplyReload) -> None:
        planned, self._planned = self._planned, None
        if planned is not None and self._broker is not None:
            planned()
            self._sayReady(self._broker)

    def _discard(self, message: DiscardReload) -> None:
        self._planned = None

    def _lameDuck(self, message: StartLameDuck) -> None:
        if self._broker is not None and not self._broker.isLameDuck:
            leaving = self._broker.lameDuck()
            leaving.addErrback(lambda failure: _log.failure("Lame duck mode failed", failure))
            leaving.addCallback(lambda _: self._channel.send(Gone()))

    def stop(self) -> None:
        if not self._isStopping:
            self._isStopping = True
            ensureDeferred(self._stop())

    async def _stop(self) -> None:
        try:
            if self._broker is not None and self._broker.running:
                await self._broker.stopService()
        except Exception:
            _log.failure("The worker did not stop properly")
            self.exitCode = 1
        self._channel.close()
        self._reactor.stop()


def main() -> None:
    # Modules are no garbage. The process enables the collector when it has made the broker.
    gc.disable()
    from twisted.internet import reactor

    end = socket.socket(fileno=CHANNEL)
    end.set_inheritable(False)
    code = WorkerProcess(reactor, end, sys.stderr).run()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
