"""
What there is to tell of a link at one moment.

Promises: a frozen value without secrets.
Must never know: who is told.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.net.link import Link

__all__ = ["LinkFacts", "factsOf"]


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """
    One link; times are seconds since the epoch, durations seconds.

    @ivar cid: its number.
    @ivar subscriptions: how many interests the peer has told.
    @ivar name: the peer's id; empty while it is not known.
    """

    cid: int
    host: str
    port: int
    started: float
    lastActivity: float
    roundTrip: float
    pending: int
    inMessages: int
    inBytes: int
    outMessages: int
    outBytes: int
    subscriptions: int = 0
    name: str = ""


def factsOf(link: Link, subscriptions: int, name: str) -> LinkFacts:
    """
    @param subscriptions: how many interests the peer has told.
    @param name: the peer's id.
    """
    decoder, outbox = link.decoder, link.outbox
    return LinkFacts(
        cid=link.number,
        host=link.peer.host,
        port=link.peer.port,
        started=link.started,
        lastActivity=decoder.heard,
        roundTrip=link.roundTrip,
        pending=outbox.pending,
        inMessages=decoder.messages,
        inBytes=decoder.messageBytes,
        outMessages=outbox.messages,
        outBytes=outbox.messageBytes,
        subscriptions=subscriptions,
        name=name,
    )
