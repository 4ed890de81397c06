"""
The broker as one Twisted service.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred
from twisted.internet.interfaces import IReactorFDSet, IReactorThreads, IStreamServerEndpoint
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.accounts.account import Bus
from natsbroker.accounts.registry import AccountRegistry
from natsbroker.advisories import LameDuckStarted, Reloaded, ShutdownStarted
from natsbroker.clients.context import ClientContext
from natsbroker.clients.finding import closeAll
from natsbroker.clients.listeners import Listeners
from natsbroker.clients.protocol import ClientFactory
from natsbroker.config.model import GLOBAL_ACCOUNT, Settings
from natsbroker.connections.listener import Opened
from natsbroker.connections.poller import SocketPoller
from natsbroker.connections.turns import Turns
from natsbroker.interfaces import IBrokerHost, IObserver, IPublishFilter, IReadiness
from natsbroker.interfaces.providers import requireSeveral
from natsbroker.links.hostcluster import HostCluster
from natsbroker.links.services import Links
from natsbroker.runtime.loops import currentReactor, requireRunning
from natsbroker.runtime.plugins import Plugins
from natsbroker.runtime.readiness import Readiness
from natsbroker.runtime.reload import (
    LIFE,
    Planner,
    ReloadError,
    Step,
    heldBack,
    logChanges,
    logHeldBack,
    plan,
    settled,
)
from natsbroker.server.builtin import withBuiltIn
from natsbroker.server.choices import Replacements
from natsbroker.server.composition import BrokerParts, withOperators
from natsbroker.server.identity import ServerKeys, serverIdentity
from natsbroker.server.lameduck import LameDuck
from natsbroker.server.start import (
    announceListener,
    announceStart,
    announceStreaming,
    giveReason,
)
from natsbroker.wire.values import Kind

if TYPE_CHECKING:
    from natsbroker.clients.dialect import DialectFactory
    from natsbroker.config.tls import TLSSettings
    from natsbroker.gateways.service import GatewayService
    from natsbroker.leafnodes.service import LeafnodeService
    from natsbroker.ocsp.desk import OCSPDesk
    from natsbroker.routes.service import RouteService
    from natsbroker.server.configuration.build import Built
    from natsbroker.streaming.monitoring import StreamingModel
    from natsbroker.system.answers import ServerActions
    from natsbroker.system.pages import ServerPages
    from natsbroker.system.status import StatusReports

_log = Logger(namespace=LIFE)


@implementer(IBrokerHost)
class Broker(MultiService):
    """
    A broker. The monitoring pages and the services that it is given are its child services.

    @ivar startTime: when it was made, in seconds since the epoch.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        reactor: Any = None,
        authorizer: Any = None,
        accountResolver: Any = None,
        routerFactory: Callable[[str], Any] | None = None,
        services: Sequence[Any] = (),
        observers: Sequence[Any] = (),
        endpoints: Sequence[str | IStreamServerEndpoint] | None = None,
        plugins: Plugins | None = None,
        random: Random | None = None,
        keys: ServerKeys | None = None,
        gatewayPolicy: Any = None,
        connectionKinds: Sequence[Any] = (),
        sockets: Mapping[str, Opened] | None = None,
        hostCluster: HostCluster | None = None,
    ) -> None:
        """
        Providers of an interface are annotated as C{Any}, because type checkers without
        C{mypy-zope} do not know which class provides which interface.

        @param settings: by default those of an empty configuration file; L{fromFile} and
            L{fromText} read them.
        @param reactor: by default the global one. In a coroutine under asyncio, the default is one
            on the running loop, which L{natsbroker.embedding.serving} starts.
        @param authorizer: an L{natsbroker.interfaces.IAuthorizer}, or an
            L{natsbroker.interfaces.IAuthorizerPlugin} that makes one, instead of the settings'. An
            authorizer that is a service is started and stopped with the broker.
        @param accountResolver: in operator mode, an L{natsbroker.interfaces.IAccountResolver}
            instead of the C{resolver} of the settings.
        @param routerFactory: makes an L{natsbroker.interfaces.ISubjectRouter} for an account.
        @param services: further services, each an L{natsbroker.interfaces.IBrokerService}.
        @param observers: receivers of advisories, each an L{natsbroker.interfaces.IObserver}.
        @param endpoints: for clients, as descriptions (C{tcp:4222}) or objects, instead of the
            settings' address; an empty sequence for none.
        @param random: for choices and jitter; a seeded one makes them repeatable.
        @param gatewayPolicy: an L{natsbroker.interfaces.IGatewayInterestPolicy}, or an
            L{natsbroker.interfaces.IGatewayPolicyPlugin} that makes one, instead of the settings'.
        @param connectionKinds: further kinds of connection, each an
            L{natsbroker.interfaces.IConnectionKind}.
        @param sockets: sockets that already listen at the settings' addresses, by their use:
            C{client}, C{monitoring}, C{cluster}, C{gateway}, C{leafnodes} or C{websocket}. An
            endpoint stands for a socket of another process, which gives this broker its
            connections.
        @param hostCluster: brokers on this machine, with the same keys and settings, that are one
            server with this one.
        @raise natsbroker.errors.BrokerError: if a plugin is missing or refuses.
        @raise ValueError: if the settings contradict themselves, or a certificate cannot be used.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        settings = Settings() if settings is None else settings
        requireSettings(settings)
        requireSeveral(services=services, observers=observers, connectionKinds=connectionKinds)
        if endpoints is not None:
            requireSeveral(endpoints=endpoints)
        self.reactor = reactor if reactor is not None else currentReactor()
        self._hasResolver = accountResolver is not None
        self._ocsp: OCSPDesk | None = None
        self.gaveUp: Callable[[], object] = self.stopService
        self.settings = self._withOCSP(withOperators(settings, self._hasResolver))
        self.keys = keys or ServerKeys()
        self.startTime: float = self.reactor.seconds()
        self._random = random or Random()
        self._lameDuck: LameDuck | None = None
        self._readiness = Readiness(giveReason)
        given = Replacements(
            authorizer=authorizer,
            accountResolver=accountResolver,
            routerFactory=routerFactory,
            services=tuple(services),
            observers=tuple(observers),
            endpoints=endpoints,
            gatewayPolicy=gatewayPolicy,
            connectionKinds=tuple(connectionKinds),
            sockets=sockets or {},
            hostCluster=hostCluster,
        )
        self._parts = BrokerParts(
            self, self.settings, self.keys, self._random, withBuiltIn(plugins or Plugins()), given
        )
        # Plugins use the broker while its parts are made.
        self._parts.make()
        self._planners = self._parts.planners()

    @classmethod
    def fromFile(cls, path: str | os.PathLike[str], **parts: Any) -> Broker:
        """
        @param path: of a configuration file; C{$NAME} in it can be an environment variable.
        @param parts: further arguments of L{Broker}.
        @raise natsbroker.config.errors.ConfigErrors: with all errors of the file.
        """
        from natsbroker.server.configuration.build import buildFile

        return cls(_loaded(buildFile(os.fspath(path), os.environ)), **parts)

    @classmethod
    def fromText(cls, text: str, **parts: Any) -> Broker:
        """
        @param text: a configuration, in the language of the file. The other parameters are those of
            L{fromFile}.
        """
        from natsbroker.server.configuration.build import buildText

        return cls(_loaded(buildText(text, os.environ)), **parts)

    @property
    def serverId(self) -> str:
        return self.keys.id

    @property
    def accounts(self) -> AccountRegistry:
        return self._parts.accounts

    @property
    def clientContext(self) -> ClientContext:
        """The context that client connections share. A connection that is made by hand needs it."""
        return self._parts.clients

    @property
    def listeners(self) -> Listeners:
        return self._parts.listeners

    @property
    def links(self) -> Links:
        return self._parts.links

    @property
    def streaming(self) -> StreamingModel | None:
        return self._parts.streaming

    @property
    def monitoring(self) -> ServerPages:
        return self._parts.monitoring()

    @property
    def actions(self) -> ServerActions:
        """The actions that requests to the system account may ask for."""
        return self._parts.actions()

    @property
    def status(self) -> StatusReports | None:
        """The reports of the system account; C{None} without one."""
        return self._parts.status

    @property
    def membership(self) -> RouteService | None:
        membership: RouteService | None = self.links.find("route")
        return membership

    @property
    def leafnodes(self) -> LeafnodeService | None:
        leafnodes: LeafnodeService | None = self.links.find("leaf")
        return leafnodes

    @property
    def gateways(self) -> GatewayService | None:
        gateways: GatewayService | None = self.links.find("gateway")
        return gateways

    # IBrokerHost

    def bus(self, account: str = GLOBAL_ACCOUNT, isLocal: bool = False) -> Bus:
        return self._parts.bus(account, Kind.LOCAL if isLocal else Kind.INTERNAL)

    def watchAccounts(self, watcher: Callable[[Bus], None]) -> None:
        self.accounts.watch(lambda account: watcher(account.busFor(Kind.INTERNAL)))

    def describe(self) -> Mapping[str, Any]:
        return serverIdentity(self.clientContext.info, self.settings.server_tags)

    @property
    def turns(self) -> Turns:
        return self._parts.turns

    def addFilter(self, account: str, publishFilter: IPublishFilter) -> Callable[[], None]:
        return self.accounts[account].delivery.filters.add(publishFilter)

    def observe(self, observer: IObserver) -> Callable[[], None]:
        return self._parts.observers.add(observer)

    def clientFactory(
        self,
        makeDialect: Callable[[Any], Any],
        connectionType: str,
        overlay: Callable[[Settings], Settings] | None = None,
        tls: TLSSettings | None = None,
    ) -> DialectFactory:
        from natsbroker.clients.dialect import DialectFactory

        return DialectFactory(
            self.clientContext,
            makeDialect,
            connectionType,
            overlay,
            tls,
            self._parts.authority.made,
        )

    def inProcessFactory(self) -> ClientFactory:
        """
        A factory for the broker's side of connections that come from inside this process, over a
        transport without a socket; see L{natsbroker.client.connecting.connectInProcess}.
        """
        return ClientFactory(self.clientContext, "IN_PROCESS")

    def clientAddress(self) -> tuple[str, int]:
        return self.listeners.firstAddress()

    def addresses(self) -> dict[str, list[str]]:
        """
        @return: URLs of its listeners by their kind: C{nats}, C{monitoring}, C{cluster},
            C{leafnodes} and C{gateway}.
        """
        return self._parts.publisher.addresses()

    @property
    def readers(self) -> Any:
        """The poller of the clients, which sends answers at once; the reactor without a poller."""
        return self._parts.poller or self.reactor

    def whenReady(self) -> Deferred[None]:
        return self._readiness.wait()

    def startService(self) -> None:
        requireRunning(self.reactor)
        announceStart(self.settings, self.serverId, self._parts.choices())
        if hot.COMPILED and self.settings.fast_lane and IReactorFDSet.providedBy(self.reactor):
            self._parts.poller = SocketPoller(self.reactor, self.clientContext.batch)
            self.links.usePoller(self._parts.poller)
        if IReactorThreads.providedBy(self.reactor):
            self._parts.watchdog.setServiceParent(self)  # type: ignore[no-untyped-call]
        super().startService()  # type: ignore[no-untyped-call]
        opening = ensureDeferred(self._open())
        opening.addCallbacks(self._opened, self._readiness.failed)
        self._readiness.raiseFailure()

    async def _open(self) -> None:
        parts: list[Any] = [self._parts.authority.chosen, *self._parts.services.values()]
        for part in parts:
            if IReadiness.providedBy(part):
                await part.whenPrepared()
        if self._ocsp is not None:
            await self._ocsp.open()
        await self.listeners.open(self._parts.poller)
        self.settings = self._parts.publisher.inUse(self.settings)
        self._parts.settingsLoaded(self.settings)
        await self.links.open(self.settings)
        self._parts.publisher.refresh(self.settings, self.isLameDuck)

    def _opened(self, _: None) -> None:
        # Callers that waited for readiness act before the last line, which their readers can rely
        # on.
        self._readiness.reached()
        required = self.clientContext.authorizer.required
        for listener in self.listeners:
            announceListener(listener, self.settings, required)
        self.links.announce()
        _log.info("Server is ready")
        if self.streaming is not None:
            announceStreaming(self.streaming.isServing)

    def useReload(self, reloadFile: Callable[[], Sequence[str]]) -> None:
        """
        @param reloadFile: reads the configuration file again, and returns the problems that prevent
            a reload.
        """
        self._parts.reloadFile = reloadFile

    def addPlanner(self, planner: Planner) -> None:
        self._planners.append(planner)

    def reload(self, settings: Settings) -> None:
        """
        Put other settings into force, all of them or none. JetStream begins, ends and moves only
        with the next start.

        @raise natsbroker.runtime.reload.ReloadError: if they cannot be taken; nothing has changed.
        """
        self.planReload(settings)()

    def planReload(self, settings: Settings) -> Step:
        """
        Check other settings against those in force.

        @return: a callable that puts them into force and cannot fail. Call it before other settings
            are planned.
        @raise natsbroker.runtime.reload.ReloadError: if they cannot be taken.
        """
        try:
            settings = withOperators(settings, self._hasResolver)
        except ValueError as error:
            raise ReloadError([str(error)]) from error
        settings, held = heldBack(self.settings, self._withOCSP(settings))
        new = settled(self.settings, settings, self._parts.isElsewhere)
        changes, apply = plan(self.settings, new, self._planners)

        def putIntoForce() -> None:
            self.settings = new
            apply()
            self._parts.publisher.refresh(new, self.isLameDuck)
            self._parts.settingsLoaded(new)
            logChanges(changes, new)
            logHeldBack(held)
            self._parts.observers.notify(Reloaded(tuple(change.path for change in changes)))

        return putIntoForce

    def _withOCSP(self, settings: Settings) -> Settings:
        if self._ocsp is None and settings.usesTLS:
            from natsbroker.ocsp.desk import OCSPDesk

            self._ocsp = OCSPDesk(self.reactor, settings, lambda: self.gaveUp())
        return settings if self._ocsp is None else self._ocsp.within(settings)

    def lameDuck(self) -> Deferred[None]:
        """
        Refuse new clients, and close the others a few at a time; see C{lame_duck_duration}.

        @return: fires when the last one is closed, or the service is stopped.
        """
        if self._lameDuck is not None:
            raise errors.BrokerError("the broker is a lame duck already")
        _log.info("Entering lame duck mode, stop accepting new clients")
        self._lameDuck = LameDuck(self.clientContext, self.settings, self._random)
        self._parts.observers.notify(LameDuckStarted())
        return ensureDeferred(self._leave(self._lameDuck))

    async def _leave(self, lameDuck: LameDuck) -> None:
        await self.listeners.close()
        self.links.leave()
        await lameDuck.depart(self.links.clientInfo().get("connect_urls", ()))

    @property
    def isLameDuck(self) -> bool:
        return self._lameDuck is not None

    def stopService(self) -> Deferred[None]:
        _log.info("Initiating Shutdown...")
        if self._lameDuck is not None:
            self._lameDuck.cancel()
        return ensureDeferred(self._stop())

    async def _stop(self) -> None:
        self._parts.observers.notify(ShutdownStarted())
        self.turns.stop()
        await self.listeners.close()
        await self.links.stopListening()
        jetstream = self._parts.services.pop("jetstream", None)
        if jetstream is not None:
            # First of all: waiting pull requests get their status while their clients are still
            # connected.
            await maybeDeferred(jetstream.disownServiceParent)
        await closeAll(self.clientContext.connections)
        await self.links.close()
        if self._ocsp is not None:
            self._ocsp.close()
        await super().stopService()  # type: ignore[no-untyped-call]
        self.accounts.close()
        if self._parts.poller is not None:
            self._parts.poller.close()
            self._parts.poller = None
        _log.info("Server Exiting..")


def requireSettings(given: object) -> None:
    """
    @raise TypeError: for something else than settings.
    """
    if not isinstance(given, Settings):
        kind = type(given).__name__
        raise TypeError(
            f"the settings are of type {kind}, not natsbroker.config.model.Settings; to read them,"
            " use Broker.fromFile(path) or Broker.fromText(text)"
        )


def _loaded(built: Built) -> Settings:
    for warning in built.warnings:
        _log.warn("{warning}", warning=warning)
    return built.settings
