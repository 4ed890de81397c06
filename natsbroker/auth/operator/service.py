"""
Operator mode: accounts from JWTs that may change while the broker runs. An account exists before
its first client is accepted; a changed JWT applies to open connections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from natsbroker.accounts.registry import AccountRegistry
from natsbroker.auth.callout.callouts import Callouts
from natsbroker.auth.callout.delegate import CalloutDelegate
from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.accounts import accountsFrom, activationsEnd, limitsFrom
from natsbroker.auth.operator.authorizer import OperatorAuthorizer
from natsbroker.auth.operator.claimsservice import ClaimsService
from natsbroker.auth.operator.directory import AccountDirectory, placeholder
from natsbroker.auth.operator.folders import CachedFolder, Deletion, FolderError, TokenFolder
from natsbroker.auth.operator.granting import ServerLimits
from natsbroker.auth.operator.operators import operatorsIn
from natsbroker.auth.operator.peers import PeerLookup
from natsbroker.auth.operator.resolvers import TIMEOUT, FolderResolver, MemoryResolver, URLResolver
from natsbroker.config.model import SYSTEM_ACCOUNT, AccountLimits, Resolver, Settings
from natsbroker.config.settings.operator import CACHE, FULL, MEMORY
from natsbroker.connections.agents import agentFor
from natsbroker.errors import logText
from natsbroker.interfaces import IAccountResolver, IMessageBus
from natsbroker.runtime.responder import Describe
from natsbroker.wire.nkeys import Role, isKey
from natsbroker.wire.values import Kind

_log = Logger(namespace="natsbroker")

#: The interval, in seconds, of requests for the system account's JWT until it is known.
_PATIENCE = 1.0

#: The interval, in seconds, at which other brokers are asked for JWTs, and a cache is checked.
_MINUTE = 60.0

#: The delay, in seconds, of an answer without a JWT, so that answers of other servers come first.
_COURTESY = 0.25

#: The longest wait of a single timer, in seconds.
_DAY = 86_400.0


def serverLimits(settings: Settings) -> ServerLimits:
    return ServerLimits(settings.max_payload, settings.max_subscriptions or -1)


@dataclass(frozen=True, slots=True)
class OperatorHost:
    """
    @ivar closeExcess: closes the youngest connections of an account that has too many.
    @ivar countPeers: gives the number of other servers; infinity if it is unknown.
    @ivar isSpeaking: whether this broker answers operators, of several that are one server.
    @ivar server: the id of that server; empty for one broker.
    """

    registry: AccountRegistry
    reactor: Any
    runInThread: Callable[..., Deferred[Any]]
    describe: Describe
    closeExcess: Callable[[str], None]
    countPeers: Callable[[], float]
    isSpeaking: Callable[[], bool] = lambda: True
    server: bytes = b""


class OperatorService(Service):
    name = "operators"

    def __init__(
        self,
        settings: Settings,
        host: OperatorHost,
        callouts: Callouts | None = None,
        resolver: IAccountResolver | None = None,
    ) -> None:
        """
        @param callouts: serve accounts with auth callout; without them, users of these are denied.
        @param resolver: instead of the one that the settings describe.
        @raise ValueError: if the settings of operator mode contradict each other.
        """
        self._given = resolver
        operators = operatorsIn(settings, resolver is not None)
        self._host = host
        self._registry = host.registry
        self._reactor = reactor = host.reactor
        self._system = operators.systemAccount
        self._exchanging: set[str] = set()
        self._ended: set[str] = set()
        self._required: set[str] = set()
        self._timer: IDelayedCall | None = None
        self._claims: ClaimsService | None = None
        self._memory: MemoryResolver | None = None
        self._folder: FolderResolver | None = None
        self._loop = LoopingCall(self._findSystem)
        self._loop.clock = reactor
        self._sweep = LoopingCall(self._expire)
        self._sweep.clock = reactor
        self._peers: PeerLookup | None = None
        self._wanted = operators.resolver
        source = resolver or self._resolverFor(operators.resolver, settings)
        self.directory = AccountDirectory(operators.trust, source, reactor)
        self.directory.watch(self._accountChanged, self._accountEnded)
        self._delegate: CalloutDelegate | None = None
        if callouts is not None:
            self._delegate = CalloutDelegate(self.directory, callouts, serverLimits(settings))
        pinned = settings.operator.resolver_pinned_accounts
        self.authorizer = OperatorAuthorizer(
            self.directory,
            reactor.seconds,
            serverLimits(settings),
            None if pinned is None else frozenset([*pinned, self._system]),
            settings.operator.default_sentinel,
            self._delegate,
        )

    def _resolverFor(self, wanted: Resolver, settings: Settings) -> IAccountResolver:
        mode = settings.operator
        if wanted.type == MEMORY:
            self._memory = MemoryResolver(mode.resolver_preload)
            return self._memory
        if wanted.type in (FULL, CACHE):
            folder = _folderFor(wanted, self._reactor.seconds)
            self._folder = FolderResolver(folder, self._host.runInThread)
            _fill(self._folder, mode.resolver_preload)
            return self._folder
        agent = agentFor(self._reactor, mode.resolver_tls, "resolver_tls")
        return URLResolver(wanted.url, agent, self._reactor, wanted.timeout or TIMEOUT)

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        if self._system in self._registry.names():
            bus = self._registry[self._system].busFor(Kind.INTERNAL)
            self._serve(bus)
        for account in self._required:
            self._load(account)
        if self._system == SYSTEM_ACCOUNT:
            return
        if self._memory is not None:
            self._load(self._system)
        else:
            self.directory.provide(placeholder(self._system))
            self._loop.start(_PATIENCE)

    def _serve(self, bus: IMessageBus) -> None:
        claims = self._claims = ClaimsService(
            bus,
            self.directory,
            self._host.describe,
            self._folder,
            self._reactor.seconds,
            self._late,
            self._host.isSpeaking,
            self._host.server,
        )
        folder, wanted = self._folder, self._wanted
        if folder is None:
            return
        peers = self._peers = PeerLookup(
            bus,
            claims.answering,
            self._reactor,
            self.directory.verified,
            self._host.countPeers,
            wanted.timeout or TIMEOUT,
            self._host.server,
        )
        folder.elsewhere = peers.lookUp
        if folder.folder.isCache:
            self._sweep.start(min(wanted.ttl / 2 or _MINUTE, _MINUTE), now=False)
        else:
            peers.keepUp(wanted.interval or _MINUTE, lambda: folder.folder.digest, self._learn)

    def _late(self, answer: bytes) -> Any:
        """
        Delay an empty answer. nats-server takes the first answer, even if another server has the
        JWT.
        """
        if not self._host.countPeers():
            return answer
        return deferLater(self._reactor, _COURTESY, lambda: answer)

    def _learn(self, account: str, text: str) -> Deferred[Any]:
        if self._folder is None:
            return succeed(None)

        def stored(isAnother: bool) -> None:
            if isAnother and account in self.directory:
                self.directory.update(account, text)

        return self._folder.saveIfNewer(account, text).addCallback(stored)

    def _expire(self) -> Deferred[None] | None:
        if self._folder is None:
            return None
        expiring = self._folder.expire()
        return expiring.addErrback(
            lambda why: _log.failure("Cannot use the resolver's folder", why)
        )

    def stopService(self) -> None:
        super().stopService()  # type: ignore[no-untyped-call]
        for loop in (self._loop, self._sweep):
            if loop.running:
                loop.stop()
        if self._peers is not None:
            self._peers.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._claims is not None:
            self._claims.close()
        self.directory.close()

    def _findSystem(self) -> Deferred[None] | None:
        known = self.directory.known(self._system)
        if known is not None and known.token.text:
            self._loop.stop()
            return None
        return self.directory.refresh(self._system)

    def _accountChanged(self, claims: AccountClaims) -> None:
        account = claims.token.subject
        self._ended.discard(account)
        self._registry.include(account, limitsFrom(claims))
        if claims.exchanges:
            self._exchanging.add(account)
        if account in self._exchanging:
            self._exchange()
        self._host.closeExcess(account)
        for wanted in {imported.wanted.account for imported in claims.imports}:
            if wanted not in self.directory:
                self._load(wanted)

    def _accountEnded(self, account: str) -> None:
        self._ended.add(account)
        if account not in self._required:
            self._registry.exclude(account)
        if account in self._exchanging:
            self._exchanging.remove(account)
            self._exchange()

    def require(self, account: str) -> None:
        """Create an account for a service of this broker, unless its name is not a public key."""
        if account in self._required or not isKey(account, Role.ACCOUNT):
            return
        self._required.add(account)
        if account not in self._registry.names():
            self._registry.include(account, AccountLimits())
        if self.running:
            self._load(account)

    def nameOf(self, account: str) -> str:
        claims = self.directory.known(account)
        return account if claims is None else claims.token.name or account

    def _load(self, account: str) -> None:
        finding: Deferred[Any] = maybeDeferred(self.directory.find, account)
        finding.addErrback(lambda why: _log.error("Can't locate account {name}", name=account))

    def _exchange(self) -> None:
        there = {claims.token.subject: claims for claims in self.directory}
        known = {name: claims for name, claims in there.items() if name not in self._ended}
        now = self._reactor.seconds()
        self._registry.applySettings(accountsFrom(known, now, _report))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left = activationsEnd(known.values(), now) - now
        if left != math.inf:
            self._timer = self._reactor.callLater(min(left, _DAY), self._activationsChanged)

    def _activationsChanged(self) -> None:
        self._timer = None
        self._exchange()

    def planReload(self, settings: Settings) -> Callable[[], None]:
        """
        @return: a callable that applies the checked settings and cannot fail.
        @raise ValueError: if they contradict each other.
        """
        operatorsIn(settings, self._given is not None)
        mode = settings.operator

        def apply() -> None:
            self.authorizer.limits = serverLimits(settings)
            if self._delegate is not None:
                self._delegate.limits = self.authorizer.limits
            self.authorizer.sentinel = mode.default_sentinel
            if self._memory is not None:
                self._memory.replace(mode.resolver_preload)
                self._refreshAll()
            if self._folder is not None:
                reading = self._folder.read().addCallback(lambda _: self._refreshAll())
                reading.addErrback(
                    lambda why: _log.failure("Cannot use the resolver's folder", why)
                )
            if self._given is not None:
                self._refreshAll()

        return apply

    def _refreshAll(self) -> None:
        for account in [claims.token.subject for claims in self.directory]:
            self.directory.refresh(account)


def _folderFor(wanted: Resolver, now: Callable[[], float]) -> TokenFolder:
    deletion = Deletion.REMOVED if wanted.hard_delete else Deletion.RENAMED
    try:
        if wanted.type == CACHE:
            return CachedFolder(wanted.dir, wanted.limit, wanted.ttl, now)
        return TokenFolder(
            wanted.dir, wanted.limit, deletion if wanted.allow_delete else Deletion.REFUSED
        )
    except OSError as error:
        raise ValueError(f"resolver: dir {wanted.dir}: {error.strerror}") from error


def _fill(folder: FolderResolver, preload: Mapping[str, str]) -> None:
    try:
        for account, text in preload.items():
            folder.preload(account, text.strip())
    except (FolderError, OSError) as error:
        raise ValueError(f"resolver_preload: {error}") from error


def _report(account: str, text: str) -> None:
    _log.error("Account {account}: {text}", account=account, text=logText(text))
