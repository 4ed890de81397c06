"""
The messages and interest that an account exchanges with other clusters.

Interest tables of other clusters are among the matches of a subject as if links had subscribed, so
that the readable path and the lane need no rules of their own. There is at most one match for each
cluster. For a queue group only the nearest cluster with members matches. Matches are dropped when a
table reports a change. A mapped subject goes to the cluster that mapped it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from twisted.internet.interfaces import IReactorTime
from zope.interface import Attribute, implementer

from natsbroker import hot
from natsbroker.accounts.interest import AccountInterest
from natsbroker.accounts.replies import GatewayReplyMap, RecentSubscriptions
from natsbroker.accounts.withdrawn import isPull
from natsbroker.interfaces import IInterestTable, ILinkSubscriber, IOutboxLink, ISubjectRouter
from natsbroker.wire.mapped import NEW, OLD, prefixOf
from natsbroker.wire.values import Kind, Message

#: The queue groups that are remembered for each cluster, as members of matches.
_GROUPS = 4096

_GATEWAY = int(Kind.GATEWAY)

#: The interest that leafnodes learn of while there are other clusters: mapped replies.
_MAPPED = ((NEW + b">", b""), (OLD + b">", b""))

#: The interest of a cluster that takes everything it has not refused.
_EVERYTHING = (b">", b"")


class IGatewayLink(IOutboxLink):
    """One account at another cluster, as an L{IOutboxLink} in the dialect of routes."""

    replyPrefix = Attribute(
        "The prefix of reply subjects that this cluster maps, in the form of the other cluster."
        " Answers with this prefix are sent back here."
    )

    gateway = Attribute("The name of the other cluster.")

    answers = Attribute(
        "The beginnings of subjects that the other cluster has mapped: a tuple of bytes. Messages "
        "to them go there and nowhere else."
    )


@implementer(ILinkSubscriber)
class GatewayOutput:
    """C{plain} stands for that cluster's plain subscriptions; C{distance} is in seconds."""

    def __init__(self, gateways: GatewayTargets, link: IGatewayLink, table: IInterestTable) -> None:
        self.table = table
        self.link = link
        self.distance = 0.0
        self.tracePeer = getattr(link, "tracePeer", None)
        self._gateways = gateways
        self._known: dict[tuple[bytes, bytes], None] | None = None
        self._groups: dict[bytes, hot.Subscription] = {}
        self.plain = self._subscription(b"")

    def _subscription(self, queue: bytes) -> hot.Subscription:
        link = self.link
        return hot.Subscription(
            self._gateways.owner, b">", queue, _GATEWAY, self, link.prefix, link.outbox
        )

    def group(self, queue: bytes) -> hot.Subscription:
        group = self._groups.get(queue)
        if group is None:
            if len(self._groups) >= _GROUPS:
                self._groups.clear()
            group = self._groups[queue] = self._subscription(queue)
        return group

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        # A reply subject that the other cluster cannot know yet is mapped, so that replies return.
        if message.reply and not message.via and self._gateways.isRecent(message.reply):
            message = message.withReplyPrefix(self.link.replyPrefix)
        self.link.forward(message, queues)

    def use(self, table: IInterestTable, pattern: bytes = b">", queue: bytes | None = None) -> None:
        """
        Use a table from now on.

        @param pattern: only answers for subjects that match it have changed.
        @param queue: only the known interest in this pattern with this queue group (empty for none)
            may have changed; C{None} for any.
        """
        if table is not self.table:
            self.table = table
            pattern, queue = b">", None
        self._gateways.changed(pattern)
        if self._known is None:
            return
        if queue is None:
            self._know(self._wanted())
        else:
            self._learn(_EVERYTHING, table.isOpen or table.wants(*_EVERYTHING))
            if (pattern, queue) != _EVERYTHING:
                self._learn((pattern, queue), table.wants(pattern, queue))

    def _wanted(self) -> dict[tuple[bytes, bytes], None]:
        always = (*_MAPPED, _EVERYTHING) if self.table.isOpen else _MAPPED
        return dict.fromkeys((*self.table.interests(), *always))

    def _learn(self, key: tuple[bytes, bytes], isWanted: bool) -> None:
        known, interest = self._known, self._gateways.interest
        if known is None or (key in known) is isWanted:
            return
        if isWanted:
            known[key] = None
            interest.added(self._standIn(*key), True)
        else:
            del known[key]
            interest.removed(self._standIn(*key), True)

    def _know(self, wanted: dict[tuple[bytes, bytes], None]) -> None:
        for key in [old for old in self._known or () if old not in wanted]:
            self._learn(key, False)
        for key in wanted:
            self._learn(key, True)

    def _standIn(self, pattern: bytes, queue: bytes) -> hot.Subscription:
        return hot.Subscription(
            self._gateways.owner, pattern, queue, _GATEWAY, self, self.link.prefix
        )

    def known(self) -> Iterator[hot.Subscription]:
        """The other cluster's interest as subscriptions; watchers learn of later changes."""
        if self._known is None:
            self._known = self._wanted()
        for key in self._known:
            yield self._standIn(*key)

    def place(self, distance: float) -> None:
        """
        Add a cluster with members of a queue group. Of several such clusters, the nearest one gets
        a message.
        """
        self.distance = distance
        self._gateways.order()

    def cancel(self) -> None:
        self.plain.closed = True
        for subscription in self._groups.values():
            subscription.closed = True
        if self._known is not None:
            self._know({})
            self._known = None
        self._gateways.remove(self)


