"""
The composition root: a broker as one Twisted service.

Promises: everything that a broker needs is introduced to each other here and nowhere else; each
replaceable part is the object that was given, else the plugin that the settings name, else ours.
Must never know: bytes, files, signals, or the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorFDSet, IStreamServerEndpoint
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker import hot
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.model import GLOBAL_ACCOUNT, Settings
from natsbroker.core.account import Bus
from natsbroker.hosting.accounts import AccountRegistry, BuiltInRouter
from natsbroker.hosting.clients import closeAll
from natsbroker.hosting.credentials import authorizerFrom
from natsbroker.hosting.derived import infoFrom, limitsFrom, tracingFrom
from natsbroker.hosting.identity import newServerId
from natsbroker.hosting.listeners import Listeners
from natsbroker.hosting.observers import Observers
from natsbroker.hosting.plugins import Plugins
from natsbroker.hosting.start import announceListener, announceStart
from natsbroker.interfaces import (
    IAuthorizer,
    IBrokerHost,
    IBrokerService,
    IObserver,
    IPublishFilter,
    ISubjectRouter,
)
from natsbroker.net.client import ClientFactory
from natsbroker.net.context import ClientContext
from natsbroker.net.fast import Hub
from natsbroker.net.listen import Listener, addressEndpoint
from natsbroker.wire.values import Kind

__all__ = ["Broker"]

_log = Logger(namespace="natsbroker")


@implementer(IBrokerHost)
class Broker(MultiService):
    """
    A broker. Its child services are those that the settings name or that were given.

    @ivar reactor: for timers and connections.
    @ivar settings: the settings in force.
    @ivar serverId: the broker's id.
    @ivar startTime: when it was made, in seconds since the epoch.
    @ivar accounts: all accounts.
    @ivar clientContext: what client connections share; a connection that is made by hand needs it.
    @ivar listeners: where clients can connect.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        reactor: Any = None,
        authorizer: IAuthorizer | None = None,
        routerFactory: Callable[[str], ISubjectRouter] | None = None,
        services: Sequence[IBrokerService] = (),
        observers: Sequence[IObserver] = (),
        endpoints: Sequence[IStreamServerEndpoint] | None = None,
        plugins: Plugins | None = None,
        random: Random | None = None,
    ) -> None:
        """
        @param settings: what nats-server.conf would say; by default what an empty one says.
        @param reactor: by default the global one.
        @param authorizer: decides who is let in, instead of the settings.
        @param routerFactory: makes the subject router for an account's name.
        @param services: services beside ours.
        @param observers: those who are told what happens.
        @param endpoints: where clients can connect, instead of the settings' address; an empty
            sequence for nowhere.
        @param plugins: where plugins are looked for.
        @param random: for choices and jitter; a seeded one makes them repeatable.
        @raise natsbroker.errors.BrokerError: if a plugin is missing or refuses.
        @raise ValueError: if the settings contradict themselves.
        """
        super().__init__()
        self.reactor = reactor if reactor is not None else _globalReactor()
        self.settings = settings = settings or Settings()
        self.serverId = newServerId()
        self.startTime: float = self.reactor.seconds()
        self._plugins = plugins or Plugins()
        self._observers = Observers(observers)
        self._outcome: Failure | bool | None = None
        self._waiting: list[Deferred[None]] = []
        self._hub: Hub | None = None
        turn = hot.Turn(lambda call: self.reactor.callLater(0, call))
        random = random or Random()
        makeRouter = routerFactory or self._plugins.routerFactory(settings) or self._builtInRouter
        self.accounts = AccountRegistry(turn, makeRouter, random)
        self.accounts.configure(settings)
        self._checks = PasswordChecks(self._inThread)
        chosen = authorizer or self._plugins.authorizer(self, settings)
        self._isDefault = chosen is None
        if chosen is None:
            chosen = authorizerFrom(settings, self._checks)
        verifyObject(IAuthorizer, chosen)
        self.clientContext = ClientContext(
            self.reactor,
            self.accounts,
            chosen,
            infoFrom(settings, self.serverId, settings.host, settings.port, chosen.required),
            limitsFrom(settings),
            turn,
            self._observers.notify,
            random,
        )
        self.clientContext.tracing = tracingFrom(settings)
        self.listeners = Listeners(self._listeners(endpoints))
        for name, service in self._plugins.services(self, settings, services):
            service.setName(name)
            service.setServiceParent(self)

    # What it is made of.

    def _builtInRouter(self, account: str) -> ISubjectRouter:
        return BuiltInRouter(self.settings.max_subject_shapes)

    def _inThread(self, call: Callable[..., bool], *arguments: Any) -> Deferred[bool]:
        pool = self.reactor.getThreadPool()
        return deferToThreadPool(self.reactor, pool, call, *arguments)

    def _listeners(self, endpoints: Sequence[IStreamServerEndpoint] | None) -> list[Listener]:
        if endpoints is None:
            settings = self.settings
            endpoints = [addressEndpoint(self.reactor, settings.host, settings.port)]
        return [Listener(each, ClientFactory(self.clientContext)) for each in endpoints]

    # What it offers.

    def bus(self, account: str = GLOBAL_ACCOUNT) -> Bus:
        """
        See L{IBrokerHost.bus}.
        """
        return self.accounts[account].busFor(Kind.INTERNAL)

    def addFilter(self, account: str, publishFilter: IPublishFilter) -> Callable[[], None]:
        """
        See L{IBrokerHost.addFilter}.
        """
        return self.accounts[account].addFilter(publishFilter)

    def observe(self, observer: IObserver) -> Callable[[], None]:
        """
        See L{IBrokerHost.observe}.
        """
        return self._observers.add(observer)

    def clientAddress(self) -> tuple[str, int]:
        """
        Where clients can connect, as host and port.

        @raise ValueError: if it listens nowhere.
        """
        return self.listeners.firstAddress()

    def whenReady(self) -> Deferred[None]:
        """
        Wait for the broker to listen everywhere.

        @return: fires when it does, or fails with what it could not start for.
        """
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        self._tell()
        return waiting

    # Starting and stopping.

    def startService(self) -> None:
        """
        Start the services, then let clients in.

        @raise StartError: if it is known at once that it cannot listen.
        """
        announceStart(self.settings, self.serverId, self._parts())
        super().startService()
        if hot.COMPILED and self.settings.fast_lane and IReactorFDSet.providedBy(self.reactor):
            self._hub = Hub(self.reactor, self.clientContext.turn)
        opening: Deferred[Any] = self.listeners.open(self._hub)
        opening.addCallback(self._listening)
        isLate = False

        def failed(failure: Failure) -> None:
            self._outcome = failure
            if isLate and not self._waiting:
                _log.critical("{reason}", reason=failure.getErrorMessage())

        opening.addErrback(failed).addCallback(lambda _: self._tell())
        isLate = True
        if isinstance(self._outcome, Failure):
            self._outcome.raiseException()

    def _parts(self) -> list[str]:
        router = self.settings.router.plugin or "built-in"
        authorizer = self.settings.authorization.plugin or "settings"
        if not self._isDefault and not self.settings.authorization.plugin:
            authorizer = type(self.clientContext.authorizer).__name__
        services = ",".join(str(service.name) for service in self) or "none"
        return [f"authorizer={authorizer}", f"router={router}", f"services={services}"]

    def _listening(self, _: Any) -> None:
        context = self.clientContext
        if self.listeners.isOpen:
            host, port = self.clientAddress()
            context.info = infoFrom(
                self.settings, self.serverId, host, port, context.authorizer.required
            )
        for listener in self.listeners:
            announceListener(listener, self.settings)
        _log.info("Server is ready")
        self._outcome = True

    def _tell(self) -> None:
        if self._outcome is None:
            return
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if isinstance(self._outcome, Failure):
                each.errback(self._outcome)
            else:
                each.callback(None)

    @inlineCallbacks
    def stopService(self) -> Any:
        """
        Let nobody in any more, close the clients, then stop the services.

        @return: a Deferred that fires when everything is closed.
        """
        _log.info("Initiating Shutdown...")
        yield self.listeners.close()
        yield closeAll(self.clientContext.connections)
        yield super().stopService()
        if self._hub is not None:
            self._hub.close()
            self._hub = None
        _log.info("Server Exiting..")


def _globalReactor() -> Any:
    from twisted.internet import reactor

    return reactor
