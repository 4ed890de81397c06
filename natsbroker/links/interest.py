"""
Interest between two members of a cluster, in both directions. The peer's is in the account's
subscriptions until it is withdrawn or the connection ends; for an unknown account it is kept until
that exists.
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
    The interest that passes over a link.

    @ivar taken: whose C{mayDeliver} is asked about each message for partly honoured interest;
        C{None} for nobody's.
    """

    @property
    def taken(self) -> Any: ...

    def mayTell(self, pattern: bytes) -> bool: ...

    def takes(self, pattern: bytes, queue: bytes = b"") -> Verdict: ...


@dataclass(slots=True)
class RoutePermissions:
    """Interest that other members receive, and of them that is honoured; C{None} for all."""

    told: PermissionSet | None = None
    taken: SubscribePermissions | None = None
    _grant: Grant = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._grant = Grant(publish=self.told, subscribe=self.taken)

    def mayTell(self, pattern: bytes) -> bool:
        return self._grant.may(Verb.PUBLISH, pattern) is not Verdict.DENIED

    def takes(self, pattern: bytes, queue: bytes = b"") -> Verdict:
        return self._grant.may(Verb.SUBSCRIBE, pattern, queue)


#: What the peer was told of: a pattern, a queue group, and the cluster of a leafnode.
_Told = tuple[bytes, bytes, bytes]


@implementer(IClusterInterestWatcher)
@dataclass(eq=False)
class InterestAdvertiser:
    """
    @ivar gained: sends the peer a pattern, a queue group, its weight, and the cluster of the
        leafnode; C{lost} withdraws it.
    @ivar interestFilter: the subscriptions that count; by default those of this broker.
    """

    bus: IMessageBus
    permissions: LinkPermissions
    gained: Callable[[bytes, bytes, int, bytes], None]
    lost: Callable[[bytes, bytes, bytes], None]
    interestFilter: InterestFilter | None = None
    _told: set[_Told] = field(default_factory=set, init=False)
    _stops: list[Callable[[], None]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._watch()

    def _watch(self) -> None:
        """Report all interest in shares; the former watch goes on until then."""
        former = list(self._stops)

        def told() -> None:
            for stop in former:
                stop()
            self._stops = [stopping for stopping in self._stops if stopping not in former]

        stop = self.bus.watchInterest(self, self.interestFilter, True, told)
        self._stops.append(stop)

    def interestGained(
        self, pattern: bytes, queue: bytes, weight: int, origin: bytes = b""
    ) -> None:
        if self.permissions.mayTell(pattern):
            self._told.add((pattern, queue, origin))
            self.gained(pattern, queue, weight, origin)
        else:
            self.interestLost(pattern, queue, origin)

    def interestWeightChanged(
        self, pattern: bytes, queue: bytes, weight: int, origin: bytes = b""
    ) -> None:
        if (pattern, queue, origin) in self._told:
            self.gained(pattern, queue, weight, origin)

    def interestLost(self, pattern: bytes, queue: bytes, origin: bytes = b"") -> None:
        if (pattern, queue, origin) in self._told:
            self._told.discard((pattern, queue, origin))
            self.lost(pattern, queue, origin)

    def permit(self, permissions: LinkPermissions) -> None:
        """Use other permissions: withdraw forbidden interest, and report the rest again."""
        self.permissions = permissions
        self._watch()

    def end(self, isHeard: bool) -> None:
        for stop in self._stops:
            stop()
        told, self._told = self._told, set()
        if isHeard:
            for key in told:
                self.lost(*key)

    def __len__(self) -> int:
        return len(self._told)


#: Tells the interests of one account apart: the cluster of the leafnode that they are behind, the
#: pattern, and the queue group.
_Key = tuple[bytes, bytes, bytes]


#: Where interest belongs: the account's bus, and the target and the tag of its subscriptions.
_Place = tuple[IMessageBus, Any, Any]


@dataclass(eq=False)
class RemoteInterest:
    """
    @ivar target: gives the L{ILinkSubscriber} of an account, and the cluster of a leafnode; an
        L{IOutboxLink} may be written to directly.
    """

    busOf: Callable[[str], IMessageBus | None]
    target: Callable[[bytes, bytes], Any]
    label: object
    permissions: LinkPermissions = field(default_factory=RoutePermissions)
    _weights: dict[bytes, dict[_Key, int]] = field(default_factory=dict, init=False)
    _made: dict[bytes, dict[_Key, Any]] = field(default_factory=dict, init=False)
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
        made = self._made.get(account, {}).get(key)
        if made is not None:
            made.reweigh(max(weight, 1))

    def lost(self, interest: LinkInterest) -> None:
        key = interest.origin, interest.pattern, interest.queue
        weights = self._weights.get(interest.account, {})
        weights.pop(key, None)
        made = self._made.get(interest.account, {}).pop(key, None)
        if made is not None:
            made.cancel()
        if not weights:
            self._weights.pop(interest.account, None)
            self._made.pop(interest.account, None)

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
        verdict = self.permissions.takes(pattern, queue)
        if verdict is Verdict.DENIED:
            _log.debug(
                "{link} - Can not export {subject}, ignoring remote subscription request",
                link=str(self.label),
                subject=inQuotes(pattern),
            )
            return
        bus, target, tag = place
        try:
            made: Any = bus.subscribe(pattern, target, tag, queue, max(weight, 1))
        except (ValueError, TooManyShapes, errors.BrokerError) as error:
            _log.error(
                "{link} - Could not insert subscription: {why}",
                link=str(self.label),
                why=logText(str(error)),
            )
            return
        if verdict is Verdict.FILTERED:
            made.permissions = self.permissions.taken
            bus.refresh()
        known = self._made.get(account)
        if known is None:
            known = self._made[account] = {}
            self._buses[account] = bus
        known[key] = made

    def permit(self, permissions: LinkPermissions) -> None:
        if permissions.taken == self.permissions.taken:
            return
        self.permissions = permissions
        self._cancel()
        self.accountsChanged()

    def accountsChanged(self) -> None:
        self._places.clear()
        for account in [name for name in self._made if self._isUnknown(name)]:
            self._cancelAll(account)
        for account, weights in list(self._weights.items()):
            if not self._isUnknown(account):
                made = self._made.get(account, {})
                missing = len(made) < len(weights)
                for key in [missed for missed in weights if missed not in made] if missing else ():
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
        for account in list(self._made):
            self._cancelAll(account)

    def _cancelAll(self, account: bytes) -> None:
        made = self._made.pop(account, None)
        if made:
            self._buses[account].cancelAll(made.values())

    def __len__(self) -> int:
        return sum(map(len, self._weights.values()))

    def counted(self) -> Iterator[tuple[LinkInterest, int]]:
        """All interest, and how many messages the peer has had for each."""
        for interest in list(self):
            key = interest.origin, interest.pattern, interest.queue
            made = self._made.get(interest.account, {}).get(key)
            yield interest, 0 if made is None else made.delivered

    def __iter__(self) -> Iterator[LinkInterest]:
        for account, weights in self._weights.items():
            for (origin, pattern, queue), weight in weights.items():
                yield LinkInterest(account, origin, pattern, queue, weight)
