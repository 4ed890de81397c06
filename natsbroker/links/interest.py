"""
Interest between two members of a cluster, in both directions. The peer's interest is among the
account's subscriptions until it is withdrawn or the connection ends. Interest in an unknown account
is kept until the account exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors
from natsbroker.connections.labels import inQuotes
from natsbroker.errors import logText
from natsbroker.interfaces import IClusterInterestWatcher, IMessageBus, IOutboxLink
from natsbroker.subjects.interestfilter import InterestFilter
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions, Verdict
from natsbroker.subjects.shapes import TooManyShapes
from natsbroker.wire.dialects.route import LinkInterest
from natsbroker.wire.grants import Grant, Verb

_log = Logger(namespace="natsbroker")


class LinkPermissions(Protocol):
    """
    The interest that passes over a link. A broker imports a pattern by sending the peer its
    interest, and exports one by accepting the peer's.

    @ivar exports: its C{mayDeliver} is called for each message to a pattern that is exported in
        part; C{None} if there is no such pattern.
    """

    @property
    def exports(self) -> Any: ...

    def mayImport(self, pattern: bytes) -> bool: ...

    def mayExport(self, pattern: bytes, queue: bytes = b"") -> Verdict: ...


@dataclass(slots=True)
class RoutePermissions:
    """The C{import} and C{export} of a cluster's C{permissions}; C{None} permits everything."""

    imports: PermissionSet | None = None
    exports: SubscribePermissions | None = None
    _grant: Grant = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._grant = Grant(publish=self.imports, subscribe=self.exports)

    def mayImport(self, pattern: bytes) -> bool:
        return self._grant.may(Verb.PUBLISH, pattern) is not Verdict.DENIED

    def mayExport(self, pattern: bytes, queue: bytes = b"") -> Verdict:
        return self._grant.may(Verb.SUBSCRIBE, pattern, queue)


#: Interest that the peer knows of: a pattern, a queue group, and the cluster of a leafnode.
_Advertised = tuple[bytes, bytes, bytes]


