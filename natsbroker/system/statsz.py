"""The status of a server, which answers C{$SYS.REQ.SERVER.PING} and is published at intervals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import Any

from natsbroker.clients.selection import accountOf
from natsbroker.clients.state import BrokerState
from natsbroker.monitoring.answers import PAUSE, Pause
from natsbroker.monitoring.formats import instant, number
from natsbroker.system.varz import Varz

#: The connections that one step visits.
_STEP = 256


class Statsz:
    """
    @ivar countServers: gives the number of servers that are known, this one included.
    @ivar gateways: gives the outbound gateways by name, and all inbound ones.
    """

    def __init__(self, state: BrokerState, varz: Varz) -> None:
        self.countServers: Callable[[], int] = lambda: 1
        self.routes: Callable[[], Iterable[Any]] = tuple
        self.gateways: Callable[[], tuple[Mapping[str, Any], Iterable[Any]]] = lambda: ({}, ())
        self._state = state
        self._varz = varz

    def steps(
        self, shown: Callable[[Collection[str]], Any] = len
    ) -> Generator[Pause, None, dict[str, Any]]:
        """
        @param shown: makes C{active_accounts} from the names of the active accounts.
        """
        traffic = yield from self._varz.traffic()
        active = shown((yield from self._active()))
        state, process = self._state, self._state.process
        context = state.context
        connections = context.connections
        inMessages, inBytes, outMessages, outBytes = traffic
        all_ = self._varz.messages(traffic)
        accounts = list(state.accounts)
        document = {
            "start": instant(state.startTime),
            "mem": process.memory(),
            "cores": process.cores(),
            "cpu": number(process.percent()),
            "connections": len(connections),
            "total_connections": connections.total,
            "active_accounts": active,
            "subscriptions": sum(map(len, accounts)),
            "sent": _counted(all_["out_msgs"], all_["out_bytes"]),
            "sent_to_clients": _counted(outMessages, outBytes),
            "received": _counted(all_["in_msgs"], all_["in_bytes"]),
            "received_from_clients": _counted(inMessages, inBytes),
            **self._troubles(),
        }
        for key, rows in (("routes", self._routes()), ("gateways", self._gateways())):
            if rows:
                document[key] = rows
        document["active_servers"] = self.countServers()
        if shown := self._varz.contribution("jetstream", None):
            config = {key: shown["config"][key] for key in shown["config"] if key != "store_dir"}
            document["jetstream"] = {**shown, "config": config}
        return {**document, "gomaxprocs": 1}

    def _troubles(self) -> dict[str, Any]:
        """Figures about troubles. Those that are 0 are left out, except for C{slow_consumers}."""
        troubles = self._varz.troubles()
        slow, stale = troubles["slow_consumer_stats"], troubles["stale_connection_stats"]
        figures = {
            "slow_consumer_stats": slow if any(slow.values()) else None,
            "stale_connections": sum(stale.values()),
            "stale_connection_stats": stale if any(stale.values()) else None,
            "stalled_clients": self._state.context.connections.stalls,
        }
        shown = {key: value for key, value in figures.items() if value}
        return {"slow_consumers": sum(slow.values()), **shown}

    def _routes(self) -> list[dict[str, Any]]:
        return [
            {
                "rid": route.number,
                "name": route.remoteName,
                **_passed(route.counts),
                "pending": route.outbox.pending,
            }
            for route in self.routes()
        ]

    def _gateways(self) -> list[dict[str, Any]]:
        outbound, inbound = self.gateways()
        rows = []
        for name, link in outbound.items():
            counts = [accepted.counts for accepted in inbound if accepted.gateway == name]
            received = sum(count[0] for count in counts), sum(count[1] for count in counts)
            sent = link.counts[2:]
            row = {"gwid": link.number, "name": name, **_passed((*received, *sent))}
            rows.append({**row, "inbound_connections": len(counts)})
        return rows

    def _active(self) -> Generator[Pause, None, set[str]]:
        names: set[str] = set()
        for place, session in enumerate(list(self._state.context.connections)):
            if place % _STEP == _STEP - 1:
                yield PAUSE
            names.add(accountOf(session.facts()))
        return names


def _passed(counts: tuple[int, int, int, int]) -> dict[str, Any]:
    return {"sent": _counted(*counts[2:]), "received": _counted(*counts[:2])}


def _counted(messages: int, size: int) -> dict[str, int]:
    return {"msgs": messages, "bytes": size}
