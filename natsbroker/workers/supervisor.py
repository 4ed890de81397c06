"""
The parent of several workers, which are one server. It listens for clients, passes their
connections to workers, and is run like a L{natsbroker.broker.Broker}.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from random import Random
from socket import socket
from typing import TYPE_CHECKING, Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, DeferredList, ensureDeferred, maybeDeferred
from twisted.logger import Logger

from natsbroker import __version__
from natsbroker.advisories import Advisory, LameDuckStarted, ShutdownStarted
from natsbroker.clients.info import ServerInfo
from natsbroker.config.diff import Change
from natsbroker.config.model import Settings
from natsbroker.connections.listener import urlOf
from natsbroker.connections.tlscontext import pagesCreatorFrom
from natsbroker.errors import BrokerError
from natsbroker.interfaces import IObserver
from natsbroker.monitoring.service import MonitoringService
from natsbroker.runtime.failures import StartError
from natsbroker.runtime.loops import currentReactor, requireRunning
from natsbroker.runtime.observers import Observers
from natsbroker.runtime.process import processesOf
from natsbroker.runtime.readiness import Readiness
from natsbroker.runtime.reload import (
    LIFE,
    Planner,
    ReloadError,
    Step,
    heldBack,
    logChanges,
    logHeldBack,
    nothing,
    plan,
    settled,
)
from natsbroker.server.identity import KEY_SIZE, ServerKeys, serverDescriber
from natsbroker.server.info import infoFrom, listeningAt
from natsbroker.server.start import (
    announceListener,
    announceStart,
    announceStreaming,
    giveReason,
)
from natsbroker.workers.acceptor import Acceptor
from natsbroker.workers.lines import relay
from natsbroker.workers.listeners import ParentListeners, withPorts
from natsbroker.workers.messages import (
    CLIENTS,
    ApplyReload,
    AskServer,
    CloseExcess,
    DiscardReload,
    Entered,
    PlanReload,
    ServerAnswered,
    Speak,
    Start,
)
from natsbroker.workers.pages import WorkerPages
from natsbroker.workers.questions import PATIENCE, WorkerQuestions
from natsbroker.workers.remotes import RemotePlace
from natsbroker.workers.settings import refusals, sharesRemotes, workerSettings
from natsbroker.workers.slots import WorkerSlot, spawnWorker

if TYPE_CHECKING:
    from natsbroker.system.answers import SystemAnswers

_log = Logger(namespace=LIFE)


class _Reload:
    """New settings whose check by the workers is under way."""

    def __init__(
        self, settings: Settings, changes: list[Change], held: list[Change], apply: Step
    ) -> None:
        self.settings = settings
        self.changes = changes
        self.held = held
        self.apply = apply
        self.waiting: set[WorkerSlot] = set()
        self.problems: dict[str, None] = {}


class Supervisor(MultiService):
    """
    A server of several workers.

    @ivar gaveUp: called when the server cannot continue.
    @ivar slots: the slots of the workers, by number from 1.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        reactor: Any = None,
        sockets: Mapping[str, socket] | None = None,
        spawn: Callable[..., tuple[Any, socket]] = spawnWorker,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reactor = reactor if reactor is not None else currentReactor()
        self.settings = settings
        self.gaveUp: Callable[[], object] = self.stopService
        self._secrets = random(KEY_SIZE), random(KEY_SIZE)
        self.keys = serverKeys(self._secrets)
        self._sockets = dict(sockets or {})
        self._readiness = Readiness(giveReason)
        self._observers = Observers()
        self._planners: list[Planner] = []
        self._reload: _Reload | None = None
        self._directory = ""
        self._addresses: dict[str, tuple[str, int]] = {}
        self._isLameDuck = self._isStopping = self._isUpgrading = False
        self._opened: Deferred[None] = Deferred()
        count = processesOf(settings.workers)
        self.slots = [
            WorkerSlot(number, self, self.reactor, self._line, spawn)
            for number in range(1, count + 1)
        ]
        self._remotes = RemotePlace(self.slots)
        self.acceptor = Acceptor(self.reactor, self.slots, settings)
        self._questions = WorkerQuestions(self.reactor, self.slots)
        self._model = WorkerPages(
            lambda: self.settings, self._info, self.reactor, self._questions, len(self.slots)
        )
        self._answers = cache(self._makeAnswers)
        self._speaker: WorkerSlot | None = None
        self._reloadFile: Callable[[], Sequence[str]] = tuple
        self._pages = self._makePages(settings)
        self._listeners = ParentListeners(self.reactor, settings, self.acceptor, self._sockets)

    def _makePages(self, settings: Settings) -> MonitoringService | None:
        if not (settings.monitoring.http_port or settings.monitoring.https_port):
            return None
        creator = None if settings.tls is None else pagesCreatorFrom(settings.tls)
        opened = self._sockets.get("monitoring")
        pages = MonitoringService(self.reactor, self._model, settings, creator, opened)
        pages.setServiceParent(self)  # type: ignore[no-untyped-call]
        return pages

    # The methods of a broker

    def addresses(self) -> dict[str, list[str]]:
        urls = self._listeners.urls(self.settings)
        pages = self._pages
        if pages is not None and pages.address is not None:
            urls["monitoring"] = [urlOf(pages.scheme, pages.address)]
        own: dict[str, list[str]] = {}
        for slot in self.slots:
            for kind, others in slot.addresses.items():
                own[kind] = [*own.get(kind, ()), *others]
        return {**own, **urls}

    def whenReady(self) -> Deferred[None]:
        return self._readiness.wait()

    def observe(self, observer: IObserver) -> Callable[[], None]:
        return self._observers.add(observer)

    def addPlanner(self, planner: Planner) -> None:
        self._planners.append(planner)

    def useReload(self, reloadFile: Callable[[], Sequence[str]]) -> None:
        self._reloadFile = reloadFile

    @property
    def isLameDuck(self) -> bool:
        return self._isLameDuck

    def startService(self) -> None:
        requireRunning(self.reactor)
        announceStart(self.settings, self.keys.id, {"workers": str(len(self.slots))})
        super().startService()  # type: ignore[no-untyped-call]
        opening = ensureDeferred(self._open())
        opening.addCallbacks(self._announce, self._readiness.failed)
        self._readiness.raiseFailure()

    async def _open(self) -> None:
        await self._listeners.open()
        self._addresses = self._listeners.addresses()
        host, port = self._addresses[CLIENTS]
        self.settings = replace(
            withPorts(self.settings, self._addresses),
            host=host,
            port=port,
            monitoring=listeningAt(self.settings.monitoring, self._pages),
        )
        self._directory = tempfile.mkdtemp(prefix="natsbroker-")
        for slot in self.slots:
            slot.begin()
        await self._opened
        if not (self._isStopping or self._isLameDuck):
            await self._listeners.openLater()

    def _announce(self, _: None) -> None:
        # Callers that waited act before the last line, on whose readers their effects rely.
        self._readiness.reached()
        announceListener(self._listeners.clients, self.settings, self._info().auth_required)
        _log.info("Server is ready")
        for slot in self.slots:
            if slot.isStreaming is not None:
                announceStreaming(slot.isStreaming)

    def stopService(self) -> Deferred[None]:
        _log.info("Initiating Shutdown...")
        self._isStopping = True
        return ensureDeferred(self._stop())

    async def _stop(self) -> None:
        self._notify(ShutdownStarted())
        await self._listeners.close()
        self.acceptor.close()
        await self._announceInSystem(ShutdownStarted())
        await DeferredList([slot.stop() for slot in self.slots])
        await super().stopService()  # type: ignore[no-untyped-call]
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)
        _log.info("Server Exiting..")

    def _notify(self, advisory: Advisory) -> None:
        self._observers.notify(advisory)

    def lameDuck(self) -> Deferred[None]:
        """
        Refuse new clients, and close the connections of others a few at a time.

        @return: fires when the last one is closed.
        """
        if self._isLameDuck:
            raise BrokerError("the broker is a lame duck already")
        _log.info("Entering lame duck mode, stop accepting new clients")
        self._isLameDuck = True
        self._notify(LameDuckStarted())
        return ensureDeferred(self._leave())

    async def _leave(self) -> None:
        await self._listeners.close()
        self.acceptor.close()
        await self._announceInSystem(LameDuckStarted())
        closing = self.reactor.callLater(self.settings.lame_duck_grace_period, self._sayClosing)
        await DeferredList([slot.leave() for slot in self.slots])
        if closing.active():
            closing.cancel()

    def _sayClosing(self) -> None:
        _log.info("Closing existing clients")

    # One server

    def _info(self) -> ServerInfo:
        """The INFO of the first worker that is ready."""
        known = (slot.info for slot in self.slots if slot.info is not None)
        settings = self.settings
        return next(known, None) or infoFrom(
            settings, self.keys.id, settings.host, settings.port, False
        )

    def _makeAnswers(self) -> SystemAnswers:
        from natsbroker.system.answers import ServerActions, SystemAnswers

        seconds = self.reactor.seconds
        describe = serverDescriber(self._info, seconds, lambda: self.settings, isShared=True)
        actions = ServerActions(
            partial(self._anyOf, "kick"), partial(self._anyOf, "leave"), lambda: self._reloadFile()
        )
        return SystemAnswers(describe, self._model, self.reactor, actions, Random())

    def _anyOf(self, action: str, cid: int) -> Deferred[bool]:
        """Call a method of the worker that has a connection; false if no worker has it."""
        asking = self._questions.parts(action, cid)
        return asking.addCallback(lambda done: any(done.values()))

    def asked(self, slot: WorkerSlot, question: AskServer) -> None:
        """Answer a worker's request about the whole server."""
        answering = maybeDeferred(getattr(self._answers(), question.method), *question.arguments)
        answering.addErrback(lambda why: _log.failure("No answer about the server", why))
        answering.addCallback(lambda answer: slot.send(ServerAnswered(question.number, answer)))

    def told(self, slot: WorkerSlot, number: int, answer: Any) -> None:
        self._questions.answered(slot, number, answer)

    def leaving(self, slot: WorkerSlot) -> None:
        self._chooseSpeaker()

    def _chooseSpeaker(self) -> None:
        """
        Make the first worker that is ready speak for the server, and no other. If all are in lame
        duck mode, the first of them does.
        """
        there = [slot for slot in self.slots if slot.info is not None]
        before = self._speaker
        self._speaker = min(there, key=lambda slot: not slot.isReady, default=None)
        if self._speaker is not before:
            for slot in self.slots:
                slot.send(Speak(slot is self._speaker))

    def _announceInSystem(self, advisory: Advisory) -> Deferred[Any]:
        """Publish an event of the server once, before its workers act."""
        speaker = [] if self._speaker is None else [self._speaker]
        return self._questions.parts("announce", advisory, of=speaker)

    # Reloads

    def reload(self, settings: Settings) -> None:
        """
        Apply new settings in all workers, or in none: each is asked first. The outcome is logged.

        @raise natsbroker.runtime.reload.ReloadError: if the parent cannot apply the settings.
        """
        if self._reload is not None:
            raise ReloadError(["another reload is under way"])
        problems = [*refusals(settings), *self._listeners.problems(settings)]
        if problems:
            raise ReloadError(problems)
        settings, held = heldBack(self.settings, settings)
        new = withPorts(settled(self.settings, settings), self._addresses)
        planners = [*self._planners, self._planPages]
        changes, apply = plan(self.settings, new, planners)
        self._reload = _Reload(new, changes, held, apply)
        self.reactor.callLater(PATIENCE, self._sayAwaited, self._reload)
        for slot in self.slots:
            if slot.isReady:
                self._reload.waiting.add(slot)
                slot.send(PlanReload(self._settingsOf(slot, new)))
        self._settleReload()

    def _sayAwaited(self, reload: _Reload) -> None:
        if reload is self._reload:
            numbers = ", ".join(sorted(str(slot.number) for slot in reload.waiting))
            _log.warn("The reload waits for worker {numbers}", numbers=numbers)

    def _planPages(self, new: Settings, changes: Sequence[Change]) -> Step:
        pages = self._pages
        if pages is None or new.tls is None:
            return nothing
        return partial(pages.useCreator, pagesCreatorFrom(new.tls))

    def answered(self, slot: WorkerSlot, problems: Sequence[str]) -> None:
        if self._reload is not None and slot in self._reload.waiting:
            self._reload.problems.update(dict.fromkeys(problems))
            self._reload.waiting.discard(slot)
            self._settleReload()

    def _settleReload(self) -> None:
        """End a reload when all workers have answered, except those that ended meanwhile."""
        reload = self._reload
        if reload is None or reload.waiting:
            return
        self._reload = None
        if reload.problems:
            self._sendAll(DiscardReload())
            for problem in reload.problems:
                _log.error("Failed to reload server configuration: {problem}", problem=problem)
            return
        self._sendAll(ApplyReload())
        self.settings = reload.settings
        self._placeRemotes()
        self.acceptor.use(reload.settings)
        reload.apply()
        logChanges(reload.changes, reload.settings)
        logHeldBack(reload.held)

    def _sendAll(self, message: object) -> None:
        for slot in self.slots:
            if slot.isReady:
                slot.send(message)

    # Upgrades

    def upgrade(self) -> None:
        """Restart the workers one after another, each after its connections have left."""
        if self._isUpgrading or self._isStopping or self._isLameDuck:
            _log.warn("No upgrade now: another is under way, or the server ends")
            return
        self._isUpgrading = True
        upgrading = ensureDeferred(self._upgrade())
        upgrading.addErrback(lambda failure: _log.failure("The upgrade failed", failure))

    async def _upgrade(self) -> None:
        count = len(self.slots)
        for slot in self.slots:
            _log.info("Upgrading worker {number} of {count}", number=slot.number, count=count)
            leaving = slot.leave()
            self._placeRemotes()
            await leaving
            await slot.stop()
            if self._isStopping or self._isLameDuck:
                break
            slot.begin()
            if not await slot.whenDecided():
                _log.error("The upgrade ends early: worker {n} does not start", n=slot.number)
                break
            version = "" if slot.info is None else slot.info.natsbroker
            _log.info(
                "Worker {number} is of version {version}", number=slot.number, version=version
            )
        else:
            _log.info(
                "Upgraded {count} workers; this parent is of {ours}", count=count, ours=__version__
            )
        self._isUpgrading = False

    # The slots

    def startOf(self, slot: WorkerSlot) -> Start:
        return Start(
            slot.number,
            len(self.slots),
            self._settingsOf(slot, self.settings),
            self._secrets,
            self._directory,
            self._addresses,
            slot is self.slots[0] and self._readiness.outcome is None,
        )

    def _settingsOf(self, slot: WorkerSlot, settings: Settings) -> Settings:
        return workerSettings(settings, slot.number, self._addresses)

    def _line(self, slot: WorkerSlot, line: str) -> None:
        relay(line, slot.number)

    def ready(self, slot: WorkerSlot) -> None:
        start = slot.start
        if start is not None and start.settings != self._settingsOf(slot, self.settings):
            # A reload was applied while it started.
            ensureDeferred(self._renew(slot))
            return
        self._chooseSpeaker()
        if self._readiness.outcome is None:
            if all(slot.isReady for slot in self.slots) and not self._opened.called:
                self._opened.callback(None)
        else:
            _log.info("Worker {number} is ready", number=slot.number)
        self.acceptor.changed()
        self._placeRemotes()

    def entered(self, slot: WorkerSlot, client: Entered) -> None:
        """Close a new connection if its account has too many of its kind."""
        members = 0
        for other in self.slots:
            load = other.leafnodes if client.isLeafnode else other.connections
            members += load.membersOf(client.account)
        if 0 <= client.maximum < members:
            slot.send(CloseExcess(client.cid, client.isLeafnode))

    async def _renew(self, slot: WorkerSlot) -> None:
        await slot.stop()
        if not (self._isStopping or self._isLameDuck):
            slot.begin()

    def _placeRemotes(self) -> None:
        if sharesRemotes(self.settings) and not (self._isStopping or self._isLameDuck):
            self._remotes.place()

    def remotesLeft(self, slot: WorkerSlot) -> None:
        self._remotes.left(slot)
        self._placeRemotes()

    def ended(self, slot: WorkerSlot, why: str) -> bool:
        self.acceptor.changed()
        self.remotesLeft(slot)
        self._questions.ended(slot)
        self._chooseSpeaker()
        if self._reload is not None:
            self._reload.waiting.discard(slot)
            self._settleReload()
        if self._isStopping or self._isLameDuck:
            return False
        if self._readiness.outcome is None:
            if not self._opened.called:
                self._opened.errback(StartError(f"worker {slot.number}: {why}"))
            return False
        return True


def serverKeys(secrets: tuple[bytes, bytes]) -> ServerKeys:
    """The keys of a server, which are the same in all its processes."""
    given = iter(secrets)
    return ServerKeys(lambda size: next(given))
