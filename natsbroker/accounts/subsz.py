"""
The page C{/subsz}: the subscriptions of the accounts.

Promises: the parameters, refusals and keys of nats-server's page; those of links are left out, as
there. Any number of subscriptions is gone through in small steps; where others change them
meanwhile, the page may miss or repeat one.
Must never know: connections.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

from twisted.internet.interfaces import IReactorTime

from natsbroker.clients.selection import DEFAULT_LIMIT, limitFrom
from natsbroker.monitoring.answers import JSON, PAUSE, Answer, Listing, bodyOf
from natsbroker.monitoring.formats import instant
from natsbroker.monitoring.queries import BadQuery, Query, flag, integer, repeated, text
from natsbroker.monitoring.rows import rowOf
from natsbroker.monitoring.sublists import sublistFigures
from natsbroker.monitoring.views import AccountView, ContextView
from natsbroker.subjects.grammar import isValidLiteral
from natsbroker.wire.values import Kind

__all__ = ["SubscriptionQuery", "Subsz"]

#: How many subscriptions are gone through in one step, how many rows are made in one, and how often
#: a walk that others disturbed begins again before it is done in one go.
_STEP = 1024
_ROWS = 128
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class SubscriptionQuery:
    """
    The parameters of C{/subsz}.

    @ivar subs: whether subscriptions are listed.
    @ivar test: only those that a message to this subject reaches; empty for all.
    @ivar acc: only those of one account; empty for all.
    """

    subs: bool = False
    offset: int = 0
    limit: int = DEFAULT_LIMIT
    test: str = ""
    acc: str = ""

    @classmethod
    def fromQuery(cls, query: Query) -> SubscriptionQuery:
        """
        @raise BadQuery: if a parameter makes no sense.
        """
        subs = flag(query, "subs")
        offset = max(integer(query, "offset"), 0)
        limit = limitFrom(query)
        test = text(query, "test")
        if test and not isValidLiteral(test.encode("utf-8", "replace")):
            problem = "invalid test subject, must be valid publish subject"
            raise BadQuery(f"{problem}: {repeated(test)}")
        return cls(subs, offset, limit, test, text(query, "acc"))


class Subsz:
    """
    Tells which subscriptions there are.
    """

    def __init__(self, context: ContextView, accounts: Iterable[AccountView]) -> None:
        """
        @param accounts: all accounts, every time that they are gone through.
        """
        self._context = context
        self._accounts = accounts

    def __call__(self, query: Query) -> Answer:
        """
        The page.

        @raise BadQuery: if a parameter makes no sense.
        """
        wanted = SubscriptionQuery.fromQuery(query)
        return Answer(200, JSON, bodyOf(self.steps(wanted)), isLong=wanted.subs)

    def steps(self, wanted: SubscriptionQuery) -> Generator[bytes, None, Listing]:
        """
        The same as a list, for those who want no HTTP.
        """
        accounts = [each for each in self._accounts if wanted.acc in ("", each.name)]
        clock: IReactorTime = self._context.reactor
        head = {
            "server_id": self._context.info.server_id,
            "now": instant(clock.seconds()),
            **sublistFigures(accounts),
            "total": 0,
            "offset": wanted.offset,
            "limit": wanted.limit,
        }
        rows: list[dict[str, Any] | None] = []
        if wanted.subs:
            head["total"], rows = yield from _listed(accounts, wanted)
        return Listing(head, "subscriptions_list", rows, isShownEmpty=False)


def _listed(
    accounts: list[AccountView], wanted: SubscriptionQuery
) -> Generator[bytes, None, tuple[int, list[dict[str, Any] | None]]]:
    total = 0
    rows: list[dict[str, Any] | None] = []
    end = wanted.offset + wanted.limit
    for account in accounts:
        found = yield from _local(account, wanted.test.encode("utf-8", "replace"))
        for each in found[max(wanted.offset - total, 0) : max(end - total, 0)]:
            rows.append(rowOf(each, account.name))
            if len(rows) % _ROWS == 0:
                yield PAUSE
        total += len(found)
    return total, rows


def _local(account: AccountView, test: bytes) -> Generator[bytes, None, list[Any]]:
    """
    The subscriptions of an account that are not a link's.
    """
    if test:
        return _matching(account, test)
    for _ in range(_ATTEMPTS):
        found: list[Any] = []
        try:
            for place, each in enumerate(account.subscriptions()):
                if place % _STEP == _STEP - 1:
                    yield PAUSE
                if each.kind < Kind.ROUTE:
                    found.append(each)
        except RuntimeError:  # it changed while others ran
            continue
        return found
    return [each for each in account.subscriptions() if each.kind < Kind.ROUTE]


def _matching(account: AccountView, subject: bytes) -> list[Any]:
    matches = account.matcher.match(subject)
    found = list(matches.plain)
    for _, here, _there in matches.groups:
        found += here
    return found
