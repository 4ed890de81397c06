"""
An account's share in what passes between clusters.

What the tables of other clusters say stands among the answers about a subject as if links
had subscribed, so that readable path and fast lane need no rules of their own: at most one for each
cluster, and for each queue group only the nearest that has members. Answers are forgotten when a
table says that they changed. A mapped subject goes to the cluster that mapped it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.replies import GatewayReplyMap, RecentSubscriptions
from natsbroker.interfaces import (
    IGatewayLink,
    IGatewayOutput,
    IInterestTable,
    ILinkSubscriber,
)
from natsbroker.wire.mapped import NEW, OLD, prefixOf
from natsbroker.wire.values import Kind, Message

if TYPE_CHECKING:
    from natsbroker.accounts.account import Account

__all__ = ["GatewayOutput", "GatewayTargets"]

#: So many queue groups are remembered for each cluster, as members of answers.
_GROUPS = 4096

_GATEWAY = int(Kind.GATEWAY)

#: What leafnodes are told is wanted as long as there are other clusters: answers to be led back.
_MAPPED = ((NEW + b">", b""), (OLD + b">", b""))

#: And where what nobody spoke of is wanted.
_EVERYTHING = (b">", b"")


@implementer(IGatewayOutput, ILinkSubscriber)
class GatewayOutput:
    """
    The way to one other cluster, and the target of what is sent there.

    @ivar table: what it wants.
    @ivar link: the connection.
    @ivar plain: stands for the plain subscriptions over there.
    @ivar distance: how far it is, in seconds.
    """

    def __init__(self, gateways: GatewayTargets, link: IGatewayLink, table: IInterestTable) -> None:
        self.table = table
        self.link = link
        self.distance = 0.0
        self._gateways = gateways
        self._known: dict[tuple[bytes, bytes], None] | None = None
        self._groups: dict[bytes, hot.Subscription] = {}
        self.plain = self._subscription(b"")

    def _subscription(self, queue: bytes) -> hot.Subscription:
        link = self.link
        return hot.Subscription(
            self._gateways.account, b">", queue, _GATEWAY, self, link.prefix, link.outbox
        )

    def group(self, queue: bytes) -> hot.Subscription:
        """
        What stands for the members of a queue group over there.
        """
        found = self._groups.get(queue)
        if found is None:
            if len(self._groups) >= _GROUPS:
                self._groups.clear()
            found = self._groups[queue] = self._subscription(queue)
        return found

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        """
        See L{ILinkSubscriber.forward}: answers that nobody over there can know of yet are led back
        here.
        """
        if message.reply and not message.via and self._gateways.isRecent(message.reply):
            message = message.withReplyPrefix(self.link.replyPrefix)
        self.link.forward(message, queues)

    def use(self, table: IInterestTable, pattern: bytes = b">", queue: bytes | None = None) -> None:
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

    # What those hear who are told what is wanted beyond here.

    def _wanted(self) -> dict[tuple[bytes, bytes], None]:
        always = (*_MAPPED, _EVERYTHING) if self.table.isOpen else _MAPPED
        return dict.fromkeys((*self.table.interests(), *always))

    def _learn(self, key: tuple[bytes, bytes], isWanted: bool) -> None:
        known, account = self._known, self._gateways.account
        if known is None or (key in known) is isWanted:
            return
        if isWanted:
            known[key] = None
            account.learned(self._standIn(*key))
        else:
            del known[key]
            account.unlearned(self._standIn(*key))

    def _know(self, wanted: dict[tuple[bytes, bytes], None]) -> None:
        for key in [each for each in self._known or () if each not in wanted]:
            self._learn(key, False)
        for key in wanted:
            self._learn(key, True)

    def _standIn(self, pattern: bytes, queue: bytes) -> hot.Subscription:
        return hot.Subscription(
            self._gateways.account, pattern, queue, _GATEWAY, self, self.link.prefix
        )

    def known(self) -> Iterator[hot.Subscription]:
        """
        What stands for each pattern that is wanted over there. From the first call on the account
        is told of changes.
        """
        if self._known is None:
            self._known = self._wanted()
        for key in self._known:
            yield self._standIn(*key)

    def place(self, distance: float) -> None:
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
    All of them.

    @ivar account: whose they are.
    @ivar replies: the answers that are to go back to where requests came from; C{None} before the
        first.
    """

    __slots__ = ("_outputs", "_recent", "_replyMark", "account", "replies")

    def __init__(self, account: Account) -> None:
        self.account = account
        self.replies: GatewayReplyMap | None = None
        self._recent: RecentSubscriptions | None = None
        self._outputs: list[GatewayOutput] = []
        self._replyMark: hot.Subscription | None = None

    def open(self, link: IGatewayLink, table: IInterestTable) -> GatewayOutput:
        if self._recent is None:
            self._recent = RecentSubscriptions(self.account, self.account.clock)
            self.account.matcher.recentSubscriptions = self._recent.matcher
        output = GatewayOutput(self, link, table)
        self._outputs.append(output)
        self.changed(b">")
        if self.account.isWatched:
            for subscription in output.known():
                self.account.learned(subscription)
        return output

    def known(self) -> Iterator[hot.Subscription]:
        """
        What stands for all that is known to be wanted in other clusters.
        """
        for output in self._outputs:
            yield from output.known()

    def remove(self, output: GatewayOutput) -> None:
        """
        A way is no more.
        """
        if output not in self._outputs:
            return
        self._outputs.remove(output)
        self.changed(b">")
        if not self._outputs and self._recent is not None:
            self._recent.close()
            self._recent = None
            self.account.matcher.recentSubscriptions = None

    def order(self) -> None:
        """
        Put the nearest first.
        """
        ordered = sorted(self._outputs, key=lambda each: each.distance)
        if ordered != self._outputs:
            self._outputs = ordered
            self.changed(b">")

    def changed(self, pattern: bytes) -> None:
        """
        Answers for what matches a pattern have changed.
        """
        self.account.matcher.changed(pattern)

    def match(self, found: Iterable[Any], subject: bytes) -> Iterable[Any]:
        """
        Add to the account's own subscriptions for a literal subject what stands for other clusters.
        """
        if not self._outputs and self.replies is None:
            return found
        return [*found, *self._targets(subject)]

    def _targets(self, subject: bytes) -> Iterator[hot.Subscription]:
        if self.replies is not None and self._replyMark is not None and subject in self.replies:
            yield self._replyMark
        prefix = prefixOf(subject)
        if prefix:
            for output in self._outputs:
                if prefix.startswith(output.link.answers):
                    yield output.plain
            return
        served: set[bytes] = set()
        for output in self._outputs:
            try:
                plain, queues = output.table.match(subject)
            except BaseException:
                self.account.failed("The interest table of a gateway failed")
                continue
            if plain:
                yield output.plain
            for queue in queues:
                if queue not in served:
                    served.add(queue)
                    yield output.group(queue)

    # Replies.

    def subscribed(self, pattern: bytes) -> None:
        """
        Somebody in this cluster has subscribed.
        """
        if self._recent is not None:
            self._recent.add(pattern)

    def isRecent(self, subject: bytes) -> bool:
        """
        Whether somebody subscribed to a subject so shortly ago that other clusters may not know.
        """
        return self._recent is not None and self._recent.cover(subject)

    def asked(self, message: Message) -> None:
        """
        A request came whose answers are to be led back.
        """
        if self.replies is None:
            # It only keeps the fast lane from publishing there by itself.
            mark = hot.Subscription(self.account, b">", b"", _GATEWAY, self, None)
            mark.closed = True
            self._replyMark = mark
            self.replies = GatewayReplyMap(self.account.clock, self.changed)
        self.replies.add(message.reply, message.via)

    def returned(self, kind: Kind, message: Message) -> int | None:
        """
        Lead an answer back to where its request came from.

        @return: how many connections took it; C{None} if it is no such answer, or nobody knows the
            way any more.
        """
        via = self.replies.viaOf(message.subject) if self.replies is not None else b""
        if not via:
            return None
        answer = message.readdressed(via + message.subject, message.reply)
        return self.account.delivery.publishToLinks(kind, answer) or None

    def close(self) -> None:
        """
        Forget everything that is kept for a while.
        """
        if self.replies is not None:
            self.replies.close()
        if self._recent is not None:
            self._recent.close()
