"""
Which links a message is forwarded to, and which of them take a queue group's share.
"""

from __future__ import annotations

from itertools import chain

from natsbroker import hot
from natsbroker.subjects.interestfilter import clusterOf
from natsbroker.wire.reach import REACH
from natsbroker.wire.values import Kind, Message

__all__ = [
    "DIRECTED",
    "Group",
    "isDeserted",
    "linkOf",
    "mayForward",
    "nearest",
    "successors",
]

#: The name of a queue group, its members here, and those behind links.
Group = tuple[bytes, tuple[hot.Subscription, ...], tuple[hot.Subscription, ...]]

#: Links whose sender has chosen the queue groups: without a list, only plain subscriptions.
DIRECTED = frozenset({Kind.ROUTE, Kind.GATEWAY, Kind.HUB, Kind.SPOKE})

#: Servers that tell each other by name who has members of a queue group.
_PEERS = DIRECTED - {Kind.GATEWAY}


def linkOf(subscription: hot.Subscription) -> int:
    """
    What tells the connection of a link's subscription from others.
    """
    outbox = subscription.outbox
    return id(subscription.subscriber if outbox is None else outbox)


def mayForward(subscription: hot.Subscription, message: Message) -> bool:
    """
    Whether a link's subscription may have a message: not back where it came from, nor to where
    another leafnode of the same cluster is.
    """
    return subscription.subscriber is not message.origin and _mayTake(subscription, message)


def _mayTake(subscription: hot.Subscription, message: Message) -> bool:
    """
    The same, but for where the message came from.
    """
    if subscription.closed:
        return False
    cluster = clusterOf(subscription.subscriber)
    return not cluster or cluster != clusterOf(message.origin)


def nearest(members: list[hot.Subscription]) -> list[hot.Subscription]:
    """
    Those members of a queue group behind links that are served first.
    """
    if not members:
        return members
    least = min(map(_distance, members))
    return [each for each in members if _distance(each) == least]


def _distance(subscription: hot.Subscription) -> int:
    """
    How far a member of a queue group behind a link is: another member of this cluster serves its
    own before leafnodes, and those before other clusters.
    """
    if subscription.kind == Kind.ROUTE:
        return 1 if clusterOf(subscription.subscriber) else 0
    return 2 if subscription.kind == Kind.GATEWAY else 1


def isDeserted(kind: Kind, group: Group, message: Message) -> bool:
    """
    Whether nobody is left of those for whom another server chose a queue group here. A member that
    may not have the message is not gone: servers with such members would pass it round for ever.
    """
    _, here, there = group
    return kind in _PEERS and not any(
        not _isGone(each) and each.kind in REACH[kind] and each.subscriber is not message.origin
        for each in chain(here, there)
    )


def _isGone(member: hot.Subscription) -> bool:
    """
    Whether a member of a queue group gets no more messages. A client's subscriptions close all at
    once, and the shadows of each in a later turn, if there are many.
    """
    if isinstance(member, hot.Shadow) and not member.closed:
        member = member.original
    return member.closed or (member.outbox is not None and member.outbox.closed)


def successors(
    kind: Kind, matches: hot.Matches, group: Group, message: Message
) -> list[hot.Subscription]:
    """
    Who takes a message over whose queue group is deserted here, as nats-server has it: members at
    other servers of the sender's kind, and at the sender if no other server has one. None of
    them sends it back here, since each learned before it that the group is gone.

    Plain subscribers at a server that takes it over get the message again, since the sender has
    reached them by itself: servers without any come first.
    """
    takers = [each for each in group[2] if each.kind == kind and _mayTake(each, message)]
    plain = {linkOf(each) for each in matches.links}
    ranks = [(each.subscriber is message.origin, linkOf(each) in plain) for each in takers]
    return [each for each, rank in zip(takers, ranks, strict=True) if rank == min(ranks)]
