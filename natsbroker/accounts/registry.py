"""
The accounts of a broker. A connection counts for exactly one account until it is dismissed. An
account that the settings no longer name is forgotten when its last connection ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.accounts.account import Account, Bus
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.exchanges import ImportSetup, checkImports, describedIn
from natsbroker.config.model import GLOBAL_ACCOUNT, AccountLimits, Settings
from natsbroker.config.settings.accounts import bytesOf
from natsbroker.config.settings.authorization import UNLIMITED, AccountSettings
from natsbroker.interfaces import ISubjectRouter
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind

_log = Logger(namespace="natsbroker")

#: The most names of accounts that an error lists.
_SHOWN = 10

_LEAFS = frozenset({Kind.HUB, Kind.SPOKE})


@implementer(ISubjectRouter)
class BuiltInRouter(hot.SubjectIndex):  # type: ignore[type-arg]
    """NATS's router; C{hasPlainRules} tells the lane that only patterns decide."""

    hasPlainRules = True

    def watchChanges(self, changed: Callable[[bytes], None]) -> None:
        """
        Return without registering: this router follows NATS's rules, so it has nothing to announce.
        """


@dataclass
class _Place:
    account: Account
    limits: AccountLimits = field(default_factory=AccountLimits)
    connections: int = 0
    leafnodes: int = 0
    leaving: bool = False
    isIncluded: bool = False


def accountNames(settings: Settings) -> dict[str, AccountLimits]:
    """The accounts of the settings: the global one, any system account, and named ones."""
    names = {GLOBAL_ACCOUNT: AccountLimits()}
    if not settings.no_system_account:
        names[settings.system_account] = AccountLimits()
    for name, account in settings.accounts.items():
        names[name] = account.limits
    return names


def _clusterOf(settings: Settings) -> bytes:
    gateway, cluster = settings.gateway, settings.cluster
    return bytesOf((gateway and gateway.name) or (cluster and cluster.name) or "")


class UnknownAccount(KeyError):
    def __str__(self) -> str:
        name, names = self.args
        if not isinstance(name, str):
            return f"the name of an account is a str, not {type(name).__name__}"
        there = ", ".join(sorted(names)[:_SHOWN])
        return (
            f'there is no account "{name}" (there is {there}): define it in the configuration, as'
            f" accounts {{ {name} {{}} }}"
        )


