"""
The status that the broker publishes in the system account at intervals, as nats-server does::

    $SYS.SERVER.<id>.STATSZ

nats-servers with JetStream elect no leader until every member of the cluster, and every gateway
of their configuration, has said whether it takes part: a broker that stays silent blocks them.

The members are those of nats-server that need no walk over all connections. Nothing is published
without a subscriber.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service

from natsbroker.accounts.registry import AccountRegistry
from natsbroker.auth.responder import Describe
from natsbroker.clients.context import Connections
from natsbroker.interfaces import IMessageBus
from natsbroker.monitoring.process import ProcessUsage
from natsbroker.wire.clientinfo import compact
from natsbroker.wire.instants import instant
from natsbroker.wire.values import Message

#: Seconds before the first report, and the longest interval. Intervals double: the first reports
#: may come before the links that carry them.
_FIRST = 0.5
_USUAL = 10.0


class StatusReports(Service):
    name = "status"

    def __init__(
        self,
        bus: Callable[[], IMessageBus | None],
        describe: Describe,
        connections: Connections,
        accounts: AccountRegistry,
        reactor: Any,
        process: ProcessUsage | None = None,
    ) -> None:
        self._bus = bus
        self._describe = describe
        self._connections = connections
        self._accounts = accounts
        self._reactor = reactor
        self._process = process or ProcessUsage(reactor.seconds)
        self._start = reactor.seconds()
        self._timer: Any = None
        self._pause = _FIRST

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._pause = _FIRST
        self._timer = self._reactor.callLater(self._pause, self._again)

    def stopService(self) -> None:
        super().stopService()  # type: ignore[no-untyped-call]
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _again(self) -> None:
        self._pause = min(2 * self._pause, _USUAL)
        self._timer = self._reactor.callLater(self._pause, self._again)
        bus = self._bus()
        if bus is None:
            return
        server = self._describe()
        subject = f"$SYS.SERVER.{server['id']}.STATSZ".encode("ascii")
        if bus.hasInterest(subject):
            bus.publish(Message(subject, compact({"server": server, "statsz": self._stats()})))

    def _stats(self) -> dict[str, Any]:
        connections, process = self._connections, self._process
        return {
            "start": instant(self._start),
            "mem": process.memory(),
            "cores": process.cores(),
            "cpu": process.percent(),
            "connections": len(connections),
            "total_connections": connections.total,
            "active_accounts": len(self._accounts),
            "subscriptions": sum(map(len, self._accounts)),
            "slow_consumers": sum(connections.slow.values()),
        }
