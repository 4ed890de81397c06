"""
The page C{/jsz}: accounts, streams and consumers, with nats-server's parameters, refusals and keys.
They are read one after the other, so that clients are served in between.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from natsbroker.clients.state import BrokerState
from natsbroker.monitoring.answers import JSON, PAUSE, Answer, Pause, bodyOf, waited
from natsbroker.monitoring.formats import instant
from natsbroker.monitoring.queries import DEFAULT_LIMIT, Query, flag, integer, text
from natsbroker.steps import Steps

_NOTHING = {
    "memory": 0,
    "storage": 0,
    "reserved_memory": 0,
    "reserved_storage": 0,
    "accounts": 0,
    "ha_assets": 0,
    "api": {"level": 0, "total": 0, "errors": 0},
}
_DISABLED = {
    "disabled": True,
    "config": {"max_memory": 0, "max_storage": 0},
    "streams": 0,
    "consumers": 0,
    "messages": 0,
    "bytes": 0,
    "total": 0,
}


@dataclass(frozen=True, slots=True)
class JszQuery:
    """
    @ivar account: the only one in detail; empty for all.
    @ivar directConsumers: with C{consumers}, also those by which mirrors and sources read a stream.
    @ivar raft: whether the streams and consumers that this broker leads are counted.
    """

    account: str = ""
    accounts: bool = False
    streams: bool = False
    consumers: bool = False
    directConsumers: bool = False
    config: bool = False
    raft: bool = False
    offset: int = 0
    limit: int = DEFAULT_LIMIT

    @classmethod
    def fromQuery(cls, query: Query) -> JszQuery:
        """C{leader-only} and C{stream-leader-only} change nothing: a broker leads what it shows."""
        accounts = flag(query, "accounts")
        streams = flag(query, "streams")
        consumers = flag(query, "consumers")
        direct = flag(query, "direct-consumers")
        config = flag(query, "config")
        flag(query, "leader-only")
        offset = integer(query, "offset")
        limit = integer(query, "limit")
        raft = flag(query, "raft")
        flag(query, "stream-leader-only")
        return cls(
            text(query, "acc"),
            accounts or streams or consumers,
            streams or consumers,
            consumers,
            direct,
            config,
            raft,
            max(offset, 0),
            limit if limit > 0 else DEFAULT_LIMIT,
        )


class Jsz:
    def __init__(self, state: BrokerState, find: Callable[[], Any]) -> None:
        """
        @param find: returns L{natsbroker.jetstream.figures.JetStreamFigures}; C{None} for a broker
            without JetStream, which does not load that module.
        """
        self._state = state
        self._find = find

    def __call__(self, query: Query) -> Answer:
        wanted = JszQuery.fromQuery(query)
        return Answer(200, JSON, bodyOf(self.steps(wanted)), isLong=wanted.streams)

    def ofAccount(self, name: str, query: Query) -> Generator[Pause, None, dict[str, Any] | None]:
        """The steps of an account's row for the system account; C{None} without JetStream."""
        figures = self._find()
        account = accountsOf(figures).get(name)
        if account is None:
            return None
        # In this answer, nats-server shows no streams if only "consumer" is given; the page does.
        wanted = replace(JszQuery.fromQuery(query), streams=flag(query, "streams"))
        return (yield from accountSteps(figures, account, wanted))

    def steps(self, wanted: JszQuery) -> Generator[Pause, None, dict[str, Any]]:
        state, figures = self._state, self._find()
        head = {
            "server_id": state.context.info.server_id,
            "now": instant(state.seconds()),
        }
        if figures is None:
            return {**_NOTHING, **head, **_DISABLED}
        document = {
            **figures.stats(),
            **head,
            "config": figures.config(),
            "limits": figures.limits(),
            **figures.counts(wanted.raft),
            **figures.cluster(),
        }
        details = []
        for account in _chosen(figures.accounts, wanted):
            yield PAUSE
            details.append((yield from accountSteps(figures, account, wanted)))
        if details:
            document["account_details"] = details
        return {**document, "total": len(figures.accounts)}


def _chosen(accounts: Any, wanted: JszQuery) -> list[Any]:
    if wanted.account:
        return [accounts[wanted.account]] if wanted.account in accounts else []
    if not wanted.accounts:
        return []
    names = sorted(accounts)[wanted.offset : wanted.offset + wanted.limit]
    return [accounts[name] for name in names]


def varzOf(figures: Any) -> dict[str, Any]:
    """The part C{jetstream} of C{/varz}; C{None} without JetStream."""
    shown: dict[str, Any] = {} if figures is None else figures.varz()
    return shown


def accountsOf(figures: Any) -> Mapping[str, Any]:
    """The accounts that have JetStream, by name."""
    accounts: Mapping[str, Any] = {} if figures is None else figures.accounts
    return accounts


def storeOf(figures: Any) -> Any:
    """The store of streams in files; C{None} without it."""
    return None if figures is None else figures.store()


def accountSteps(
    figures: Any, account: Any, wanted: JszQuery
) -> Generator[Pause, None, dict[str, Any]]:
    """The row of a L{natsbroker.jetstream.account.JetStreamAccount}, with its streams if wanted."""
    row: dict[str, Any] = figures.account(account)
    if not wanted.streams:
        return row
    streams = []
    for stream in list(account.streams.values()):
        config = (yield from _paced(figures.configOf(stream))) if wanted.config else None
        detail = yield from waited(figures.stream(stream, account.server, config))
        if wanted.consumers:
            detail |= yield from _consumers(figures, stream, "consumer_detail", wanted, False)
        if wanted.consumers and wanted.directConsumers:
            name = "direct_consumer_detail"
            detail |= yield from _consumers(figures, stream, name, wanted, True)
        streams.append({**detail, **(yield from _paced(figures.origins(stream)))})
        yield PAUSE
    return {**row, "stream_detail": streams} if streams else row


def _consumers(
    figures: Any, stream: Any, key: str, wanted: JszQuery, isDirect: bool
) -> Generator[Pause, None, dict[str, Any]]:
    rows = []
    for consumer in figures.consumers(stream, isDirect):
        rows.append((yield from waited(figures.consumer(consumer, wanted.config))))
        yield PAUSE
    return {key: rows} if rows else {}


def _paced(steps: Steps[Any]) -> Generator[Pause, None, Any]:
    """Let clients be served between steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        yield PAUSE
