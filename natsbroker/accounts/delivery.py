"""
The delivery of messages in an account.

A message reaches every matching plain subscription that its origin reaches, exactly one member of
every queue group, and every other broker at most once. A service takes only messages of an origin
with the permission: messages of the broker itself are not requests. This is the readable path. The
compiled lane in front of it does the same faster. If a subscriber raises, others still get the
message. If a filter raises, the message is dropped. Both errors are logged.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import chain
from operator import itemgetter
from random import Random
from typing import Any

from natsbroker import hot
from natsbroker.accounts.filters import PublishFilters
from natsbroker.accounts.gateways import GatewayOutput, GatewayTargets
from natsbroker.accounts.relays import ImportPath, Relay
from natsbroker.accounts.tracing import (
    CLOSED_CLIENT,
    CLOSED_SUBSCRIPTION,
    NO_ECHO,
    SERVICE,
    SUBSCRIPTION_DENIED,
)
from natsbroker.accounts.withdrawn import WithdrawnResponses
from natsbroker.interfaces import ILinkSubscriber, ITracedSubscriber
from natsbroker.pure.backlog import DIVISIBLE, RECEIVER
from natsbroker.subjects.interestfilter import clusterIn, clusterOf
from natsbroker.wire.reach import REACH
from natsbroker.wire.values import EVERY_GROUP, GroupMessage, Kind, Message

#: The name of a queue group, its members here, and those behind links.
Group = tuple[bytes, tuple[hot.Subscription, ...], tuple[hot.Subscription, ...]]

#: Links whose sender has chosen the queue groups: without a list, only plain subscriptions.
DIRECTED = frozenset({Kind.ROUTE, Kind.GATEWAY, Kind.HUB, Kind.SPOKE})

#: Servers that tell each other by name who has members of a queue group.
_PEERS = DIRECTED - {Kind.GATEWAY}

#: Takes the rest of a delivery to many receivers.
Later = Callable[[Generator[None, None, int]], None]

#: The distance of members at other brokers of this host.
_NEIGHBOUR = 0

#: The receivers that one step of a delivery serves.
_STEP = 16

#: Origins whose replies return to the clusters of their requests.
_OURS = frozenset({Kind.CLIENT, Kind.INTERNAL})


class Delivery:
    """
    @ivar account: the name of the account, for traces.
    @ivar filters: the account's publish filters.
    @ivar withdrawn: the responses to which services of this broker deliver nothing any more.
    """

    def __init__(
        self,
        matcher: hot.Matcher,
        gateways: GatewayTargets,
        random: Random,
        batch: hot.FlushBatch,
        failed: Callable[[str, str], None],
        finished: Callable[[hot.Subscription], None],
    ) -> None:
        self.filters = PublishFilters(matcher, failed)
        self.account = ""
        self.withdrawn = WithdrawnResponses()
        self._batch = batch
        self._random = random
        self._matcher = matcher
        self._gateways = gateways
        self._internal = hot.InternalPublisher(matcher)
        self._failed = failed
        self._finished = finished

    def publish(
        self,
        kind: Kind,
        message: Message,
        path: ImportPath | None = None,
        later: Later | None = None,
    ) -> int:
        asked = message
        filtered = self.filters.filtered(message, kind)
        if filtered is None:
            return 0
        message = filtered
        if kind is Kind.INTERNAL and message.subject in self.withdrawn:
            return 0
        gateways = self._gateways
        matches = self._matcher.match(message.subject)
        # Only here is it decided whether a request has an author.
        if matches.isServed and (asked.origin is None or (path is not None and path.isAnswer)):
            matches = unserved(matches)
        elif message.via:
            gateways.asked(message)
        elif kind in _OURS and gateways.replies:
            returned = gateways.returned(message)
            if returned is not None and (reached := self._publishToLinks(kind, returned)):
                return reached
        if matches.counter is not None and kind is Kind.CLIENT and path is None:
            matches.counter.add(1, len(message.body), matches.copies)
        count = len(matches.plain) + len(matches.groups)
        self._batch.work += self._matcher.takeCost() + count % _STEP * RECEIVER
        steps = self._deliver(kind, message, matches, path, asked)
        if later is not None and count >= DIVISIBLE:
            later(steps)
            return -1
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return int(end.value)

    def _deliver(
        self,
        kind: Kind,
        message: Message,
        matches: hot.Matches,
        path: ImportPath | None,
        asked: Message,
    ) -> Generator[None, None, int]:
        """
        Deliver to some receivers at each step, and give their number.

        @param asked: the message before filters, which determines the groups.
        """
        queues, delivered = asked.queues, 0
        links: dict[int, tuple[ILinkSubscriber, list[bytes]]] = {}
        if not isinstance(asked, GroupMessage):
            for place, subscription in enumerate(matches.plain, 1):
                if self.deliverTo(subscription, message, kind, path):
                    delivered += 1
                if not place % _STEP:
                    self._batch.work += _STEP * RECEIVER
                    yield
            if matches.links:
                links = self._plainLinks(kind, matches, message)
        for place, group in enumerate(matches.groups, 1):
            if not place % _STEP:
                self._batch.work += _STEP * RECEIVER
                yield
            if queues is not None:
                if group[0] not in queues:
                    continue
            elif kind in DIRECTED and path is None:
                continue
            if self._deliverToGroup(kind, group, message, links, path):
                delivered += 1
            elif queues and queues is not EVERY_GROUP and isDeserted(kind, group, message):
                self._chooseLink(successors(kind, matches, group, message), group[0], links)
        self._forward(links, message)
        return delivered + len(links)

    def _publishToLinks(self, kind: Kind, message: Message) -> int:
        matches = self._matcher.match(message.subject)
        links = self._plainLinks(kind, matches, message)
        self._forward(links, message)
        return len(links)

    def _forward(
        self, links: dict[int, tuple[ILinkSubscriber, list[bytes]]], message: Message
    ) -> None:
        """Forward a message to links. Gateways come last in a trace, as in nats-server."""
        trace = message.trace
        if trace is None:
            for link, chosen in links.values():
                link.forward(message, tuple(chosen))
            return
        targets = [(isinstance(link, GatewayOutput), link, names) for link, names in links.values()]
        for _, link, chosen in sorted(targets, key=itemgetter(0)):
            copy = trace.forwarded(link, message, self.account)
            if copy is not None:
                link.forward(copy, tuple(chosen))

    def publishInternal(self, kind: Kind, subject: bytes, payload: bytes) -> int:
        delivered: int = self._internal.publishInternal(subject, payload)
        return delivered or self.publish(kind, Message(subject, payload))

    def publishBatch(self, kind: Kind, subject: bytes, payloads: list[bytes]) -> int:
        delivered: int = self._internal.publishBatch(subject, payloads)
        if not delivered:
            for payload in payloads:
                delivered = self.publish(kind, Message(subject, payload))
        return delivered

    def hasInterest(
        self, kind: Kind, subject: bytes, hops: int = 0, isRequest: bool = True
    ) -> bool:
        if kind is Kind.INTERNAL and subject in self.withdrawn:
            return False
        matches = self._matcher.match(subject)
        if not (matches.plain or matches.links or matches.groups):
            return False
        if matches.isServed and not isRequest:
            matches = unserved(matches)
        local = list(matches.plain)
        far = list(matches.links)
        for _, here, there in matches.groups:
            local += here
            far += there
        reached = REACH[kind]
        return any(subscription.kind in reached for subscription in far) or any(
            subscription.kind in reached
            and (
                not isinstance(subscription.subscriber, Relay)
                or subscription.subscriber.reaches(subject, kind, hops)
            )
            for subscription in local
        )

    def isWanted(self, subject: bytes) -> bool:
        matches = self._matcher.match(subject)
        reached = REACH[Kind.GATEWAY]
        return any(link.kind in reached and not link.closed for link in matches.links) or any(
            not isinstance(link.subscriber, Relay)
            or (link.subscriber.isAdvertised and link.subscriber.reaches(subject, Kind.GATEWAY, 0))
            for link in matches.plain
            if link.kind in reached
        )

    def _plainLinks(
        self, kind: Kind, matches: hot.Matches, message: Message
    ) -> dict[int, tuple[ILinkSubscriber, list[bytes]]]:
        reached = REACH[kind]
        links: dict[int, tuple[ILinkSubscriber, list[bytes]]] = {}
        for subscription in matches.links:
            subscriber = subscription.subscriber
            if subscription.kind in reached and mayForward(subscription, message):
                key = linkOf(subscription)
                if key not in links:
                    links[key] = (subscriber, [])
                    subscription.delivered += 1
        return links

    def _deliverToGroup(
        self,
        kind: Kind,
        group: Group,
        message: Message,
        links: dict[int, tuple[ILinkSubscriber, list[bytes]]],
        path: ImportPath | None,
    ) -> bool:
        """Return whether a member here took it. A member behind a link is added to C{links}."""
        name, here, there = group
        neighbour = self.neighbourFor(kind, here, there) if there else None
        if neighbour is not None:
            self._chooseLink([neighbour], name, links)
            return False
        if here:
            start = self._random.randrange(len(here)) if len(here) > 1 else 0
            for subscription in here[start:] + here[:start]:
                if self.deliverTo(subscription, message, kind, path):
                    return True
        reached = REACH[kind]
        candidates = [
            subscription
            for subscription in there
            if subscription.kind in reached and mayForward(subscription, message)
        ]
        self._chooseLink(nearest(candidates), name, links)
        return False

    def neighbourFor(
        self,
        kind: Kind,
        here: tuple[hot.Subscription, ...],
        there: tuple[hot.Subscription, ...],
    ) -> hot.Subscription | None:
        """
        The neighbour whose member of a queue group takes a message; C{None} for a member here. All
        members at the brokers of one host, including this one, are equally likely.
        """
        if Kind.ROUTE not in REACH[kind]:
            return None
        neighbours = [
            member for member in there if not member.closed and distanceOf(member) == _NEIGHBOUR
        ]
        if not neighbours:
            return None
        weights = [len(here), *(member.weight for member in neighbours)]
        return self._random.choices([None, *neighbours], weights)[0]

    def _chooseLink(
        self,
        candidates: list[hot.Subscription],
        queue: bytes,
        links: dict[int, tuple[ILinkSubscriber, list[bytes]]],
    ) -> None:
        if not candidates:
            return
        weights = [subscription.weight for subscription in candidates]
        chosen = self._random.choices(candidates, weights)[0]
        chosen.delivered += 1
        links.setdefault(linkOf(chosen), (chosen.subscriber, []))[1].append(queue)

    def deliverTo(
        self,
        subscription: hot.Subscription,
        message: Message,
        kind: Kind,
        path: ImportPath | None,
    ) -> bool:
        """
        Deliver to a subscription. Return whether a receiver took the message. None takes it if the
        subscription has ended or may not have it.
        """
        subscriber = subscription.subscriber
        if message.trace is not None:
            taken = self._traceTo(subscription, message, kind)
            if taken is not None:
                return taken
        if _refusal(subscription, message):
            return False
        if subscription.outbox is None:
            if isinstance(subscriber, Relay):
                subscription.delivered += 1
                return subscriber.relay(message, kind, path)
            if subscriber is message.origin or subscription.kind not in REACH[kind]:
                return False
        subscription.delivered += 1
        try:
            subscriber.deliver(message, subscription.tag)
        except BaseException:
            message.check()  # The wrong message may be the publisher's mistake.
            self._failed("subscriber", f"The subscriber to {subscription.pattern!r} failed")
        if subscription.maximum and subscription.delivered >= subscription.maximum:
            self._finished(subscription)
        return True

    def _traceTo(self, subscription: hot.Subscription, message: Message, kind: Kind) -> bool | None:
        """
        Trace a receiver, or the reason why it gets nothing; C{None} if the message is to be
        delivered.
        """
        trace = message.trace
        subscriber: Any = subscription.subscriber
        if subscription.outbox is None:
            if isinstance(subscriber, Relay):
                return None
            if subscriber is message.origin or subscription.kind not in REACH[kind]:
                return False
            stream = getattr(subscriber, "subscriber", subscriber)
            if not subscription.closed and ITracedSubscriber.providedBy(stream):
                if stream is not subscriber:
                    subscriber.flush()
                subscription.delivered += not trace.isOnly
                stream.deliverTraced(message)
                return True
        why = _refusal(subscription, message)
        peer = getattr(subscriber, "tracePeer", SERVICE)
        trace.egress(peer, self.account, subscription.pattern, subscription.queue, why)
        if why:
            return False
        # A service that does not answer is no receiver: the requester gets 503 at once.
        return not isinstance(subscription, hot.ServiceSubscription) if trace.isOnly else None


def _refusal(subscription: hot.Subscription, message: Message) -> str:
    """The reason, in a trace's words, why a subscription gets no message; empty for none."""
    outbox, permissions = subscription.outbox, subscription.permissions
    if subscription.closed:
        return CLOSED_SUBSCRIPTION
    if outbox is None:
        return ""
    if outbox.closed:
        return CLOSED_CLIENT
    if subscription.subscriber is message.origin and not outbox.echo:
        return NO_ECHO
    if permissions is not None and not permissions.mayDeliver(message.subject, subscription.queue):
        return SUBSCRIPTION_DENIED
    return ""


