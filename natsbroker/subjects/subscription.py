"""A subscription, as routers store it and the bus delivers to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

#: Kinds from this one on are links to other brokers; below are clients and services.
FIRST_LINK_KIND = 3


@dataclass(eq=False, slots=True, repr=False)
class Subscription:
    """
    @ivar queue: the queue group; empty for a plain subscription.
    @ivar kind: the L{natsbroker.wire.values.Kind} of the subscriber, as an integer.
    @ivar tag: passed with every delivery; the sid of a client.
    @ivar outbox: the outbox into which the lane may write frames; C{None} if C{deliver} must be
        called.
    @ivar permissions: the subscriber's L{SubscribePermissions} if some subjects that match must not
        be delivered; else C{None}.
    @ivar weight: the number of the group's members that the subscriber stands for.
    @ivar maximum: the number of messages after which it ends; 0 for never.
    @ivar owner: the account, whose C{subscriptionCancelled}, C{subscriptionFinished} and
        C{subscriptionReweighed} are called.
    """

    owner: Any
    pattern: bytes
    queue: bytes
    kind: int
    subscriber: Any
    tag: Any
    outbox: Any = None
    permissions: Any = None
    weight: int = 1
    maximum: int = 0
    delivered: int = 0
    closed: bool = False

    def cancel(self) -> None:
        if not self.closed:
            self.closed = True
            self.owner.subscriptionCancelled(self)

    def cancelAfter(self, count: int) -> None:
        if count > self.delivered:
            self.maximum = count
        else:
            self.maximum = 0
            self.cancel()

    def reweigh(self, weight: int) -> None:
        if not self.closed:
            self.owner.subscriptionReweighed(self, weight)

    def __repr__(self) -> str:
        group = f" queue={self.queue!r}" if self.queue else ""
        return f"<Subscription {self.pattern!r}{group} tag={self.tag!r}>"


class ServiceSubscription(Subscription):
    """A subscription to requests; see L{natsbroker.interfaces.IMessageBus.serve}."""

    __slots__ = ()


class Shadow(Subscription):
    """
    The shadow of a subscription in an account whose stream it imports. A lane may deliver its
    messages to the original, which counts them. Without a lane, the subscriber is called.

    @ivar original: the subscription that it stands for.
    @ivar rename: gives the subject of a message for the original; C{None} if it is unchanged.
    """

    __slots__ = ("original", "rename")

    def __init__(
        self,
        owner: Any,
        pattern: bytes,
        subscriber: Any,
        original: Subscription,
        rename: Callable[[bytes], bytes] | None = None,
    ) -> None:
        super().__init__(owner, pattern, original.queue, original.kind, subscriber, None)
        self.original = original
        self.rename = rename


def closeAll(subscriptions: Iterable[Subscription]) -> list[Subscription]:
    """Close subscriptions without informing their owner. Return those that were open."""
    closed = [subscription for subscription in subscriptions if not subscription.closed]
    for subscription in closed:
        subscription.closed = True
    return closed


class SidTable:
    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[bytes, Subscription] = {}

    def get(self, sid: bytes) -> Subscription | None:
        return self._entries.get(sid)

    def __contains__(self, sid: bytes) -> bool:
        return sid in self._entries

    def add(self, subscription: Subscription) -> None:
        if subscription.tag in self._entries:
            raise KeyError(subscription.tag)
        self._entries[subscription.tag] = subscription

    def pop(self, sid: bytes) -> Subscription | None:
        return self._entries.pop(sid, None)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._entries.values()))
