"""
One row of a list: a connection or a subscription.

Promises: the keys of nats-server's C{/connz} and C{/subsz} in its order, absent where they are
absent there; a row is bounded however many subscriptions a connection has; nothing secret.
Must never know: which rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from natsbroker.clients.selection import Chosen, accountOf
from natsbroker.monitoring.formats import instant, shown
from natsbroker.monitoring.queries import Query, flag
from natsbroker.monitoring.rowparts import ages, passed, whereabouts
from natsbroker.monitoring.subscribed import askedFor, detailed, subscribed
from natsbroker.monitoring.views import FactsView, SubscriptionView
from natsbroker.wire.grants import GLOBAL_ACCOUNT, Security

__all__ = ["Detail", "Namers", "Row", "connectionRow", "rowOf", "subscriptionRow"]

#: What a subscription counts beside its subject, queue group and sid.
_EACH = 48

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Detail:
    """
    How much is shown of each connection.

    @ivar auth: who it is.
    @ivar subs: the subjects that it is subscribed to.
    @ivar subsDetail: its subscriptions with all that is known of them.
    """

    auth: bool = False
    subs: bool = False
    subsDetail: bool = False

    @classmethod
    def fromQuery(cls, query: Query) -> Detail:
        """
        @raise BadQuery: if a parameter makes no sense.
        """
        return cls(flag(query, "auth"), *askedFor(query))


@dataclass(frozen=True, slots=True)
class Namers:
    """
    How things are called that connections have.

    @ivar account: the name that somebody gave to the account with a name.
    @ivar certificate: what is told of a certificate.
    """

    account: Callable[[str], str] = str
    certificate: Callable[[Any], Row] = lambda certificate: {}


_PLAIN = Namers()


def connectionRow(
    chosen: Chosen, detail: Detail, now: float, namers: Namers = _PLAIN
) -> Generator[None, None, Row]:
    """
    The row of one connection, in steps.
    """
    facts = chosen.facts
    closed = chosen.closed
    until = now if closed is None else closed.stop
    row: Row = {
        "cid": facts.cid,
        "kind": "Client",
        "type": facts.type,
        **whereabouts(facts),
    }
    if closed is not None:
        row["stop"] = instant(closed.stop)
        row["reason"] = closed.reason
    row |= ages(facts, until)
    row["pending_bytes"] = facts.pending
    traffic = (facts.inMessages, facts.inBytes, facts.outMessages, facts.outBytes)
    row |= passed(traffic, facts.subscriptions)
    for key, value in (("name", facts.name), ("lang", facts.lang), ("version", facts.version)):
        if value:
            row[key] = value
    if facts.tls is not None:
        row |= _security(facts.tls, namers if detail.auth else None)
    if detail.auth:
        row |= _identity(facts)
    if facts.subscriptions and (detail.subs or detail.subsDetail):
        sized = _subscriptions(chosen, facts, detail.subsDetail)
        row |= yield from subscribed(sized, facts.subscriptions, detail.subsDetail)
    if detail.auth or closed is not None:
        row |= _papers(facts, detail.auth, closed is not None, namers)
    return row


def _security(tls: Security, namers: Namers | None) -> Row:
    """
    What TLS says of a connection.

    @param namers: C{None} if certificates are not asked for.
    """
    row: Row = {}
    for key, value in (("tls_version", tls.version), ("tls_cipher_suite", tls.cipher)):
        if value:
            row[key] = value
    if tls.shown and namers is not None:
        row["tls_peer_certs"] = [namers.certificate(each) for each in tls.shown]
    if tls.isFirst:
        row["tls_first"] = True
    return row


def _identity(facts: FactsView) -> Row:
    row = {}
    if facts.user:
        row["authorized_user"] = facts.user
    if accountOf(facts) != GLOBAL_ACCOUNT:
        row["account"] = facts.account
    return row


def _papers(facts: FactsView, isAsked: bool, isClosed: bool, namers: Namers) -> Row:
    """
    What vouches for a connection. Of those that are gone it is always told; the name is that of the
    account if it is asked for, and that of the user if not.
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
    chosen: Chosen, facts: FactsView, isDetailed: bool
) -> Iterator[tuple[int, str | Row]]:
    """
    What is shown of each subscription, with how much it counts.
    """
    for pattern, queue, sid, subscription in _each(chosen, facts):
        size = len(pattern) + len(queue) + len(sid) + _EACH
        if not isDetailed:
            yield size, shown(pattern)
            continue
        row = subscriptionRow(subscription, sid, facts.cid)
        if chosen.closed is not None:
            row = _withAccount(accountOf(facts), row)
        yield size, row


def _each(chosen: Chosen, facts: FactsView) -> Iterable[tuple[bytes, bytes, bytes, Any]]:
    if chosen.session is None:
        for each in facts.details:
            yield each.pattern, each.queue, each.sid, each
        return
    for sid, subscription in chosen.session.subscriptions or ():
        yield subscription.pattern, subscription.queue, sid, subscription


def subscriptionRow(subscription: Any, sid: bytes, cid: int, account: str = "") -> Row:
    """
    The row of one subscription.

    @param subscription: has C{pattern}, C{queue}, C{delivered} and C{maximum}.
    @param cid: of its connection; 0 for a service inside the broker.
    @param account: its account, where it is shown.
    """
    pattern, queue = subscription.pattern, subscription.queue
    row = detailed(pattern, queue, sid, subscription.delivered, cid, subscription.maximum)
    return _withAccount(account, row) if account else row


def rowOf(subscription: SubscriptionView, account: str) -> Row:
    """
    The row of a subscription as a router stores it.
    """
    tag = subscription.tag
    sid = tag if isinstance(tag, bytes) else b""
    return subscriptionRow(subscription, sid, getattr(subscription.subscriber, "cid", 0), account)


def _withAccount(account: str, row: Row) -> Row:
    return {"account": account, "account_tag": account, **row}