@implementer(IClusterInterestWatcher)
@dataclass(eq=False)
class InterestAdvertiser:
    """
    Sends the peer the interest of one account.

    @ivar gained: sends the peer a pattern, a queue group, its weight, and the cluster of the
        leafnode; C{lost} withdraws it.
    @ivar interestFilter: the subscriptions that count; by default those of this broker.
    """

    bus: IMessageBus
    permissions: LinkPermissions
    gained: Callable[[bytes, bytes, int, bytes], None]
    lost: Callable[[bytes, bytes, bytes], None]
    interestFilter: InterestFilter | None = None
    _advertised: set[_Advertised] = field(default_factory=set, init=False)
    _stops: list[Callable[[], None]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._watch()

    def _watch(self) -> None:
        """
        Report all interest, a share in each turn of the reactor. A former watch continues until
        that is done, so that no change is missed.
        """
        former = list(self._stops)

        def reported() -> None:
            for stop in former:
                stop()
            self._stops = [stopping for stopping in self._stops if stopping not in former]

        stop = self.bus.watchInterest(self, self.interestFilter, True, reported)
        self._stops.append(stop)

    def interestGained(
        self, pattern: bytes, queue: bytes, weight: int, origin: bytes = b""
    ) -> None:
        if self.permissions.mayImport(pattern):
            self._advertised.add((pattern, queue, origin))
            self.gained(pattern, queue, weight, origin)
        else:
            self.interestLost(pattern, queue, origin)

    def interestWeightChanged(
        self, pattern: bytes, queue: bytes, weight: int, origin: bytes = b""
    ) -> None:
        if (pattern, queue, origin) in self._advertised:
            self.gained(pattern, queue, weight, origin)

    def interestLost(self, pattern: bytes, queue: bytes, origin: bytes = b"") -> None:
        if (pattern, queue, origin) in self._advertised:
            self._advertised.discard((pattern, queue, origin))
            self.lost(pattern, queue, origin)

    def permit(self, permissions: LinkPermissions) -> None:
        """Use other permissions: withdraw forbidden interest, and report the rest again."""
        self.permissions = permissions
        self._watch()

    def end(self, isConnected: bool) -> None:
        """End the watch. A peer that is still connected is sent the end of all interest."""
        for stop in self._stops:
            stop()
        advertised, self._advertised = self._advertised, set()
        if isConnected:
            for key in advertised:
                self.lost(*key)

    def __len__(self) -> int:
        return len(self._advertised)


#: Identifies an interest of one account: the cluster of the leafnode behind which it is, the
#: pattern, and the queue group.
_Key = tuple[bytes, bytes, bytes]


#: Where interest belongs: the account's bus, and the target and the tag of its subscriptions.
_Place = tuple[IMessageBus, Any, Any]


@dataclass(eq=False)
class RemoteInterest:
    """
    The peer's interest in all accounts.

    @ivar target: makes the L{ILinkSubscriber} of an account and the cluster of a leafnode; an
        L{IOutboxLink} may be written to directly.
    """

    busOf: Callable[[str], IMessageBus | None]
    target: Callable[[bytes, bytes], Any]
    label: object
    permissions: LinkPermissions = field(default_factory=RoutePermissions)
    _weights: dict[bytes, dict[_Key, int]] = field(default_factory=dict, init=False)
    _subscriptions: dict[bytes, dict[_Key, Any]] = field(default_factory=dict, init=False)
    _buses: dict[bytes, IMessageBus] = field(default_factory=dict, init=False)
    _places: dict[tuple[bytes, bytes], _Place] = field(default_factory=dict, init=False)

    def gained(self, interest: LinkInterest) -> None:
        account, origin, pattern, queue, weight = interest
        key = origin, pattern, queue
        weights = self._weights.get(account)
        if weights is None:
            weights = self._weights[account] = {}
        if key not in weights:
            weights[key] = weight
            self._subscribe(account, key, weight)
            return
        weights[key] = weight
        subscription = self._subscriptions.get(account, {}).get(key)
        if subscription is not None:
            subscription.reweigh(max(weight, 1))

    def lost(self, interest: LinkInterest) -> None:
        key = interest.origin, interest.pattern, interest.queue
        weights = self._weights.get(interest.account, {})
        weights.pop(key, None)
        subscription = self._subscriptions.get(interest.account, {}).pop(key, None)
        if subscription is not None:
            subscription.cancel()
        if not weights:
            self._weights.pop(interest.account, None)
            self._subscriptions.pop(interest.account, None)

    def _place(self, account: bytes, origin: bytes) -> _Place | None:
        place = self._places.get((account, origin))
        if place is None:
            bus = self.busOf(account.decode("utf-8", "surrogateescape"))
            if bus is None:
                return None
            target: Any = self.target(account, origin)
            tag = target.prefix if IOutboxLink.providedBy(target) else None
            place = self._places[account, origin] = bus, target, tag
        return place

    def _subscribe(self, account: bytes, key: _Key, weight: int) -> None:
        origin, pattern, queue = key
        place = self._place(account, origin)
        if place is None:
            _log.error(
                "{link} - Unknown account {account} for remote subject {subject}",
                link=str(self.label),
                account=inQuotes(account),
                subject=inQuotes(pattern),
            )
            return
        verdict = self.permissions.mayExport(pattern, queue)
        if verdict is Verdict.DENIED:
            _log.debug(
                "{link} - Can not export {subject}, ignoring remote subscription request",
                link=str(self.label),
                subject=inQuotes(pattern),
            )
            return
        bus, target, tag = place
        try:
            subscription: Any = bus.subscribe(pattern, target, tag, queue, max(weight, 1))
        except (ValueError, TooManyShapes, errors.BrokerError) as error:
            _log.error(
                "{link} - Could not insert subscription: {why}",
                link=str(self.label),
                why=logText(str(error)),
            )
            return
        if verdict is Verdict.FILTERED:
            subscription.permissions = self.permissions.exports
            bus.refresh()
        known = self._subscriptions.get(account)
        if known is None:
            known = self._subscriptions[account] = {}
            self._buses[account] = bus
        known[key] = subscription

    def permit(self, permissions: LinkPermissions) -> None:
        if permissions.exports == self.permissions.exports:
            return
        self.permissions = permissions
        self._cancel()
        self.accountsChanged()

    def accountMade(self, account: bytes) -> None:
        """Deliver messages of a new account, in whose patterns the peer was interested before."""
        if account not in self._subscriptions:
            for key, weight in list(self._weights.get(account, {}).items()):
                self._places.pop((account, key[0]), None)
                self._subscribe(account, key, weight)

    def accountsChanged(self) -> None:
        self._places.clear()
        for account in [name for name in self._subscriptions if self._isUnknown(name)]:
            self._cancelAll(account)
        for account, weights in list(self._weights.items()):
            if not self._isUnknown(account):
                subscriptions = self._subscriptions.get(account, {})
                if len(subscriptions) < len(weights):
                    for key in [key for key in weights if key not in subscriptions]:
                        self._subscribe(account, key, weights[key])

    def _isUnknown(self, account: bytes) -> bool:
        return self.busOf(account.decode("utf-8", "surrogateescape")) is None

    def forget(self, account: bytes) -> None:
        self._weights.pop(account, None)
        self._cancelAll(account)

    def clear(self) -> None:
        self._cancel()
        self._weights.clear()

    def _cancel(self) -> None:
        for account in list(self._subscriptions):
            self._cancelAll(account)

    def _cancelAll(self, account: bytes) -> None:
        subscriptions = self._subscriptions.pop(account, None)
        if subscriptions:
            self._buses[account].cancelAll(subscriptions.values())

    def __len__(self) -> int:
        return sum(map(len, self._weights.values()))

    def counted(self) -> Iterator[tuple[LinkInterest, int]]:
        """All interest, with the number of messages that the peer received for each."""
        for interest in list(self):
            key = interest.origin, interest.pattern, interest.queue
            subscription = self._subscriptions.get(interest.account, {}).get(key)
            yield interest, 0 if subscription is None else subscription.delivered

    def __iter__(self) -> Iterator[LinkInterest]:
        for account, weights in self._weights.items():
            for (origin, pattern, queue), weight in weights.items():
                yield LinkInterest(account, origin, pattern, queue, weight)
