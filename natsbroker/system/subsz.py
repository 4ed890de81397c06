"""
The page C{/subsz}: the subscriptions of the accounts.

Parameters, refusals and keys are those of nats-server's page, which leaves the subscriptions of
links out too. Any number of subscriptions is read in small steps; the page may miss or repeat one
that changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from natsbroker.accounts.account import Account
from natsbroker.clients.context import ClientContext
from natsbroker.monitoring.answers import JSON, PAUSE, Answer, Listing, bodyOf
from natsbroker.monitoring.formats import instant, number
from natsbroker.monitoring.queries import (
    DEFAULT_LIMIT,
    BadQuery,
    Query,
    flag,
    integer,
    limitFrom,
    repeated,
    text,
)
from natsbroker.monitoring.rows import Row, subscriptionRow
from natsbroker.subjects.grammar import isSubset, isValidLiteral, matches
from natsbroker.wire.text import encoded
from natsbroker.wire.values import Kind

#: The subscriptions that one step reads, the rows that one step makes, and how often a walk begins
#: again after a change before it is done in one step.
_STEP = 1024
_ROWS = 128
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class SubscriptionQuery:
    """
    @ivar test: only those that a message to this subject reaches; empty for all.
    @ivar clients: our own parameter: only those of connections, not of services.
    """

    subs: bool = False
    offset: int = 0
    limit: int = DEFAULT_LIMIT
    test: str = ""
    acc: str = ""
    clients: bool = False

    @classmethod
    def fromQuery(cls, query: Query) -> SubscriptionQuery:
        subs = flag(query, "subs")
        offset = max(integer(query, "offset"), 0)
        limit = limitFrom(query)
        test = text(query, "test")
        if test and not isValidLiteral(encoded(test)):
            problem = "invalid test subject, must be valid publish subject"
            raise BadQuery(f"{problem}: {repeated(test)}")
        return cls(subs, offset, limit, test, text(query, "acc"), flag(query, "clients"))


class Subsz:
    def __init__(self, context: ClientContext, accounts: Iterable[Account]) -> None:
        self._context = context
        self._accounts = accounts

    def __call__(self, query: Query) -> Answer:
        wanted = SubscriptionQuery.fromQuery(query)
        return Answer(200, JSON, bodyOf(self.steps(wanted)), isLong=wanted.subs)

    def count(self, name: str, subject: str, queue: bytes) -> Generator[bytes, None, int]:
        """
        The subscriptions of clients and leafnodes that a message reaches; or, for a subject with
        wildcards, those for a part of it.

        @param name: of an account.
        @param queue: only those of this queue group; empty for all.
        """
        wanted = encoded(subject)
        isLiteral = isValidLiteral(wanted)
        count = 0
        for account in [candidate for candidate in self._accounts if candidate.name == name]:
            subscriptions = yield from _ofKinds(account, (Kind.CLIENT, Kind.SPOKE))
            for place, subscription in enumerate(subscriptions):
                if place % _STEP == _STEP - 1:
                    yield PAUSE
                if not queue or subscription.queue == queue:
                    pattern = subscription.pattern
                    count += matches(pattern, wanted) if isLiteral else isSubset(pattern, wanted)
        return count

    def steps(self, wanted: SubscriptionQuery) -> Generator[bytes, None, Listing]:
        accounts = [account for account in self._accounts if wanted.acc in ("", account.name)]
        clock = self._context.reactor
        figures = yield from sublistFigures(accounts)
        head = {
            "server_id": self._context.info.server_id,
            "now": instant(clock.seconds()),
            **figures,
            "total": 0,
            "offset": wanted.offset,
            "limit": wanted.limit,
        }
        rows: list[dict[str, Any] | None] = []
        if wanted.subs:
            head["total"], rows = yield from _listed(accounts, wanted)
        return Listing(head, "subscriptions_list", rows, isShownEmpty=False)


def _listed(
    accounts: list[Account], wanted: SubscriptionQuery
) -> Generator[bytes, None, tuple[int, list[dict[str, Any] | None]]]:
    total = 0
    rows: list[dict[str, Any] | None] = []
    end = wanted.offset + wanted.limit
    for account in accounts:
        subscriptions = yield from _local(account, encoded(wanted.test))
        if wanted.clients:
            subscriptions = [subscription for subscription in subscriptions if _cid(subscription)]
        for subscription in subscriptions[max(wanted.offset - total, 0) : max(end - total, 0)]:
            rows.append(_row(subscription, account.name))
            if len(rows) % _ROWS == 0:
                yield PAUSE
        total += len(subscriptions)
    return total, rows


def _local(account: Account, test: bytes) -> Generator[bytes, None, list[Any]]:
    if test:
        return _matching(account, test)
    subscriptions = yield from _ofKinds(account, (Kind.CLIENT, Kind.INTERNAL, Kind.LOCAL))
    return subscriptions


def _ofKinds(account: Account, kinds: Container[Kind]) -> Generator[bytes, None, list[Any]]:
    for _ in range(_ATTEMPTS):
        subscriptions: list[Any] = []
        try:
            for place, subscription in enumerate(account.subscriptions()):
                if place % _STEP == _STEP - 1:
                    yield PAUSE
                if subscription.kind in kinds:
                    subscriptions.append(subscription)
        except RuntimeError:  # it changed while others ran
            continue
        return subscriptions
    return [subscription for subscription in account.subscriptions() if subscription.kind in kinds]


def _matching(account: Account, subject: bytes) -> list[Any]:
    receivers = account.matcher.match(subject)
    subscriptions = list(receivers.plain)
    for _, here, _there in receivers.groups:
        subscriptions += here
    return subscriptions


def _row(subscription: Any, account: str) -> Row:
    """A row. Services in the broker have tags of any type in place of sids."""
    tag = subscription.tag
    return subscriptionRow(
        subscription.pattern,
        subscription.queue,
        tag if isinstance(tag, bytes) else b"",
        subscription.delivered,
        _cid(subscription),
        subscription.maximum,
        account,
    )


def _cid(subscription: Any) -> int:
    cid: int = getattr(subscription.subscriber, "cid", 0)
    return cid


def sublistFigures(accounts: Iterable[Account]) -> Generator[bytes, None, dict[str, Any]]:
    """Sums of nats-server's C{sublist_stats}; the fan-out is that of remembered matches."""
    subscriptions = removals = cached = hits = lookups = most = receivers = 0
    for account in accounts:
        matcher = account.matcher
        subscriptions += len(account)
        removals += account.removals
        hits += matcher.hits
        lookups += matcher.hits + matcher.misses
        remembered = matcher.remembered()
        cached += len(remembered)
        for place, reached in enumerate(remembered):
            if place % _STEP == _STEP - 1:
                yield PAUSE
            count = _fanOut(reached)
            receivers += count
            most = max(most, count)
    return {
        "num_subscriptions": subscriptions,
        "num_cache": cached,
        "num_inserts": subscriptions + removals,
        "num_removes": removals,
        "num_matches": lookups,
        "cache_hit_rate": number(hits / lookups) if lookups else 0,
        "max_fanout": most,
        "avg_fanout": number(receivers / cached) if cached else 0,
    }


def _fanOut(reached: Any) -> int:
    members = sum(len(here) + len(there) for _, here, there in reached.groups)
    return len(reached.plain) + len(reached.links) + members
