"""
The facts about a client connection, as an immutable value.

Readers of the monitoring pages may see all of it, so it has no password, token or signature. A JWT
is in it only if it was accepted and cannot be used without its key. For a connection that has
ended, little is kept, however long its name was and however many subscriptions it had.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from natsbroker.config.settings.authorization import CONNECTION_TYPES
from natsbroker.wire.grants import Security
from natsbroker.wire.values import ClientInfo

#: The most characters of each text from a peer that are kept for a closed connection.
LONGEST_TEXT = 256

#: The most subscriptions that are kept for a closed connection, and bytes of their subjects.
MOST_SUBSCRIPTIONS = 16
MOST_SUBJECT_BYTES = 1024

#: The longest JWT that is kept for a closed connection.
LONGEST_JWT = 4096

#: Kinds of connection that monitoring and auth callouts do not call C{nats}.
_TYPES = {"WEBSOCKET": "websocket", "MQTT": "mqtt", "MQTT_WS": "mqtt"}


def typeOf(connectionType: str) -> str:
    """The name of a kind of connection in monitoring; one of a third party has its own name."""
    if connectionType in CONNECTION_TYPES:
        return _TYPES.get(connectionType, "nats")
    return connectionType.lower()


class SubscriptionFacts(NamedTuple):
    pattern: bytes
    queue: bytes
    sid: bytes
    delivered: int
    maximum: int


class ConnectionFacts(NamedTuple):
    """
    A connection at one moment. Times are seconds since the epoch, durations seconds.

    @ivar type: C{nats}, C{websocket}, C{mqtt} or the name of a third party's kind; empty for a
        leafnode.
    @ivar lastActivity: when it last sent anything but PONG.
    @ivar name: its own name for itself. Like C{lang} and C{version}, this may be any text.
    @ivar user: the name that the authorizer gave it, or that it came with if it was refused; never
        a secret.
    @ivar nameTag: as C{issuer}, C{tags} and C{jwt}, see L{Grant}.
    @ivar details: of a connection that has ended: its subscriptions, or the first of them.
    @ivar kind: C{Client} or C{Leafnode}.
    """

    cid: int
    type: str
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
    subscriptions: int
    name: str
    lang: str
    version: str
    account: str
    user: str
    tls: Security | None = None
    nameTag: str = ""
    issuer: str = ""
    tags: tuple[str, ...] = ()
    jwt: str = ""
    proxy: str = ""
    details: tuple[SubscriptionFacts, ...] = ()
    kind: str = "Client"

    @property
    def clientID(self) -> str:
        """The identifier of a client of MQTT, which is its name; empty for others."""
        return self.name if self.type == _TYPES["MQTT"] else ""


def clientInfoOf(facts: ConnectionFacts, server: str, isDetailed: bool) -> ClientInfo:
    """
    Facts about a client for services of other accounts. Without C{isDetailed} they are only the
    account and the round trip.
    """
    roundTrip = round(facts.roundTrip * 1e9)
    if not isDetailed:
        return ClientInfo(acc=facts.account, rtt=roundTrip)
    return ClientInfo(
        start=facts.started,
        host=facts.host,
        id=facts.cid,
        acc=facts.account,
        user=facts.user,
        name=facts.name,
        lang=facts.lang,
        ver=facts.version,
        rtt=roundTrip,
        server=server,
        kind="Client",
        client_type=facts.type,
    )


def atEnd(
    facts: ConnectionFacts, subscriptions: Iterable[tuple[bytes, Any]] | None
) -> ConnectionFacts:
    """The bounded facts that are kept of a connection that ends, with its subscriptions by sid."""
    tls, details = facts.tls, _firstOf(subscriptions) if facts.subscriptions else ()
    longest = max(len(facts.name), len(facts.lang), len(facts.version))
    if not (facts.pending or tls or facts.jwt or details) and longest <= LONGEST_TEXT:
        return facts
    return facts._replace(
        pending=0,
        name=facts.name[:LONGEST_TEXT],
        lang=facts.lang[:LONGEST_TEXT],
        version=facts.version[:LONGEST_TEXT],
        tls=None if tls is None else Security(tls.version, tls.cipher, isFirst=tls.isFirst),
        jwt=facts.jwt if len(facts.jwt) <= LONGEST_JWT else "",
        details=details,
    )


def _firstOf(table: Iterable[tuple[bytes, Any]] | None) -> tuple[SubscriptionFacts, ...]:
    kept: list[SubscriptionFacts] = []
    room = MOST_SUBJECT_BYTES
    for sid, subscription in table or ():
        pattern, queue = subscription.pattern, subscription.queue
        room -= len(pattern) + len(queue) + len(sid)
        if room < 0 or len(kept) == MOST_SUBSCRIPTIONS:
            break
        delivered, maximum = subscription.delivered, subscription.maximum
        kept.append(SubscriptionFacts(pattern, queue, sid, delivered, maximum))
    return tuple(kept)