def unserved(matches: hot.Matches) -> hot.Matches:
    """
    The receivers of a message without a user, to a subject that C{isServed}. They include neither
    services nor other brokers, which would take the message for somebody's request.
    """
    groups = [(name, _clients(here)) for name, here, _ in matches.groups]
    return hot.Matches(
        _clients(matches.plain), tuple((name, here, ()) for name, here in groups if here), ()
    )


def _clients(subscriptions: tuple[hot.Subscription, ...]) -> tuple[hot.Subscription, ...]:
    return tuple(
        subscription
        for subscription in subscriptions
        if not isinstance(subscription, hot.ServiceSubscription)
    )


def linkOf(subscription: hot.Subscription) -> int:
    outbox = subscription.outbox
    return id(subscription.subscriber if outbox is None else outbox)


def mayForward(subscription: hot.Subscription, message: Message) -> bool:
    """
    Whether a link may get a message. Its origin may not, nor another leafnode of the origin's
    cluster.
    """
    return _linkBehind(subscription) is not message.origin and _mayTake(subscription, message)


def _linkBehind(subscription: hot.Subscription) -> Any:
    subscriber: Any = subscription.subscriber
    return getattr(subscriber, "leafnode", subscriber)


def _mayTake(subscription: hot.Subscription, message: Message) -> bool:
    """
    Whether a leafnode may take a message. Leafnodes of one cluster get messages that were imported
    for them here from another account. Hubs, in one cluster or in none, do not: they may import in
    the opposite direction. (As in nats-server.)
    """
    if subscription.closed:
        return False
    subscriber: Any = subscription.subscriber
    origin: Any = message.origin
    cluster = clusterOf(subscriber)
    link = _linkBehind(subscription)
    # The kind of the subscription of a hub that workers share is that of a spoke.
    if getattr(link, "kind", None) != Kind.HUB:
        return not cluster or cluster != clusterIn(subscriber.grant.account, origin)
    if getattr(origin, "kind", None) == Kind.HUB and not (link.isNamed or origin.isNamed):
        return bool(link.grant.account == origin.grant.account)
    return not cluster or cluster != clusterOf(origin)


