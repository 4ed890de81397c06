"""
The status that this broker publishes to the system accounts of other servers at intervals::

    $SYS.SERVER.<id>.STATSZ        it is there, without JetStream, and how much it has to do

nats-servers with JetStream count on every member of the cluster, and on every gateway that their
settings name, until they know who of them takes part: before that, beside a broker that says
nothing, they elect no leader.

Promises: nats-server's members, as far as they cost no walk over all connections; where nobody is
subscribed, nothing is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service

from natsbroker.accounts.registry import AccountRegistry
from natsbroker.auth.answering import Describe
from natsbroker.clients.context import Connections
from natsbroker.interfaces import IMessageBus
from natsbroker.monitoring.process import ProcessUsage
from natsbroker.wire.clientinfo import compact
from natsbroker.wire.instants import instant
from natsbroker.wire.values import Message

__all__ = ["StatusReports"]

#: Seconds before the first report, and between two at most. It takes twice as long each time, since
#: the first ones may find links that are not there yet.
_FIRST = 0.5
_USUAL = 10.0


class StatusReports(Service):
    """
    A child service of a broker with links.
    """

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
        """
        @param bus: gives the system account's; C{None} while there is none.
        @param describe: what reports say of who this is.
        @param connections: of clients.
        """
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
        """
        Report from now on.
        """
        super().startService()  # type: ignore[no-untyped-call]
        self._pause = _FIRST
        self._timer = self._reactor.callLater(self._pause, self._again)

    def stopService(self) -> None:
        """
        Report no more.
        """
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
