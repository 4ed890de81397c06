"""
A link at one moment, as monitoring shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.links.link import Link, LinkTraffic

#: What begins the facts of every kind of link, in the order of L{LinkFacts}.
Shared = tuple[int, str, int, float, float, float, int, LinkTraffic, int]


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """
    One link; times are seconds since the epoch, durations seconds.

    @ivar number: of the link.
    @ivar host: of the peer, as its connection shows it.
    @ivar port: likewise.
    @ivar started: when the connection began.
    @ivar lastActivity: when the peer last sent something.
    @ivar roundTrip: the last measured one.
    @ivar pending: the bytes that wait for the peer.
    @ivar traffic: messages in, bytes in, messages out, bytes out.
    @ivar subscriptions: the number of the peer's subscriptions.
    """

    number: int
    host: str
    port: int
    started: float
    lastActivity: float
    roundTrip: float
    pending: int
    traffic: LinkTraffic
    subscriptions: int


def sharedFacts(link: Link, subscriptions: int) -> Shared:
    """
    The members of L{LinkFacts}.
    """
    return (
        link.number,
        link.peer.host,
        link.peer.port,
        link.started,
        link.decoder.heard,
        link.roundTrip,
        link.outbox.pending,
        link.counts,
        subscriptions,
    )