class AccountRegistry:
    """
    Raises L{UnknownAccount} for an account that does not exist.

    @ivar failures: how often calls raised, by what was called; see L{AccountDependencies}.
    """

    def __init__(
        self, given: AccountDependencies, makeRouter: Callable[[str], ISubjectRouter]
    ) -> None:
        self._given = replace(given, failed=self._failed)
        self.failures: Counter[str] = Counter()
        self._makeRouter = makeRouter
        self._imports = ImportSetup(given.random)
        self._places: dict[str, _Place] = {}
        self._described: set[str] = set()
        self._watchers: list[Callable[[Account], None]] = []
        self._system = ""
        self.location: Callable[[], tuple[str, tuple[str, ...]]] = lambda: ("", ())

    def configure(self, settings: Settings) -> None:
        checkImports(settings)
        wanted = accountNames(settings)
        self._given = replace(self._given, remembers=not settings.disable_sublist_cache)
        self._system = "" if settings.no_system_account else settings.system_account
        for name, limits in wanted.items():
            self._placed(name, limits)
        accounts = {name: self._places[name].account for name in wanted}
        for name in [name for name in self._places if name not in wanted]:
            if not self._places[name].isIncluded:
                self._dropped(name)
        self._imports.cluster = _clusterOf(settings)
        self._imports.jetstream = settings.jetstream
        self._imports.system = accounts.get(self._system)
        self._imports.apply(accounts, describedIn(settings))

    def _failed(self, what: str, text: str) -> None:
        self.failures[what] += 1
        _log.failure("{text}", text=text)

    def watch(self, watcher: Callable[[Account], None]) -> None:
        self._watchers.append(watcher)
        for place in self._places.values():
            watcher(place.account)

    def include(self, name: str, limits: AccountLimits) -> None:
        isNew = name not in self._places
        place = self._placed(name, limits)
        place.isIncluded = True
        if isNew and name in self._imports.jetstream.default_domains:
            self._imports.apply({name: place.account}, {})

    def _placed(self, name: str, limits: AccountLimits) -> _Place:
        place = self._places.get(name)
        isNew = place is None
        if place is None:
            place = self._places[name] = _Place(self._made(name))
        place.limits = limits
        place.leaving = False
        place.account.isSystem = self.isSystem(name)
        if isNew:
            for watcher in self._watchers:
                watcher(place.account)
        return place

    def _dropped(self, name: str) -> None:
        place = self._places[name]
        place.leaving = True
        self._imports.forget(place.account)
        self._forget(name)

    def exclude(self, name: str) -> None:
        if name in self._places and not self.isSystem(name):
            self._dropped(name)

    def applySettings(self, described: Mapping[str, AccountSettings]) -> None:
        names = {*described, *self._described}
        self._described = set(described)
        accounts = {name: self._places[name].account for name in names if name in self._places}
        self._imports.apply(accounts, described)

    def close(self) -> None:
        for place in self._places.values():
            place.account.close()

    def _made(self, name: str) -> Account:
        router = self._makeRouter(name)
        made = Account(name, router, self._given)
        made.location = lambda: self.location()
        return made

    def _forget(self, name: str) -> None:
        place = self._places[name]
        if place.leaving and not place.connections and not place.leafnodes:
            del self._places[name]
            place.account.close()

    def __getitem__(self, name: str) -> Account:
        try:
            return self._places[name].account
        except KeyError:
            raise UnknownAccount(name, self._places) from None

    def __iter__(self) -> Iterator[Account]:
        return iter([place.account for place in self._places.values()])

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    @property
    def systemAccount(self) -> str:
        return self._system

    @property
    def system(self) -> Account | None:
        """The system account itself; C{None} if there is none."""
        place = self._places.get(self._system)
        return None if place is None else place.account

    def names(self) -> Iterable[str]:
        return list(self._places)

    def connections(self, name: str) -> int:
        return self._places[name].connections

    def leafnodes(self, name: str) -> int:
        return self._places[name].leafnodes

    def limits(self, name: str) -> AccountLimits:
        return self._places[name].limits

    def admit(self, grant: Grant, kind: Kind = Kind.CLIENT) -> Bus:
        """Count a connection into its account; L{errors.ConnectionLimit} if it is full."""
        place = self._places[grant.account]
        if place.leaving:
            raise KeyError(grant.account)
        maximum, count = place.limits.max_connections, place.connections
        if kind in _LEAFS:
            maximum, count = place.limits.max_leafnodes, place.leafnodes
        if maximum != UNLIMITED and count >= maximum:
            raise errors.ConnectionLimit(errors.MAX_ACCOUNT_CONNECTIONS)
        if kind in _LEAFS:
            place.leafnodes += 1
        else:
            place.connections += 1
        return place.account.busFor(kind)

    def dismiss(self, grant: Grant, kind: Kind = Kind.CLIENT) -> None:
        place = self._places[grant.account]
        if kind in _LEAFS:
            place.leafnodes -= 1
        else:
            place.connections -= 1
        self._forget(grant.account)

    def isSystem(self, account: str) -> bool:
        return bool(self._system) and account == self._system


class LinkBuses:
    def __init__(self, accounts: AccountRegistry, kind: Kind) -> None:
        self._accounts = accounts
        self._kind = kind

    def busOf(self, account: str) -> Bus | None:
        try:
            return self._accounts[account].busFor(self._kind)
        except KeyError:
            return None

    def names(self) -> Iterable[str]:
        return self._accounts.names()
