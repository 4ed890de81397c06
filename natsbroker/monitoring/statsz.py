"""
The short status of a server, which C{$SYS.REQ.SERVER.PING} asks for and servers publish at
intervals, with nats-server's keys.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from natsbroker.clients.selection import accountOf
from natsbroker.monitoring.answers import PAUSE, Pause
from natsbroker.monitoring.formats import instant, number
from natsbroker.monitoring.state import BrokerState
from natsbroker.monitoring.varz import Varz

#: How many connections are gone through in one step.
_STEP = 256


class Statsz:
    """
    @ivar countServers: gives the number of servers that are known, this one included.
    """

    def __init__(self, state: BrokerState, varz: Varz, jetstream: Callable[[], Any]) -> None:
        """
        @param jetstream: gives the part C{jetstream} of C{/varz}.
        """
        self.countServers: Callable[[], int] = lambda: 1
        self._state = state
        self._varz = varz
        self._jetstream = jetstream

    def steps(self) -> Generator[Pause, None, dict[str, Any]]:
        traffic = yield from self._varz.traffic()
        active = yield from self._active()
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
            "slow_consumers": sum(connections.slow.values()),
            "active_servers": self.countServers(),
        }
        if shown := self._jetstream():
            config = {key: shown["config"][key] for key in shown["config"] if key != "store_dir"}
            document["jetstream"] = {**shown, "config": config}
        return {**document, "gomaxprocs": 1}

    def _active(self) -> Generator[Pause, None, int]:
        """
        The number of accounts that have connections.
        """
        names: set[str] = set()
        for place, session in enumerate(list(self._state.context.connections)):
            if place % _STEP == _STEP - 1:
                yield PAUSE
            names.add(accountOf(session.facts()))
        return len(names)


def _counted(messages: int, size: int) -> dict[str, int]:
    return {"msgs": messages, "bytes": size}
