"""The parts of a broker, and the order in which they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from random import Random
from typing import TYPE_CHECKING, Any

from twisted.application.service import IService
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from zope.interface import classImplements

from natsbroker import hot
from natsbroker.accounts.account import Bus
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.registry import AccountRegistry, BuiltInRouter
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.clients.context import ClientContext, Connections
from natsbroker.clients.events import ClientEvents, ConnectionEvents
from natsbroker.clients.finding import askToLeave, closeExcess, kick, sessionOf, sessionsOf
from natsbroker.clients.info import ServerInfo
from natsbroker.clients.listeners import Listeners
from natsbroker.clients.planners import limitsPlanner, tlsPlanner
from natsbroker.clients.userinfo import UserInfo
from natsbroker.config.model import Settings
from natsbroker.connections.listener import addressEndpoint
from natsbroker.connections.poller import SocketPoller
from natsbroker.connections.turns import turnsOn, workedOf
from natsbroker.interfaces import IConnectionKind
from natsbroker.links.context import LinkDependencies
from natsbroker.links.services import Links
from natsbroker.runtime.observers import Observers
from natsbroker.runtime.plugins import Plugins, sectionsPlanner
from natsbroker.runtime.reload import Planner
from natsbroker.server.authorizers import AuthorizerSelection
from natsbroker.server.choices import Replacements, choicesIn, pluginsIn
from natsbroker.server.identity import ServerKeys, serverDescriber, serverIdentity
from natsbroker.server.info import ServerInfoPublisher, infoFrom
from natsbroker.server.kinds import KINDS, LinkKind
from natsbroker.server.risks import allRisks
from natsbroker.server.watchdog import Watchdog
from natsbroker.wire.values import Kind

if TYPE_CHECKING:
    from natsbroker.auth.callout.callouts import Callouts
    from natsbroker.auth.operator.service import OperatorService
    from natsbroker.jetstream.channels.channelstreams import ChannelStreams
    from natsbroker.jetstream.figures import JetStreamFigures
    from natsbroker.monitoring.service import MonitoringService
    from natsbroker.streaming.monitoring import StreamingModel
    from natsbroker.streaming.service import StreamingService
    from natsbroker.system.answers import ServerActions
    from natsbroker.system.pages import ServerPages
    from natsbroker.system.status import StatusReports

_log = Logger(namespace="natsbroker")

# Its module loads without zope.interface.
classImplements(LinkKind, IConnectionKind)

_NO_FILE = "can only reload config when a file is provided using -c or --config"


def withOperators(settings: Settings, hasResolver: bool = False) -> Settings:
    if not settings.operator.isOn:
        return settings
    from natsbroker.auth.operator.operators import operatorsIn

    return replace(settings, system_account=operatorsIn(settings, hasResolver).systemAccount)


@dataclass(eq=False)
class BrokerParts:
    """
    The parts of one broker. A part that looks up a value while it works gets the one in force.

    @ivar _host: the broker, which is the parent of those parts that are services.
    @ivar isElsewhere: whether these are endpoints that the settings do not know.
    @ivar poller: the poller for plain TCP, once the broker runs on a reactor that supports it.
    """

    _host: Any
    _settings: Settings
    _keys: ServerKeys
    _random: Random
    _plugins: Plugins
    _given: Replacements
    poller: SocketPoller | None = field(default=None, init=False)
    jetstream: JetStreamFigures | None = field(default=None, init=False)
    status: StatusReports | None = field(default=None, init=False)
    # A default would be an attribute of the class, and its function a method.
    reloadFile: Callable[[], Sequence[str]] = field(
        default_factory=lambda: lambda: [_NO_FILE], init=False
    )
    _store: StreamingService | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._reactor = self._host.reactor
        self.watchdog = Watchdog(self._reactor)
        self._sockets = dict(self._given.sockets)

    def make(self) -> None:
        """Make all parts, each from earlier ones. From authorization on, plugins use the host."""
        self._makeObservers()
        self._makeAccounts()
        self._makeAuthorization()
        self._makeClients()
        self._makeListeners()
        self._makeLinks()
        self._makeMonitoring()
        self._makeReports()
        self._makeServices()
        if self._sockets:
            names = ", ".join(sorted(self._sockets))
            raise ValueError(f"sockets for listeners that the broker does not have: {names}")

    def _makeObservers(self) -> None:
        self.describe = serverDescriber(
            self._info,
            self._reactor.seconds,
            lambda: self._host.settings,
            isShared=self._given.hostCluster is not None,
        )
        self._events = ConnectionEvents(
            self._systemBus, self.describe, self._reactor.seconds, self._random
        )
        events = ClientEvents(
            self._events,
            lambda cid: sessionOf(self.clients.connections, cid),
            lambda: self._keys.id,
            lambda account: self.accounts[account].busFor(Kind.INTERNAL),
            lambda account: self.authority.nameOf(account),
        )
        self.observers = Observers([events, *self._given.observers])

    def _makeAccounts(self) -> None:
        self._batch = hot.FlushBatch(
            lambda call: self._reactor.callLater(0, call), _log.failure, workedOf(self._reactor)
        )
        self.turns = turnsOn(self._reactor, self._batch)
        router = self._given.routerFactory or self._plugins.routerFactory(self._settings)
        self.accounts = AccountRegistry(
            AccountDependencies(self._batch, self._random, self._reactor, describe=self.describe),
            router or (lambda account: BuiltInRouter(self._settings.max_subject_shapes)),
        )
        self.accounts.configure(self._settings)

    def _makeAuthorization(self) -> None:
        settings, given = self._settings, self._given.authorizer
        self._checks = PasswordChecks(self._inThread, self._reactor)
        self.callouts = cache(self._makeCallouts)
        operators = self._operators = self._makeOperators()
        self._adopt(operators)
        self.authority = AuthorizerSelection(self._checks, self.callouts, operators)
        self._authorizer = self.authority.choose(
            settings, self._plugins.authorizer(self._host, settings, given)
        )
        if not settings.no_system_account:
            userInfo = UserInfo(self.describe, self._reactor.seconds, self.authority.nameOf)
            self.accounts.watch(userInfo.serve)

    def _makeCallouts(self) -> Callouts:
        from natsbroker.auth.callout.callouts import Callouts

        return Callouts(
            self._keys.signer,
            self._keys.curve,
            lambda: serverIdentity(self._info(), self._host.settings.server_tags),
            lambda account: self.accounts[account].busFor(Kind.INTERNAL),
            self._reactor,
            lambda: self.clients.settings.authorization.timeout,
        )

    def _makeOperators(self) -> OperatorService | None:
        if not self._settings.operator.isOn:
            return None
        from natsbroker.auth.operator.service import OperatorHost, OperatorService

        cluster = self._given.hostCluster
        host = OperatorHost(
            self.accounts,
            self._reactor,
            self._inThread,
            self.describe,
            lambda account: closeExcess(self.clients, self.accounts, account),
            lambda: self.links.countPeers(),
            (lambda: True) if cluster is None else cluster.isSpeaking,
            b"" if cluster is None else self._keys.id.encode(),
        )
        return OperatorService(self._settings, host, self.callouts(), self._given.accountResolver)

    def _makeClients(self) -> None:
        settings = self._settings
        # INFO names the address of the settings until the broker listens.
        info = infoFrom(
            settings,
            self._keys.id,
            settings.host,
            settings.port,
            self._authorizer.required,
            self._keys.xkey,
        )
        self.clients = ClientContext(
            self._reactor,
            self.accounts,
            self._authorizer,
            info,
            self._batch,
            settings,
            self.observers.notify,
            self._random,
            connections=self._makeConnections(),
            fastLane=settings.fast_lane,
        )
        self.clients.proxies.use(settings.proxies)
        self._authorizer.watchRevocations(self._revoked)

    def _makeConnections(self) -> Connections:
        connections = Connections(self._settings.max_closed_clients)
        if self._given.hostCluster is not None:
            connections.nextNumber = self._given.hostCluster.connectionNumbers().__next__
        return connections

    def _makeListeners(self) -> None:
        settings, endpoints = self._settings, self._given.endpoints
        if endpoints is None and settings.streaming and settings.streaming.nats_server:
            # As with nats-streaming-server, clients connect only to the other server.
            endpoints = []
        self.isElsewhere = endpoints is not None
        if endpoints is None:
            opened = self._sockets.pop("client", None)
            endpoints = [
                addressEndpoint(self._reactor, settings.host, settings.port, opened=opened)
            ]
        terms = None
        if settings.tls is not None:
            from natsbroker.connections.tlscontext import termsFrom

            terms = termsFrom(settings.tls, settings.allow_non_tls)
        self.listeners = Listeners(self._reactor, self.clients, endpoints, terms, settings)

    def _makeLinks(self) -> None:
        settings, given = self._settings, self._given
        # Neighbours are one server to clients and leafnodes, and several members of a cluster.
        serverId = self._keys.id if given.hostCluster is None else ServerKeys().id
        dependencies = LinkDependencies(
            self._reactor,
            settings,
            self.clients,
            self.accounts,
            serverId,
            self._keys.id,
            self._random,
            self._checks,
            partial(self._plugins.gatewayPolicy, self._host, settings, given.gatewayPolicy),
            self._systemBus,
            self.authority.made,
            self._sockets,
            given.hostCluster,
        )
        others = self._plugins.connectionKinds(settings, given.connectionKinds)
        self._otherKinds = {kind.name for kind in others}
        for kind in (*KINDS, *others):
            for account in kind.accounts(settings):
                self.authority.require(account)
        self.links = Links(
            self._host, dependencies, lambda: self.publisher.clusterChanged(), KINDS, others
        )

    def _makeMonitoring(self) -> None:
        self._monitoring: ServerPages | None = None
        self.streaming: StreamingModel | None = None
        self._loadTime: float = self._host.startTime
        self.pages = self._makePages()
        self._adopt(self.pages)
        self._adopt(self.authority.chosen)
        self.publisher = ServerInfoPublisher(
            self._keys, self.clients, self.listeners, self.pages, self.links
        )

    def _makePages(self) -> MonitoringService | None:
        settings = self._settings
        if not (settings.monitoring.http_port or settings.monitoring.https_port):
            return None
        from natsbroker.connections.tlscontext import pagesCreatorFrom
        from natsbroker.monitoring.service import MonitoringService

        creator = None if settings.tls is None else pagesCreatorFrom(settings.tls)
        opened = self._sockets.pop("monitoring", None)
        return MonitoringService(self._reactor, self.monitoring(), settings, creator, opened)

    def _makeReports(self) -> None:
        for service in self.links:
            for child in service.children:
                self._adopt(child)
        bus = self._systemBus()
        if bus is None:
            return
        from natsbroker.system.reports import systemReports

        reports = systemReports(
            self._systemBus,
            bus,
            self._keys.id,
            self.describe,
            self.monitoring,
            self.actions,
            lambda: self.links.countPeers(),
            self._given.hostCluster,
            self._reactor,
            self._random,
        )
        self.status = reports.status
        self._adopt(self.status)
        if not reports.isShared:
            self.observers.add(self.status)
        leafs = self.links.find("leaf")
        if leafs is not None:
            from natsbroker.leafnodes.events import LeafEvents

            hasGateways, find = self._settings.gateway is not None, leafs.leafs.numbered
            naming = (lambda: self._keys.id, hasGateways, self.authority.nameOf)
            self.observers.add(LeafEvents(self._events, find, *naming))
        self.observers.add(reports.counts)
        system = bus.account
        self.accounts.watch(
            lambda account: None if account.name == system else reports.requests.serve(account)
        )

    def actions(self) -> ServerActions:
        from natsbroker.system.answers import ServerActions

        connections = self.clients.connections
        return ServerActions(
            lambda number: kick(connections, number) or self._kickLeafnode(number),
            partial(askToLeave, connections),
            lambda: self.reloadFile(),
        )

    def _kickLeafnode(self, number: int) -> bool:
        service = self.links.find("leaf")
        return service is not None and bool(service.leafs.kick(number))

    def _makeServices(self) -> None:
        settings, plugins = self._settings, self._plugins
        self.services = dict(
            plugins.services(self._host, settings, self._given.services, self._otherKinds)
        )
        channels: ChannelStreams | None = None
        if settings.streaming is not None and settings.streaming.jetstream_accounts:
            from natsbroker.jetstream.composition import channelStreams

            channels = channelStreams(settings)
        if settings.streaming is not None:
            from natsbroker.streaming.composition import streamingBus, streamingService
            from natsbroker.streaming.monitoring import StreamingModel

            bus = streamingBus(self._host, settings.streaming)
            if IService.providedBy(bus):
                self.services["streaming-bus"] = bus
            users = [] if channels is None else [channels]
            service = streamingService(self._host, bus, settings.streaming, plugins, users)
            self.services["streaming"] = self._store = service
            self.streaming = StreamingModel(service)
            if self._monitoring is not None:
                self._showStreaming(self._monitoring)
        if settings.jetstream.enabled:
            from natsbroker.jetstream.composition import grantJetStream, jetStreamService

            operators = self._operators
            locate = (lambda account: None) if operators is None else operators.require
            jetstream, figures = jetStreamService(
                self._host, plugins, locate, channels, self._given.hostCluster
            )
            self.services["jetstream"], self.jetstream = jetstream, figures
            figures.nameOf = self.authority.nameOf
            refusals = jetstream.refusals(self.accounts.systemAccount)
            self.accounts.watch(
                lambda account: refusals.serve(account.name, account.busFor(Kind.LOCAL))
            )
            if operators is not None:
                grantJetStream(operators.directory, jetstream)
        for name, made in self.services.items():
            made.setName(name)
            made.setServiceParent(self._host)

    def _adopt(self, part: Any) -> None:
        if IService.providedBy(part):
            part.setServiceParent(self._host)

    def choices(self) -> Mapping[str, str]:
        return choicesIn(self._settings, self._given, self.services)

    def plugins(self) -> Iterator[tuple[str, str]]:
        return pluginsIn(self._settings, self._given, self.services, self._otherKinds)

    def planners(self) -> list[Planner]:
        return [
            limitsPlanner(self.clients),
            tlsPlanner(self.clients, self.listeners, self.pages),
            self.authority.planner(self.clients, self.accounts),
            *self._streamsPlanners(),
            sectionsPlanner(self.services, self._otherKinds),
            *self.links.planners(),
        ]

    def _streamsPlanners(self) -> list[Planner]:
        if not self._settings.jetstream.enabled:
            return []
        from natsbroker.jetstream.composition import streamsPlanner

        return [streamsPlanner(self.services, lambda: self._host.settings, lambda: self.jetstream)]

    def monitoring(self) -> ServerPages:
        """The model, made at the first call: a broker without the pages starts sooner."""
        if self._monitoring is None:
            self._monitoring = self._makeModel()
            figures = self._monitoring.figures
            figures.turnLengths = lambda: None if self.poller is None else self.poller.turnLengths()
            self._monitoring.varz.contributions["tls_cert_not_after"] = self.listeners.expiry
            figures.plugins, figures.observerCalls = self.plugins, self.observers.calls
            for show in (
                self._showJetStream,
                self.watchdog.show,
                self._showStreaming,
                self.links.show,
            ):
                show(self._monitoring)
        return self._monitoring

    def _showJetStream(self, monitoring: ServerPages) -> None:
        from natsbroker.jetstream.pages import showJetStream

        showJetStream(monitoring, lambda: self.jetstream)

    def _showStreaming(self, monitoring: ServerPages) -> None:
        if self.streaming is not None:
            from natsbroker.streaming.pages import streamingPages, streamingSeries

            monitoring.pages.update(streamingPages(self.streaming, monitoring.state))
            monitoring.metrics.contributions.append(partial(streamingSeries, self.streaming))
            monitoring.stores["streaming"] = lambda: self.streaming and self.streaming.store

    def _makeModel(self) -> ServerPages:
        from natsbroker.auth.certificates import described
        from natsbroker.clients.connz import Namers
        from natsbroker.clients.state import BrokerState
        from natsbroker.monitoring.healthz import (
            listeningCheck,
            pollingCheck,
            riskCheck,
            storeChecks,
        )
        from natsbroker.runtime.process import ProcessUsage
        from natsbroker.system.pages import ServerPages

        host, process = self._host, ProcessUsage(self._reactor.seconds)
        times = host.startTime, self._loadTime
        return ServerPages(
            BrokerState(self.clients, self.accounts, host.settings, *times, process),
            healthChecks=[
                listeningCheck(self.listeners.closed),
                pollingCheck(lambda: "" if self.poller is None else self.poller.trouble),
                *storeChecks(lambda: self._store),
                riskCheck(lambda: allRisks(host.settings, self.clients.authorizer.required)),
            ],
            namers=Namers(self.authority.nameOf, described),
            kinds=self.links.kinds,
        )

    def settingsLoaded(self, settings: Settings) -> None:
        self._loadTime = self._reactor.seconds()
        if self._monitoring is not None:
            self._monitoring.reloaded(settings)

    def bus(self, account: str, kind: Kind = Kind.INTERNAL) -> Bus:
        self.authority.require(account)
        return self.accounts[account].busFor(kind)

    def _inThread(self, call: Callable[..., bool], *arguments: Any) -> Deferred[bool]:
        pool = self._reactor.getThreadPool()
        return deferToThreadPool(self._reactor, pool, call, *arguments)

    def _info(self) -> ServerInfo:
        return self.clients.info

    def _systemBus(self) -> Bus | None:
        account = self.accounts.system
        return None if account is None else account.busFor(Kind.INTERNAL)

    def _revoked(self, account: str | None = None) -> None:
        for session in sessionsOf(self.clients.connections):
            grant = session.grant
            if account is None or grant is None or grant.account == account:
                session.reauthorize()
        self.links.reauthorize(account)
