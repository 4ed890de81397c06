"""
The page C{/connz} with nats-server's parameters, refusals and keys; C{filter_subject} is accepted
here too; nats-server accepts it over $SYS only. C{auth=1} shows names, never secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from natsbroker.clients.context import ClientContext
from natsbroker.clients.selection import Chosen, Selection, accountOf, choose
from natsbroker.connections.facts import ConnectionFacts
from natsbroker.monitoring.answers import JSON, Answer, Listing, bodyOf
from natsbroker.monitoring.formats import instant
from natsbroker.monitoring.queries import Query, flag
from natsbroker.monitoring.rows import (
    Row,
    askedFor,
    durations,
    peerMembers,
    subscriptionMembers,
    subscriptionRow,
    trafficMembers,
)
from natsbroker.wire.grants import GLOBAL_ACCOUNT, Security
from natsbroker.wire.text import decoded

#: The bytes that a subscription counts besides its subject, queue group and sid.
_EACH = 48


@dataclass(frozen=True, slots=True)
class Detail:
    auth: bool = False
    subs: bool = False
    subsDetail: bool = False

    @classmethod
    def fromQuery(cls, query: Query) -> Detail:
        return cls(flag(query, "auth"), *askedFor(query))


@dataclass(frozen=True, slots=True)
class Namers:
    account: Callable[[str], str] = str
    certificate: Callable[[Any], Row] = lambda certificate: {}


_PLAIN = Namers()


class Connz:
    def __init__(self, context: ClientContext, namers: Namers = _PLAIN) -> None:
        self.leafnodes: Callable[[], Iterable[Any]] = tuple
        self._context = context
        self._namers = namers

    def __call__(self, query: Query) -> Answer:
        detail = Detail.fromQuery(query)
        selection = Selection.fromQuery(query)
        return Answer(200, JSON, bodyOf(self.steps(selection, detail)), isLong=True)

    def steps(self, selection: Selection, detail: Detail) -> Generator[bytes, None, Listing]:
        now = self._context.reactor.seconds()
        connections = self._context.connections
        chosen, total = yield from choose(connections, selection, now, self.leafnodes())
        head = {
            "server_id": self._context.info.server_id,
            "now": instant(now),
            "num_connections": 0,
            "total": total,
            "offset": selection.offset,
            "limit": selection.limit,
        }
        return Listing(head, "connections", self._rows(chosen, detail, now), "num_connections")

    def ranks(self, selection: Selection) -> Generator[bytes, None, dict[str, Any]]:
        """
        The C{ranks} of those from the first one on, each with the connection's number, and how many
        there are in C{total}: one of several lists of connections is put in order by them.
        """
        wanted = replace(selection, offset=0, limit=selection.offset + selection.limit)
        now = self._context.reactor.seconds()
        connections = self._context.connections
        chosen, total = yield from choose(connections, wanted, now, self.leafnodes())
        return {"total": total, "ranks": [connection[:2] for connection in chosen]}

    def _rows(self, chosen: list[Chosen], detail: Detail, now: float) -> Iterator[Row | None]:
        for connection in chosen:
            yield (yield from connectionRow(connection, detail, now, self._namers))


def connectionRow(
    chosen: Chosen, detail: Detail, now: float, namers: Namers = _PLAIN
) -> Generator[None, None, Row]:
    facts = chosen.facts
    closed = chosen.closed
    until = now if closed is None else closed.stop
    row: Row = {
        "cid": facts.cid,
        "kind": facts.kind,
        **({"type": facts.type} if facts.type else {}),
        **peerMembers(facts),
    }
    if closed is not None:
        row["stop"] = instant(closed.stop)
        row["reason"] = closed.reason
    row |= durations(facts, until)
    row["pending_bytes"] = facts.pending
    traffic = (facts.inMessages, facts.inBytes, facts.outMessages, facts.outBytes)
    row |= trafficMembers(traffic, facts.subscriptions)
    name = "" if facts.clientID else facts.name
    for key, value in (("name", name), ("lang", facts.lang), ("version", facts.version)):
        if value:
            row[key] = value
    if facts.tls is not None:
        row |= _security(facts.tls, namers if detail.auth else None)
    if detail.auth:
        row |= _identity(facts)
    if facts.subscriptions and (detail.subs or detail.subsDetail):
        sized = _subscriptions(chosen, facts, detail.subsDetail)
        row |= yield from subscriptionMembers(sized, facts.subscriptions, detail.subsDetail)
    if detail.auth or closed is not None:
        row |= _claims(facts, detail.auth, closed is not None, namers)
    if facts.proxy:
        row["proxy"] = {"key": facts.proxy}
    if facts.clientID:
        row["mqtt_client"] = facts.clientID
    return row


def _security(tls: Security, namers: Namers | None) -> Row:
    row: Row = {}
    for key, value in (("tls_version", tls.version), ("tls_cipher_suite", tls.cipher)):
        if value:
            row[key] = value
    if tls.shown and namers is not None:
        row["tls_peer_certs"] = [namers.certificate(certificate) for certificate in tls.shown]
    if tls.isFirst:
        row["tls_first"] = True
    return row


def _identity(facts: ConnectionFacts) -> Row:
    row = {}
    if facts.user:
        row["authorized_user"] = facts.user
    if accountOf(facts) != GLOBAL_ACCOUNT:
        row["account"] = facts.account
    return row


def _claims(facts: ConnectionFacts, isAsked: bool, isClosed: bool, namers: Namers) -> Row:
    """
    The user's JWT and its names. Rows of closed connections always have them; C{name_tag} is the
    account's name with C{auth=1} and the user's without.
    """
    account = accountOf(facts)
    name = facts.nameTag if isClosed else ""
    if isAsked and not (isClosed and account == GLOBAL_ACCOUNT):
        name = namers.account(account)
    row: Row = {
        "jwt": facts.jwt,
        "issuer_key": facts.issuer,
        "name_tag": name,
        "tags": list(facts.tags),
    }
    return {key: value for key, value in row.items() if value}


def _subscriptions(
    chosen: Chosen, facts: ConnectionFacts, isDetailed: bool
) -> Iterator[tuple[int, str | Row]]:
    for pattern, queue, sid, subscription in _each(chosen, facts):
        size = len(pattern) + len(queue) + len(sid) + _EACH
        if not isDetailed:
            yield size, decoded(pattern)
            continue
        account = "" if chosen.closed is None else accountOf(facts)
        delivered, maximum = subscription.delivered, subscription.maximum
        yield size, subscriptionRow(pattern, queue, sid, delivered, facts.cid, maximum, account)


def _each(chosen: Chosen, facts: ConnectionFacts) -> Iterable[tuple[bytes, bytes, bytes, Any]]:
    if chosen.session is None:
        for detail in facts.details:
            yield detail.pattern, detail.queue, detail.sid, detail
        return
    for sid, subscription in chosen.session.listed():
        yield subscription.pattern, subscription.queue, sid, subscription
