"""
The connections of C{/connz} in nats-server's order. They are visited in small steps, as they were
at the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from natsbroker.clients.context import ClosedClient, Connections
from natsbroker.connections.facts import ConnectionFacts
from natsbroker.monitoring.answers import PAUSE
from natsbroker.monitoring.queries import (
    DEFAULT_LIMIT,
    BadQuery,
    Query,
    integer,
    limitFrom,
    repeated,
    text,
    unsigned,
)
from natsbroker.subjects import grammar
from natsbroker.wire.grants import GLOBAL_ACCOUNT
from natsbroker.wire.text import encoded

#: The connections, subscriptions or ranks that one step visits.
_STEP = 64
_SUBSCRIPTIONS = 512
_SORTED = 4096

_STATES = {"open": (True, False), "closed": (False, True), "any": (True, True), "all": (True, True)}


class Chosen(NamedTuple):
    rank: Any
    cid: int
    session: Any
    closed: ClosedClient | None

    @property
    def facts(self) -> ConnectionFacts:
        if self.session is not None:
            facts: ConnectionFacts = self.session.facts()
            return facts
        if self.closed is not None:
            return self.closed.facts
        raise RuntimeError("neither an open nor a closed connection")


Rank = Callable[[ConnectionFacts, ClosedClient | None, float], Any]

#: The orders: smaller values come first. Only C{cid}, C{start}, C{uptime} and C{reason} ascend.
_RANKS: Mapping[str, Rank] = {
    "cid": lambda facts, closed, now: facts.cid,
    "start": lambda facts, closed, now: facts.started,
    "subs": lambda facts, closed, now: -facts.subscriptions,
    "pending": lambda facts, closed, now: -facts.pending,
    "msgs_to": lambda facts, closed, now: -facts.outMessages,
    "msgs_from": lambda facts, closed, now: -facts.inMessages,
    "bytes_to": lambda facts, closed, now: -facts.outBytes,
    "bytes_from": lambda facts, closed, now: -facts.inBytes,
    "last": lambda facts, closed, now: -facts.lastActivity,
    "idle": lambda facts, closed, now: facts.lastActivity,
    "uptime": lambda facts, closed, now: (closed.stop if closed else now) - facts.started,
    "stop": lambda facts, closed, now: -closed.stop if closed else 0.0,
    "reason": lambda facts, closed, now: closed.reason if closed else "",
    "rtt": lambda facts, closed, now: -facts.roundTrip,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """
    @ivar cid: the number of the only wanted connection, which overrides other filters; 0 for any.
    @ivar mqtt_client: the identifier of a client of MQTT; empty for any.
    @ivar filter_subject: a subject that must overlap with a subscription; empty for none.
    """

    sort: str = "cid"
    open: bool = True
    closed: bool = False
    cid: int = 0
    offset: int = 0
    limit: int = DEFAULT_LIMIT
    acc: str = ""
    user: str = ""
    filter_subject: str = ""
    mqtt_client: str = ""

    @classmethod
    def fromQuery(cls, query: Query) -> Selection:
        offset = max(integer(query, "offset"), 0)
        limit = limitFrom(query)
        cid = unsigned(query, "cid")
        isOpen, isClosed = _stateFrom(query)
        subject = text(query, "filter_subject")
        selection = cls(
            sort=text(query, "sort") or "cid",
            open=isOpen,
            closed=isClosed,
            cid=cid,
            offset=offset,
            limit=1 if cid else limit,
            acc=text(query, "acc"),
            user=text(query, "user"),
            filter_subject="" if subject == ">" else subject,
            mqtt_client=text(query, "mqtt_client"),
        )
        selection._check()
        return selection

    def _check(self) -> None:
        if self.sort not in _RANKS:
            raise BadQuery(f"invalid sorting option: {repeated(self.sort)}")
        if self.sort in ("stop", "reason") and self.open:
            raise BadQuery(f"sort by {self.sort} only valid on closed connections")
        if self.filter_subject and not self.acc:
            raise BadQuery("filter by subject only valid with account filtering")

    def counts(self, facts: ConnectionFacts) -> bool:
        return not self.acc or accountOf(facts) == self.acc

    def wants(self, facts: ConnectionFacts) -> bool:
        """Whether a connection is wanted, apart from its subscriptions."""
        if self.cid:
            return facts.cid == self.cid
        isMeant = not self.user or facts.user == self.user
        isClient = not self.mqtt_client or facts.clientID == self.mqtt_client
        return self.counts(facts) and isMeant and isClient


def accountOf(facts: ConnectionFacts) -> str:
    """The account of a connection. Before login it counts for the global account."""
    return facts.account or GLOBAL_ACCOUNT


def choose(
    connections: Connections,
    selection: Selection,
    now: float,
    leafnodes: Iterable[Any] = (),
) -> Generator[bytes, None, tuple[list[Chosen], int]]:
    """The wanted connections, leafnodes included, and the number of all of them."""
    opened: list[Any] = [*connections, *leafnodes] if selection.open else []
    closed = list(connections.closed) if selection.closed else []
    matching: list[Chosen] = []
    total = 0
    sources: list[tuple[Any, ClosedClient | None]] = [(peer, None) for peer in opened]
    sources += [(None, entry) for entry in closed]
    for place, (session, end) in enumerate(sources):
        if place % _STEP == _STEP - 1:
            yield PAUSE
        chosen = Chosen(None, 0, session, end)
        facts = chosen.facts
        total += selection.counts(facts)
        if not selection.wants(facts):
            continue
        if selection.filter_subject and not selection.cid:
            if not (yield from _overlaps(chosen, facts, selection.filter_subject)):
                continue
        matching.append(Chosen(_RANKS[selection.sort](facts, end, now), facts.cid, session, end))
    window = yield from _window(matching, selection.offset, selection.limit)
    return window, total


def _overlaps(chosen: Chosen, facts: ConnectionFacts, subject: str) -> Generator[bytes, None, bool]:
    wanted = encoded(subject)
    if not grammar.isValidSubject(wanted):
        return False
    if chosen.session is None:
        return any(grammar.overlaps(wanted, detail.pattern) for detail in facts.details)
    for place, (_, subscription) in enumerate(chosen.session.listed()):
        if place % _SUBSCRIPTIONS == _SUBSCRIPTIONS - 1:
            yield PAUSE
        if grammar.overlaps(wanted, subscription.pattern):
            return True
    return False


def _window(chosen: list[Chosen], offset: int, limit: int) -> Generator[bytes, None, list[Chosen]]:
    """Sort a little at a time, only as far as needed."""
    runs: list[Iterable[Chosen]] = []
    for start in range(0, len(chosen), _SORTED):
        runs.append(sorted(chosen[start : start + _SORTED], key=_byRank))
        yield PAUSE
    merged = merge(*runs, key=_byRank) if len(runs) > 1 else iter(runs[0] if runs else ())
    for _ in range(offset // _SORTED):
        if sum(1 for _ in islice(merged, _SORTED)) < _SORTED:
            break
        yield PAUSE
    window = list(islice(merged, offset % _SORTED, offset % _SORTED + min(limit, _SORTED)))
    while len(window) < limit:
        yield PAUSE
        more = list(islice(merged, min(limit - len(window), _SORTED)))
        if not more:
            break
        window += more
    return window


def _byRank(chosen: Chosen) -> tuple[Any, int]:
    return chosen.rank, chosen.cid


def _stateFrom(query: Query) -> tuple[bool, bool]:
    state = text(query, "state")
    wanted = _STATES.get(state.lower() or "open")
    if wanted is None:
        raise BadQuery(f"Error decoding state for {repeated(state)}")
    return wanted
