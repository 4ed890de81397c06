"""
A worker: a broker in its own process, whose connections come from its parent. Only the parent
starts C{python -m natsbroker.workers.worker}.
"""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TextIO

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.interfaces import IAddress, IListeningPort, IStreamServerEndpoint
from twisted.logger import Logger, globalLogBeginner
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.advisories import Advisory, ClientConnected, LeafConnected, LeafDisconnected
from natsbroker.broker import Broker
from natsbroker.clients.adoption import Adoption, adopt
from natsbroker.clients.finding import sessionOf
from natsbroker.config.diff import Change
from natsbroker.config.model import Settings
from natsbroker.daemon.process import SLICE, FullPasses
from natsbroker.daemon.signals import Signals
from natsbroker.interfaces import IObserver
from natsbroker.links.hostcluster import HostCluster
from natsbroker.monitoring.answers import PLAIN
from natsbroker.monitoring.slices import Slices
from natsbroker.runtime.failures import failureReason
from natsbroker.runtime.reload import ReloadError, Step
from natsbroker.workers.acceptor import OF_SERVERS
from natsbroker.workers.channel import ControlChannel, Descriptors
from natsbroker.workers.lines import WorkerLog
from natsbroker.workers.messages import (
    CLIENTS,
    Adopt,
    ApplyReload,
    AskServer,
    Closed,
    CloseExcess,
    DiscardReload,
    Entered,
    Failed,
    Gone,
    Heartbeat,
    PageShown,
    PartShown,
    PlanReload,
    Ready,
    ReloadPlanned,
    ReloadRefused,
    RemotesLeft,
    ServerAnswered,
    ShowPage,
    ShowPart,
    Speak,
    Start,
    StartLameDuck,
    StopWorker,
    UseRemotes,
)
from natsbroker.workers.neighbours import GLANCE, Echo, neighboursOf
from natsbroker.workers.parts import Part, partsOf
from natsbroker.workers.slots import CHANNEL
from natsbroker.workers.supervisor import serverKeys

_log = Logger(namespace="natsbroker")


JOINING = 2.0
"""The seconds that a worker waits for routes to the others, one of which may be down."""


@implementer(IListeningPort)
class ParentsPort:
    """
    The port on which the parent listens, as a listener of the worker's broker.

    @ivar factory: the factory of the protocols for its connections.
    """

    def __init__(self, address: tuple[str, int], factory: Any) -> None:
        self._address = address
        self.factory = factory

    def startListening(self) -> None:
        """Nothing to do, because the parent listens."""

    def stopListening(self) -> None:
        """Nothing to do, because the parent listens."""

    def getHost(self) -> IAddress:
        host, port = self._address
        return (IPv6Address if ":" in host else IPv4Address)("TCP", host, port)