def nearest(members: list[hot.Subscription]) -> list[hot.Subscription]:
    if not members:
        return members
    least = min(map(distanceOf, members))
    return [member for member in members if distanceOf(member) == least]


def distanceOf(subscription: hot.Subscription) -> int:
    """
    The distance of an origin: neighbours come before this cluster, this cluster before leafnodes,
    and leafnodes before other clusters.
    """
    if subscription.kind == Kind.GATEWAY:
        return 3
    subscriber = subscription.subscriber
    if subscription.kind != Kind.ROUTE or clusterOf(subscriber):
        return 2
    return _NEIGHBOUR if getattr(subscriber, "isNeighbour", False) else 1


def isDeserted(kind: Kind, group: Group, message: Message) -> bool:
    """
    Whether a queue group that another server chose has no member left here. A member that may not
    have the message counts as left. Otherwise servers would pass the message round for ever.
    """
    _, here, there = group
    return kind in _PEERS and not any(
        not _isGone(member)
        and member.kind in REACH[kind]
        and member.subscriber is not message.origin
        for member in chain(here, there)
    )


def _isGone(member: hot.Subscription) -> bool:
    """
    Whether a queue member gets no more messages. A client's subscriptions close all at once, but
    many of their shadows close in a later batch.
    """
    if isinstance(member, hot.Shadow) and not member.closed:
        member = member.original
    return member.closed or (member.outbox is not None and member.outbox.closed)


def successors(
    kind: Kind, matches: hot.Matches, group: Group, message: Message
) -> list[hot.Subscription]:
    """
    The members that take over a message whose queue group is deserted here, as in nats-server: at
    other servers of the sender's kind, and at the sender if no other server has one. None of them
    sends it back here, since each learned before it that the group is gone.

    Plain subscribers at a server that takes it over get the message again, since the sender has
    reached them before. So servers without plain subscribers come first.
    """
    takers = [member for member in group[2] if member.kind == kind and _mayTake(member, message)]
    plain = {linkOf(link) for link in matches.links}
    ranks = [(taker.subscriber is message.origin, linkOf(taker) in plain) for taker in takers]
    return [taker for taker, rank in zip(takers, ranks, strict=True) if rank == min(ranks)]
