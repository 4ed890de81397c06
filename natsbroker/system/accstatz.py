"""
The page C{/accstatz}: connections and traffic of accounts, with nats-server's parameters and keys.
Routes and gateways do not count by account: their figures are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import Any

from natsbroker.clients.selection import accountOf
from natsbroker.clients.state import BrokerState
from natsbroker.monitoring.answers import JSON, PAUSE, Answer, Pause, bodyOf
from natsbroker.monitoring.formats import instant
from natsbroker.monitoring.queries import Query, flag

#: The connections that one step visits.
_STEP = 256

_NOTHING = (0, 0, 0, 0)

Traffic = tuple[int, int, int, int]


class Accstatz:
    """The page; C{leafTraffic} gives messages in, bytes in, messages out and bytes out."""

    def __init__(self, state: BrokerState) -> None:
        self.countLeafnodes: Callable[[str], int] = lambda name: 0
        self.leafTraffic: Callable[[str], Traffic] = lambda name: _NOTHING
        self._state = state

    def __call__(self, query: Query) -> Answer:
        return Answer(200, JSON, bodyOf(self.steps(flag(query, "unused"))))

    def steps(self, isComplete: bool) -> Generator[Pause, None, dict[str, Any]]:
        rows = yield from self.rows(None, isComplete)
        state = self._state
        return {
            "server_id": state.context.info.server_id,
            "now": instant(state.seconds()),
            "account_statz": rows,
        }

    def rows(
        self, names: Collection[str] | None, isComplete: bool
    ) -> Generator[Pause, None, list[dict[str, Any]]]:
        connections = self._state.context.connections
        open_: dict[str, int] = {}
        traffic = {name: list(sums) for name, sums in connections.accountTraffic.items()}
        for place, session in enumerate(list(connections)):
            if place % _STEP == _STEP - 1:
                yield PAUSE
            name = accountOf(session.facts())
            open_[name] = open_.get(name, 0) + 1
            sums = traffic.setdefault(name, [0, 0, 0, 0])
            for kind, count in enumerate(session.traffic):
                sums[kind] += count
        rows = []
        for account in self._state.accounts:
            name = account.name
            leafnodes = self.countLeafnodes(name)
            isWanted = names is None or name in names
            if isWanted and (isComplete or leafnodes or name in open_):
                clients = traffic.get(name, _NOTHING)
                rows.append(self._row(account, open_.get(name, 0), leafnodes, clients))
        return rows

    def _row(self, account: Any, clients: int, leafnodes: int, traffic: Any) -> dict[str, Any]:
        name = account.name
        leafs = self.leafTraffic(name)
        return {
            "acc": name,
            "name": name,
            "conns": clients,
            "leafnodes": leafnodes,
            "total_conns": clients + leafnodes,
            "num_subscriptions": len(account),
            "sent": _figures(traffic[2:], leafs[2:]),
            "received": _figures(traffic[:2], leafs[:2]),
            "slow_consumers": self._state.context.connections.accountSlow.get(name, 0),
        }


def _figures(clients: Any, leafs: Any) -> dict[str, Any]:
    return {
        **_counted(clients[0] + leafs[0], clients[1] + leafs[1]),
        "gateways": _counted(0, 0),
        "routes": _counted(0, 0),
        "leafs": _counted(*leafs),
    }


def _counted(messages: int, size: int) -> dict[str, int]:
    return {"msgs": messages, "bytes": size}