@implementer(IStreamServerEndpoint)
class ParentsEndpoint:
    """
    @ivar port: the port; C{None} before the broker listens.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.port: ParentsPort | None = None
        self._address = address

    def listen(self, protocolFactory: Any) -> Deferred[IListeningPort]:
        self.port = ParentsPort(self._address, protocolFactory)
        return succeed(self.port)


@implementer(IObserver)
class WorkerProcess:
    def __init__(self, reactor: Any, end: socket.socket, stderr: TextIO) -> None:
        self.exitCode = 0
        self._reactor = reactor
        self._stderr = stderr
        self._channel = ControlChannel(reactor, end, self._received, self._orphaned)
        self._passes = FullPasses(reactor)
        self._slices = Slices(reactor)
        self._log: WorkerLog | None = None
        self._broker: Broker | None = None
        self._planned: Step | None = None
        self._isStopping = False
        self._directory = ""
        self._isOrphan = False
        self._endpoints: dict[str, ParentsEndpoint] = {}
        self._handlers: dict[type, Callable[..., None]] = {
            Adopt: self._adopt,
            PlanReload: self._plan,
            ApplyReload: self._apply,
            DiscardReload: self._discard,
            StartLameDuck: self._lameDuck,
            CloseExcess: self._closeExcess,
            ShowPage: self._show,
            UseRemotes: self._useRemotes,
            ShowPart: self._showPart,
            ServerAnswered: self._serverAnswered,
            Speak: self._speak,
            Heartbeat: self._channel.send,
        }
        self._isSpeaking = False
        self._numbers = itertools.count(1)
        self._asked: dict[int, Deferred[Any]] = {}
        self._parts: Mapping[str, Part] = {}

    def run(self) -> int:
        if hot.useShortSlices is not None:
            hot.useShortSlices(SLICE)
        # The terminal signals the parent too, which sends messages for them.
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
        self._directory = start.directory
        self._log = WorkerLog(self._stderr, settings.logging)
        globalLogBeginner.beginLoggingTo([self._log], redirectStandardIO=False)
        self._passes.start()
        self._endpoints = {
            listener: ParentsEndpoint(address) for listener, address in start.addresses.items()
        }
        cluster = HostCluster(
            start.directory,
            start.number,
            start.count,
            start.announces,
            self._ask,
            lambda: self._isSpeaking,
        )
        try:
            broker = self._broker = Broker(
                settings,
                reactor=self._reactor,
                keys=serverKeys(start.secrets),
                observers=[self],
                sockets=dict(self._endpoints),
                hostCluster=cluster,
            )
            broker.clientContext.connections.left = self._left
            broker.gaveUp = self.stop
            broker.addPlanner(self._planLogging)
            broker.startService()
        except BaseException:
            # The reactor would only log the exception and continue.
            self._giveUp(Failure())
        else:
            gc.freeze()
            gc.enable()
            opening = broker.whenReady()
            opening.addCallbacks(lambda _: self._opened(start.count - 1), self._giveUp)

    def _opened(self, others: int) -> None:
        gc.freeze()
        if self._broker is not None:
            # Runs after the callbacks of the start, the last of which sets INFO.
            by = self._reactor.seconds() + JOINING
            self._reactor.callLater(0, self._join, self._broker, others, by)

    def _join(self, broker: Broker, others: int, by: float) -> None:
        """Continue when there are routes to the other workers, or at the timeout."""
        if self._isStopping:
            return
        routes = neighboursOf(broker)
        met = {route.remoteId for route in routes}
        if len(met) < others and self._reactor.seconds() < by:
            self._reactor.callLater(GLANCE, self._join, broker, others, by)
            return
        # A worker that answers has received this worker's interest, which was sent before.
        self._beKnown(broker, Echo(routes), self._reactor.seconds() + JOINING)

    def _beKnown(self, broker: Broker, echo: Echo, by: float) -> None:
        """Become ready when the other workers have answered, or at the timeout."""
        if self._isStopping:
            return
        if echo.isAwaited and self._reactor.seconds() < by:
            self._reactor.callLater(GLANCE, self._beKnown, broker, echo, by)
        else:
            self._sayReady(broker)

    def _sayReady(self, broker: Broker) -> None:
        isStreaming = None if broker.streaming is None else broker.streaming.isServing
        info, addresses = broker.clientContext.info, broker.links.addresses()
        self._channel.send(Ready(info, addresses, isStreaming))

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
        broker, port = self._broker, self._endpoints[message.listener].port
        if not descriptors or broker is None or port is None:
            for descriptor in descriptors:
                os.close(descriptor)
            self._channel.send(Closed(message.cid))
            return
        adoption = Adoption(
            message.cid,
            message.nonce if message.isGreeted else None,
            message.waited,
            message.isExcess,
        )
        isOfClients = message.listener == CLIENTS
        adopt(
            self._reactor,
            port.factory,
            broker.readers,
            # Their kind is known, which spares questions to the kernel.
            socket.socket(
                socket.AF_INET6 if ":" in message.peer[0] else socket.AF_INET,
                socket.SOCK_STREAM,
                0,
                fileno=descriptors[0],
            ),
            message.peer,
            message.read,
            None if message.listener in OF_SERVERS else adoption,
            # A WebSocket whose handshake has not ended is no client, whose end would be reported.
            None if isOfClients else partial(self._left, message.cid, ""),
        )

    def _left(self, cid: int, account: str) -> None:
        self._channel.sendSoon(Closed(cid, account))

    def observe(self, advisory: Advisory) -> None:
        if isinstance(advisory, ClientConnected) and self._broker is not None:
            limits = self._broker.accounts.limits(advisory.account)
            entered = Entered(advisory.cid, advisory.account, limits.max_connections)
            self._channel.sendSoon(entered)
        elif isinstance(advisory, LeafConnected) and self._broker is not None:
            limits = self._broker.accounts.limits(advisory.account)
            entered = Entered(advisory.number, advisory.account, limits.max_leafnodes, True)
            self._channel.sendSoon(entered)
        elif isinstance(advisory, LeafDisconnected):
            self._channel.sendSoon(Closed(advisory.number, advisory.account, True))

    def _closeExcess(self, message: CloseExcess) -> None:
        broker = self._broker
        if broker is None:
            return
        if not message.isLeafnode:
            excess: Any = sessionOf(broker.clientContext.connections, message.cid)
        else:
            excess = broker.leafnodes and broker.leafnodes.leafs.numbered(message.cid)
        if excess is not None:
            excess.close(errors.MAX_ACCOUNT_CONNECTIONS)

    def _show(self, message: ShowPage) -> None:
        if self._broker is not None:
            showing = Deferred.fromCoroutine(self._shown(self._broker, message))
            showing.addCallbacks(self._channel.send, self._notShown)

    async def _shown(self, broker: Broker, message: ShowPage) -> PageShown:
        answer = broker.monitoring.answer(message.path, message.query)
        if answer is None:
            return PageShown(message.number, 404, PLAIN, b"404 page not found\n")
        body = b"".join(await self._slices.collect(answer.body))
        return PageShown(message.number, answer.status, answer.contentType, body)

    def _showPart(self, message: ShowPart) -> None:
        if self._broker is None:
            return
        self._parts = self._parts or partsOf(self._broker)
        steps = self._parts[message.name](*message.arguments)
        showing = Deferred.fromCoroutine(self._slices.result(steps))
        showing.addCallback(lambda part: self._channel.send(PartShown(message.number, part)))
        showing.addErrback(self._notShown)

    def _ask(self, method: str, *arguments: Any) -> Deferred[Any]:
        """A request about the whole server, as a L{natsbroker.system.shared.Ask}."""
        number = next(self._numbers)
        asking = self._asked[number] = Deferred()
        self._channel.send(AskServer(number, method, arguments))
        return asking

    def _serverAnswered(self, message: ServerAnswered) -> None:
        self._asked.pop(message.number).callback(message.answer)

    def _speak(self, message: Speak) -> None:
        self._isSpeaking = message.isSpeaking

    def _notShown(self, failure: Failure) -> None:
        """
        Leave a request of the parent without an answer, for which the parent waits a limited time.
        """
        _log.failure("A monitoring page failed", failure)

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

    def _useRemotes(self, message: UseRemotes) -> None:
        if self._broker is not None and self._broker.leafnodes is not None:
            settled = self._broker.leafnodes.useRemotes(message.isDialling)
            if not message.isDialling:
                settled.addCallback(lambda _: self._channel.send(RemotesLeft()))

    def _lameDuck(self, message: StartLameDuck) -> None:
        if self._broker is not None and not self._broker.isLameDuck:
            leaving = self._broker.lameDuck()
            leaving.addErrback(lambda failure: _log.failure("Lame duck mode failed", failure))
            leaving.addCallback(lambda _: self._channel.send(Gone()))

    def _orphaned(self) -> None:
        self._isOrphan = True
        self.stop()

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
        if self._isOrphan and self._directory:
            # A killed parent does not remove the directory. It is empty for the last worker.
            with suppress(OSError):
                os.rmdir(self._directory)
        self._channel.close()
        self._reactor.stop()


def main() -> None:
    # Imported modules are not garbage. The collector is enabled after the broker was made.
    gc.disable()
    from twisted.internet import reactor

    end = socket.socket(fileno=CHANNEL)
    end.set_inheritable(False)
    code = WorkerProcess(reactor, end, sys.stderr).run()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
