"""
The composition root: a broker as one Twisted service.

Promises: everything that a broker needs is introduced to each other here and nowhere else; each
replaceable part is the object that was given, else the plugin that the settings name, else ours.
Must never know: bytes, files, signals, or the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from socket import socket
from typing import TYPE_CHECKING, Any

from twisted.application.service import IService, MultiService
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorFDSet, IStreamServerEndpoint
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.accounts.bus import Bus
from natsbroker.accounts.registry import AccountRegistry, BuiltInRouter
from natsbroker.advisories import LameDuckStarted, Reloaded
from natsbroker.auth.authority import Authority
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.clients.context import ClientContext
from natsbroker.clients.finding import closeAll, sessionsOf
from natsbroker.clients.listener import OpenSocketEndpoint, addressEndpoint
from natsbroker.clients.listeners import Listeners
from natsbroker.clients.protocol import ClientFactory
from natsbroker.clients.userinfo import UserInfo
from natsbroker.config.model import GLOBAL_ACCOUNT, TLS, Settings
from natsbroker.connections.poller import Hub
from natsbroker.interfaces import (
    IBrokerHost,
    IObserver,
    IPrepared,
    IPublishFilter,
    ISubjectRouter,
)
from natsbroker.links.dependencies import LinkGround
from natsbroker.links.services import Links
from natsbroker.server import plugins as builtin
from natsbroker.server.composition import (
    makeCallouts,
    makeContext,
    makeEvents,
    makeMonitoring,
    makeOperators,
    makePages,
    makeTerms,
    withOperators,
)
from natsbroker.server.identity import ServerKeys, describing, identifying
from natsbroker.server.info import ServerInfoPublisher
from natsbroker.server.lameduck import LameDuck
from natsbroker.server.observers import Observers
from natsbroker.server.planners import (
    limitsPlanner,
    sectionsPlanner,
    tlsPlanner,
)
from natsbroker.server.plugins import Plugins, nameOf
from natsbroker.server.readiness import Readiness
from natsbroker.server.reload import Planner, ReloadError, logChanges, plan, settled
from natsbroker.server.start import announceListener, announceStart
from natsbroker.wire.values import Kind

if TYPE_CHECKING:
    from natsbroker.gateways.service import GatewayService
    from natsbroker.leafnodes.service import LeafnodeService
    from natsbroker.monitoring.model import MonitoringModel
    from natsbroker.routes.service import ClusterMembership
    from natsbroker.streaming.monitoring import StreamingModel

__all__ = ["Broker"]

_log = Logger(namespace="natsbroker")


@implementer(IBrokerHost)
class Broker(MultiService):
    """
    A broker. Its child services are the monitoring pages, and the services that the settings name
    or that were given.

    @ivar reactor: for timers and connections.
    @ivar settings: the settings in force.
    @ivar keys: who the broker is.
    @ivar startTime: when it was made, in seconds since the epoch.
    @ivar accounts: all accounts.
    @ivar clientContext: what client connections share; a connection that is made by hand needs it.
    @ivar listeners: where clients can connect.
    @ivar streaming: what there is to know about NATS Streaming; C{None} without.
    @ivar links: what connects it with other brokers.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        reactor: Any = None,
        authorizer: Any = None,
        routerFactory: Callable[[str], Any] | None = None,
        services: Sequence[Any] = (),
        observers: Sequence[Any] = (),
        endpoints: Sequence[str | IStreamServerEndpoint] | None = None,
        plugins: Plugins | None = None,
        random: Random | None = None,
        keys: ServerKeys | None = None,
        gatewayPolicy: Any = None,
        clientSocket: socket | None = None,
    ) -> None:
        """
        What provides an interface is annotated as C{Any}, because type checkers without
        C{mypy-zope} do not know what provides which.

        @param settings: what nats-server.conf would say; by default what an empty one says.
        @param reactor: by default the global one.
        @param authorizer: an L{natsbroker.interfaces.IAuthorizer}, or an
            L{natsbroker.interfaces.IAuthorizerPlugin} that makes one, instead of what the settings
            say. One that is a service is started and stopped with the broker.
        @param routerFactory: makes the L{natsbroker.interfaces.ISubjectRouter} for an account's
            name.
        @param services: further services, each an L{natsbroker.interfaces.IBrokerService}.
        @param observers: receivers of advisories, each an L{natsbroker.interfaces.IObserver}.
        @param endpoints: where clients can connect, as descriptions (C{tcp:4222}) or objects,
            instead of the settings' address; an empty sequence for nowhere.
        @param plugins: where plugins are looked for.
        @param random: for choices and jitter; a seeded one makes them repeatable.
        @param keys: who the broker is; by default somebody new.
        @param gatewayPolicy: an L{natsbroker.interfaces.IGatewayInterestPolicy}, or an
            L{natsbroker.interfaces.IGatewayPolicyPlugin} that makes one, instead of what the
            settings say.
        @param clientSocket: a listening socket at the settings' address for clients, instead of one
            that the broker opens.
        @raise natsbroker.errors.BrokerError: if a plugin is missing or refuses.
        @raise ValueError: if the settings contradict themselves, or a certificate is no good.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.reactor = reactor if reactor is not None else _globalReactor()
        self.settings = settings = withOperators(settings or Settings())
        self.keys = keys or ServerKeys()
        self.startTime: float = self.reactor.seconds()
        self._random = random or Random()
        self._describe = describing(lambda: self.clientContext.info, self.reactor.seconds)
        events = makeEvents(
            self._systemBus,
            self._shared,
            self.serverId,
            self._describe,
            self.reactor.seconds,
            self._random,
        )
        self._observers = Observers([events, *observers])
        self._readiness = Readiness(
            lambda failure: _log.critical("{reason}", reason=failure.getErrorMessage())
        )
        self._hub: Hub | None = None
        self._lameDuck: LameDuck | None = None
        found = plugins or Plugins()
        turn = hot.Turn(lambda call: self.reactor.callLater(0, call), _log.failure)
        makeRouter = routerFactory or found.routerFactory(settings) or self._builtInRouter
        self.accounts = AccountRegistry(turn, makeRouter, self._random, self.reactor)
        self.accounts.configure(settings)
        callouts = cache(
            lambda: makeCallouts(
                self.reactor, self.keys, self.accounts, self._shared, lambda: self.settings
            )
        )
        checks = PasswordChecks(self._inThread, self.reactor)
        operators = makeOperators(
            self.reactor,
            settings,
            self.accounts,
            self._shared,
            self._inThread,
            self._describe,
            callouts,
            lambda: self.links.countNeighbours(),
        )
        self._adopt(operators)
        self._authority = authority = Authority(checks, callouts, operators)
        inForce = authority.choose(
            settings, found.authorizer(self, settings, authorizer, builtin.authorizers)
        )
        if not settings.no_system_account:
            userInfo = UserInfo(self._describe, self.reactor.seconds, authority.nameOf)
            self.accounts.watch(userInfo.serve)
        self.clientContext = makeContext(
            self.reactor,
            settings,
            self.keys,
            self.accounts,
            inForce,
            turn,
            self._observers.notify,
            self._random,
        )
        inForce.watchRevocations(self._revoked)
        if endpoints is None and settings.streaming and settings.streaming.nats_server:
            # As with nats-streaming-server, clients connect to the other server alone.
            endpoints = []
        self._isElsewhere = endpoints is not None
        if endpoints is None:
            endpoints = [
                addressEndpoint(self.reactor, settings.host, settings.port)
                if clientSocket is None
                else OpenSocketEndpoint(self.reactor, clientSocket, settings.host)
            ]
        policy = settings.tls or TLS()
        self.listeners = Listeners(
            self.reactor, self.clientContext, endpoints, makeTerms(settings), policy
        )
        self._monitoring: MonitoringModel | None = None
        self._loadTime = self.startTime
        self._storeTrouble: Callable[[], str] = lambda: ""
        self._storeLosses: Callable[[], Sequence[str]] = lambda: ()
        self._requireLeafAccounts()
        ground = LinkGround(
            self.reactor, settings, self.clientContext, self.accounts, self.serverId, self._random
        )
        self.links = Links(
            ground,
            checks,
            lambda: found.gatewayPolicy(self, settings, gatewayPolicy, builtin.policies),
            lambda: self._publisher.clusterChanged(),
        )
        pages = makePages(self.reactor, lambda: self.monitoring, settings)
        self._adopt(pages)
        self._adopt(authority.chosen)
        self._publisher = ServerInfoPublisher(
            self.keys, self.clientContext, self.listeners, pages, self.links
        )
        advice = self.links.advice
        if advice is not None:
            from natsbroker.gateways.advisingsettings import Advising

            self._adopt(
                Advising(advice, self._systemBus, lambda: self.serverId, self.reactor.seconds)
            )
        if settings.cluster is not None or settings.gateway is not None:
            from natsbroker.monitoring.status import StatusReports

            connections = self.clientContext.connections
            self._adopt(
                StatusReports(
                    self._systemBus, self._describe, connections, self.accounts, self.reactor
                )
            )
        self._services = dict(found.services(self, settings, services, builtin.services))
        self.streaming: StreamingModel | None = None
        if settings.streaming is not None:
            from natsbroker.streaming.configured import streamingBus, streamingService
            from natsbroker.streaming.monitoring import StreamingModel

            bus = streamingBus(self, settings.streaming)
            if IService.providedBy(bus):
                self._services["streaming-bus"] = bus
            streaming = streamingService(self, bus, settings.streaming, found)
            self._services["streaming"] = streaming
            self.streaming = StreamingModel(streaming)
            self._storeTrouble = lambda: streaming.trouble
            self._storeLosses = lambda: streaming.losses
        for name, service in self._services.items():
            service.setName(name)
            service.setServiceParent(self)
        self._parts = {
            "authorizer": nameOf(authorizer, settings.authorization.plugin or "settings"),
            "router": settings.router.plugin or nameOf(routerFactory, "built-in"),
            "services": ",".join(self._services) or "none",
        }
        self._planners: list[Planner] = [
            limitsPlanner(self.clientContext),
            tlsPlanner(self.clientContext, self.listeners, pages),
            authority.planner(self.clientContext, self.accounts),
            sectionsPlanner(self._services),
            *self.links.planners(),
        ]

    @property
    def serverId(self) -> str:
        """
        The broker's id.
        """
        return self.keys.id

    # What it is made of.

    def _adopt(self, part: Any) -> None:
        """
        Start and stop a part with the broker if it is a service.
        """
        if IService.providedBy(part):
            part.setServiceParent(self)

    def _builtInRouter(self, account: str) -> ISubjectRouter:
        return BuiltInRouter(self.settings.max_subject_shapes)

    def _inThread(self, call: Callable[..., bool], *arguments: Any) -> Deferred[bool]:
        pool = self.reactor.getThreadPool()
        return deferToThreadPool(self.reactor, pool, call, *arguments)

    def _shared(self) -> ClientContext:
        return self.clientContext

    def _systemBus(self) -> Bus | None:
        name = self.accounts.systemAccount
        return self.bus(name) if name in self.accounts.names() else None

    def _requireLeafAccounts(self) -> None:
        block = self.settings.leafnodes
        if block is not None:
            for each in (block.account, *(remote.account for remote in block.remotes)):
                self._authority.require(each)

    @property
    def monitoring(self) -> MonitoringModel:
        """
        What is behind the monitoring pages. It is made when it is first asked for: a broker without
        the pages starts sooner.
        """
        if self._monitoring is None:
            self._monitoring = makeMonitoring(
                self.clientContext,
                self.accounts,
                self.settings,
                (self.startTime, self._loadTime),
                self.listeners.closed,
                lambda: self._storeTrouble(),
                lambda: self._storeLosses(),
                lambda: "" if self._hub is None else self._hub.trouble,
                self._authority.nameOf,
            )
            self.links.show(self._monitoring, lambda: self.settings)
        return self._monitoring

    def _settingsLoaded(self, settings: Settings) -> None:
        self.settings = settings
        self._loadTime = self.reactor.seconds()
        if self._monitoring is not None:
            self._monitoring.reloaded(settings)

    @property
    def membership(self) -> ClusterMembership | None:
        """
        Its part in a cluster; C{None} without.
        """
        return self.links.membership

    @property
    def leafnodes(self) -> LeafnodeService | None:
        """
        Its leafnode connections; C{None} until the settings name some.
        """
        return self.links.leafnodes

    @property
    def gateways(self) -> GatewayService | None:
        """
        Its part in a super-cluster; C{None} without.
        """
        return self.links.gateways

    # What it offers.

    def bus(self, account: str = GLOBAL_ACCOUNT, isLocal: bool = False) -> Bus:
        """
        See L{IBrokerHost.bus}.
        """
        self._authority.require(account)
        return self.accounts[account].busFor(Kind.LOCAL if isLocal else Kind.INTERNAL)

    def watchAccounts(self, watcher: Callable[[Bus], None]) -> None:
        """
        See L{IBrokerHost.watchAccounts}.
        """
        self.accounts.watch(lambda account: watcher(account.busFor(Kind.INTERNAL)))

    def describe(self) -> Mapping[str, Any]:
        """
        See L{IBrokerHost.describe}.
        """
        return identifying(lambda: self.clientContext.info, lambda: self.settings)()

    def addFilter(self, account: str, publishFilter: IPublishFilter) -> Callable[[], None]:
        """
        See L{IBrokerHost.addFilter}.
        """
        return self.accounts[account].delivery.addFilter(publishFilter)

    def observe(self, observer: IObserver) -> Callable[[], None]:
        """
        See L{IBrokerHost.observe}.
        """
        return self._observers.add(observer)

    def inProcessFactory(self) -> ClientFactory:
        """
        A factory for the broker's side of connections that come from inside this process, over a
        transport that is no socket; see L{natsbroker.client.connecting.connectInProcess}.
        """
        return ClientFactory(self.clientContext, "IN_PROCESS")

    def clientAddress(self) -> tuple[str, int]:
        """
        Where clients can connect, as host and port.

        @raise ValueError: if it listens nowhere.
        """
        return self.listeners.firstAddress()

    def addresses(self) -> dict[str, list[str]]:
        """
        Where it listens, as URLs by what is there: C{nats}, C{monitoring}, C{cluster},
        C{leafnodes} and C{gateway}.
        """
        return self._publisher.addresses()

    def whenReady(self) -> Deferred[None]:
        """
        Wait for the broker to listen everywhere.

        @return: fires when it does, or fails with what it could not start for.
        """
        return self._readiness.wait()

    # Starting.

    def startService(self) -> None:
        """
        Start the services, then let clients in.

        @raise StartError: if it is known at once that it cannot listen.
        """
        announceStart(self.settings, self.serverId, self._parts)
        super().startService()  # type: ignore[no-untyped-call]
        if hot.COMPILED and self.settings.fast_lane and IReactorFDSet.providedBy(self.reactor):
            self._hub = Hub(self.reactor, self.clientContext.turn)
            self.links.useHub(self._hub)
        opening = ensureDeferred(self._open())
        opening.addCallbacks(self._opened, self._readiness.failed)
        self._readiness.raiseFailure()

    async def _open(self) -> None:
        parts: list[Any] = [self._authority.chosen, *self._services.values()]
        for part in parts:
            if IPrepared.providedBy(part):
                await part.whenPrepared()
        await self.listeners.open(self._hub)
        self._settingsLoaded(self._publisher.inUse(self.settings))
        await self.links.open(self.settings)
        self._publisher.refresh(self.settings, self.isLameDuck)

    def _opened(self, _: None) -> None:
        # Whoever reads the last line may rely on what those do who waited for it.
        self._readiness.reached()
        for listener in self.listeners:
            announceListener(listener, self.settings)
        self.links.announce()
        _log.info("Server is ready")
        if self.streaming is not None:
            state = "ready" if self.streaming.isServing else "on standby"
            _log.info("Streaming Server is {state}", state=state)

    # Changing.

    def addPlanner(self, planner: Planner) -> None:
        """
        Have one more owner of settings asked when they are reloaded.
        """
        self._planners.append(planner)

    def reload(self, settings: Settings) -> None:
        """
        Use other settings from now on: all of them or none.

        @raise natsbroker.server.reload.ReloadError: if they cannot be taken; nothing has changed.
        """
        try:
            settings = withOperators(settings)
        except ValueError as error:
            raise ReloadError([str(error)]) from error
        new = settled(self.settings, settings, self._isElsewhere)
        changes, apply = plan(self.settings, new, self._planners)
        self.settings = new
        apply()
        self._publisher.refresh(new, self.isLameDuck)
        self._settingsLoaded(new)
        logChanges(changes, new)
        self._observers.notify(Reloaded(tuple(change.path for change in changes)))

    def _revoked(self, account: str | None = None) -> None:
        for session in sessionsOf(self.clientContext.connections):
            grant = session.grant
            if account is None or grant is None or grant.account == account:
                session.reauthorize()
        self.links.reauthorize(account)

    # Stopping.

    def lameDuck(self) -> Deferred[None]:
        """
        Let nobody in any more, and send the clients away a few at a time, as the settings say.

        @return: fires when the last one has gone, or the service is stopped.
        """
        if self._lameDuck is not None:
            raise errors.BrokerError("the broker is a lame duck already")
        _log.info("Entering lame duck mode, stop accepting new clients")
        self._lameDuck = LameDuck(self.clientContext, self.settings, self._random)
        self._observers.notify(LameDuckStarted())
        return ensureDeferred(self._leave(self._lameDuck))

    async def _leave(self, lameDuck: LameDuck) -> None:
        await self.listeners.close()
        self.links.leave()
        await lameDuck.depart(self.links.clusterInfo().get("connect_urls", ()))

    @property
    def isLameDuck(self) -> bool:
        """
        Whether L{lameDuck} was called.
        """
        return self._lameDuck is not None

    def stopService(self) -> Deferred[None]:
        """
        Let nobody in any more, close the clients, then stop the services.

        @return: fires when everything is closed.
        """
        _log.info("Initiating Shutdown...")
        if self._lameDuck is not None:
            self._lameDuck.cancel()
        return ensureDeferred(self._stop())

    async def _stop(self) -> None:
        await self.listeners.close()
        await self.links.stopListening()
        await closeAll(self.clientContext.connections)
        await self.links.close()
        await super().stopService()  # type: ignore[no-untyped-call]
        self.accounts.close()
        if self._hub is not None:
            self._hub.close()
            self._hub = None
        _log.info("Server Exiting..")


def _globalReactor() -> Any:
    from twisted.internet import reactor

    return reactor
