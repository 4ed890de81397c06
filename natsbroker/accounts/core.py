"""An account's subscriptions, interest, mappings and delivery, as other accounts need them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from random import Random
from typing import Any

from twisted.internet.interfaces import IReactorTime
from zope.interface import classImplements, implementer

from natsbroker import hot
from natsbroker.accounts.delivery import Delivery
from natsbroker.accounts.gateways import GatewayTargets
from natsbroker.accounts.interest import AccountInterest
from natsbroker.accounts.relays import Relay, relaySubscription
from natsbroker.accounts.tracing import AccountTracing
from natsbroker.interfaces import ISubjectRouter, ISubscription
from natsbroker.pure.backlog import SUBSCRIPTION, TRACED
from natsbroker.runtime.responder import Describe
from natsbroker.subjects.mapping import MappingTable
from natsbroker.wire.values import Kind, Message

classImplements(hot.Subscription, ISubscription)


@implementer(IReactorTime)
class _NoClock:
    def _refuse(self, *args: Any, **named: Any) -> Any:
        raise RuntimeError("this account was made without a clock")

    seconds: Any = _refuse
    callLater: Any = _refuse
    getDelayedCalls: Any = _refuse


_NO_CLOCK: Any = _NoClock()


class _MappedSubjects(Relay):
    """
    The subscriber by which leafnodes learn that they may publish a mapped subject. It receives
    nothing.
    """

    __slots__ = ()

    isAdvertised = False


_MAPPED = _MappedSubjects()


#: The kinds of code that an account calls and that may fail; C{gateway} is the table of a policy.
FAILING = ("filter", "gateway", "router", "subscriber", "watcher")


def _passOn(kind: str, text: str) -> None:
    raise


@dataclass(frozen=True, slots=True)
class AccountDependencies:
    """
    The common parts of a broker's accounts.

    @ivar clock: an account without one cannot serve others.
    @ivar failed: called while an exception is handled, with one of L{FAILING} and a sentence for
        the log; by default the exception reaches the caller.
    @ivar remembers: whether matches are cached.
    @ivar describe: the description of this server in traces; C{None} if no message is traced.
    """

    batch: hot.FlushBatch
    random: Random = field(default_factory=Random)
    clock: IReactorTime = _NO_CLOCK
    failed: Callable[[str, str], None] = _passOn
    remembers: bool = True
    describe: Describe | None = None


class AccountCore:
    """
    @ivar matcher: the cached matches of a subject; the lane reads them too.
    @ivar location: gives the name of this broker's cluster, empty for none, and those of the other
        clusters that are joined to it, nearest first.
    @ivar removals: the number of subscriptions that were removed from the router so far.
    """

    def __init__(self, name: str, router: ISubjectRouter, given: AccountDependencies) -> None:
        self.name = name
        self.random = given.random
        self.clock = given.clock
        self.isSystem = False
        self.removals = 0
        self.location: Callable[[], tuple[str, tuple[str, ...]]] = lambda: ("", ())
        self._failed = failed = given.failed
        self.failed = partial(failed, "subscriber")
        self._router = router
        self._batch = batch = given.batch
        self._mapping: MappingTable | None = None
        self.interest = AccountInterest(
            router,
            lambda: chain(self.gateways.known(), self._mappedPatterns()),
            batch,
            partial(failed, "watcher"),
        )
        self.gateways = GatewayTargets(
            self, router, self.interest, self.clock, partial(failed, "gateway"), given.remembers
        )
        self.matcher = self.gateways.matcher
        self.delivery = Delivery(
            self.matcher, self.gateways, self.random, batch, failed, self.subscriptionFinished
        )
        self.delivery.account = name
        self.tracing: AccountTracing | None = None
        if given.describe is not None:
            self.tracing = AccountTracing(
                name,
                given.describe,
                lambda: self.clock.seconds(),
                self.random,
                self._sendTrace,
            )
        router.watchChanges(self.matcher.changed)

    def _sendTrace(self, message: Message) -> None:
        self._batch.work += TRACED + len(message.body)
        self.delivery.publish(Kind.INTERNAL, message)

    def subscriptions(self) -> Iterator[hot.Subscription]:
        return iter(self._router)

    def __len__(self) -> int:
        return len(self._router)

    def attach(self, subscription: hot.Subscription) -> None:
        """Add a relay's subscription; L{natsbroker.errors.BrokerError} if the router is full."""
        pattern = subscription.pattern
        self._router.insert(pattern, subscription)
        self.matcher.changed(pattern)
        self.interest.added(subscription)
        if getattr(subscription.subscriber, "isAdvertised", True):
            self.gateways.subscribed(pattern)

    def detach(self, subscription: hot.Subscription) -> None:
        subscription.closed = True
        self.removals += 1
        self._router.remove(subscription.pattern, subscription)
        self.matcher.changed(subscription.pattern)
        self.interest.removed(subscription)

    def subscriptionCancelled(self, subscription: hot.Subscription) -> None:
        self._batch.work += SUBSCRIPTION
        self.removals += 1
        pattern = subscription.pattern
        try:
            self._router.remove(pattern, subscription)
        except BaseException:
            # A subscription that the router still finds is closed, so it receives nothing.
            self._failed("router", "The router failed to remove a subscription")
        self.matcher.changed(pattern)
        self.interest.removed(subscription)

    def subscriptionReweighed(self, subscription: hot.Subscription, weight: int) -> None:
        before, subscription.weight = subscription.weight, weight
        self.interest.reweighed(subscription, before)

    def subscriptionFinished(self, subscription: hot.Subscription) -> None:
        subscriber, tag = subscription.subscriber, subscription.tag
        subscription.closed = True
        self.subscriptionCancelled(subscription)
        try:
            subscriber.subscriptionEnded(tag)
        except BaseException:
            self.failed(f"The subscriber to {subscription.pattern!r} failed")

    def mapSubjects(self, table: MappingTable | None) -> None:
        if table is not None and not table.mappings:
            table = None
        if table is self._mapping:
            return
        for pattern in self._mappedPatterns():
            self.interest.removed(pattern, True)
        self._mapping = table
        for pattern in self._mappedPatterns():
            self.interest.added(pattern, True)
        self.matcher.mapSubject = None if table is None else table.fixed
        self.matcher.changed(b">")

    def _mappedPatterns(self) -> Iterator[hot.Subscription]:
        for mapping in () if self._mapping is None else self._mapping.mappings:
            yield relaySubscription(self, mapping.source, _MAPPED)

    def traceTo(self, dest: bytes, sampling: int) -> None:
        """Trace a percentage of messages with C{traceparent} to a subject; empty for none."""
        if self.tracing is not None:
            self.tracing.dest, self.tracing.sampling = dest, sampling
            self.matcher.tracesParents = bool(dest)
            self.matcher.changed(b">")

    def mapped(self, subject: bytes) -> bytes:
        return subject if self._mapping is None else self._mapping.map(subject)