class GatewayTargets:
    """
    @ivar replies: the replies that return to where their requests came from; C{None} before the
        first.
    @ivar hasPulled: whether messages of streams were requested from other clusters. These must then
        learn when a reply subject has lost its interest.
    """

    def __init__(
        self,
        owner: Any,
        router: ISubjectRouter,
        interest: AccountInterest,
        clock: IReactorTime,
        failed: Callable[[str], None],
        remembers: bool,
    ) -> None:
        self.owner = owner
        self.interest = interest
        self.replies: GatewayReplyMap | None = None
        self.hasPulled = False
        self._clock = clock
        self._failed = failed
        self._router = router
        self._recent: RecentSubscriptions | None = None
        self._outputs: list[GatewayOutput] = []
        self._replyMark: hot.Subscription | None = None
        self.matcher = hot.Matcher(router) if remembers else hot.Matcher(router, 0)

    def open(self, link: IGatewayLink, table: IInterestTable) -> GatewayOutput:
        if self._recent is None:
            self._recent = RecentSubscriptions(self.owner, self._clock)
            self.matcher.recentSubscriptions = self._recent.matcher
        output = GatewayOutput(self, link, table)
        self._outputs.append(output)
        self._targetsChanged()
        if self.interest:
            for subscription in output.known():
                self.interest.added(subscription, True)
        return output

    def known(self) -> Iterator[hot.Subscription]:
        for output in self._outputs:
            yield from output.known()

    def remove(self, output: GatewayOutput) -> None:
        if output not in self._outputs:
            return
        self._outputs.remove(output)
        self._targetsChanged()
        if not self._outputs and self._recent is not None:
            self._recent.close()
            self._recent = None
            self.matcher.recentSubscriptions = None

    def _targetsChanged(self) -> None:
        """Have the account's router asked directly while there are no targets."""
        hasTargets = bool(self._outputs) or self.replies is not None
        self.matcher.router = self if hasTargets else self._router
        self.changed(b">")

    def order(self) -> None:
        ordered = sorted(self._outputs, key=lambda output: output.distance)
        if ordered != self._outputs:
            self._outputs = ordered
            self.changed(b">")

    def changed(self, pattern: bytes) -> None:
        self.matcher.changed(pattern)

    @property
    def shapes(self) -> int:
        """
        The number of wildcard shapes that the router examines for each subject, if it has that
        figure.
        """
        return int(getattr(self._router, "shapes", 0))

    def match(self, subject: bytes) -> Iterable[Any]:
        return [*self._router.match(subject), *self._targets(subject)]

    def _targets(self, subject: bytes) -> Iterator[hot.Subscription]:
        if self.replies is not None and self._replyMark is not None and subject in self.replies:
            yield self._replyMark
        prefix = prefixOf(subject)
        if prefix:
            for output in self._outputs:
                if prefix.startswith(output.link.answers):
                    yield output.plain
            return
        self.hasPulled = self.hasPulled or isPull(subject)
        served: set[bytes] = set()
        for output in self._outputs:
            try:
                plain, queues = output.table.match(subject)
            except BaseException:
                self._failed("The interest table of a gateway failed")
                continue
            if plain:
                yield output.plain
            for queue in queues:
                if queue not in served:
                    served.add(queue)
                    yield output.group(queue)

    def subscribed(self, pattern: bytes) -> None:
        if self._recent is not None:
            self._recent.add(pattern)

    def isRecent(self, subject: bytes) -> bool:
        return self._recent is not None and self._recent.cover(subject)

    def asked(self, message: Message) -> None:
        if self.replies is None:
            # The mark only keeps the lane from publishing messages by itself.
            mark = hot.Subscription(self.owner, b">", b"", _GATEWAY, self, None)
            mark.closed = True
            self._replyMark = mark
            self.replies = GatewayReplyMap(self._clock, self.changed)
            self._targetsChanged()
        self.replies.add(message.reply, message.via)

    def interestLost(self, pattern: bytes) -> None:
        if self.replies:
            self.replies.forget(pattern)

    def returned(self, message: Message) -> Message | None:
        """
        The reply subject at the origin of its request; C{None} if this is not such a reply, or a
        late one.
        """
        via = self.replies.viaOf(message.subject) if self.replies is not None else b""
        return message.readdressed(via + message.subject, message.reply) if via else None

    def close(self) -> None:
        if self.replies is not None:
            self.replies.close()
        if self._recent is not None:
            self._recent.close()
