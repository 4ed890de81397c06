"""The sides of a broker in the system account: requests that it answers, and its reports."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from natsbroker.interfaces import IMessageBus
from natsbroker.links.hostcluster import HostCluster
from natsbroker.runtime.responder import Describe
from natsbroker.system.connectioncounts import ConnectionCounts
from natsbroker.system.requests import SystemRequests
from natsbroker.system.shared import SharedAnswers
from natsbroker.system.status import StatusReports

if TYPE_CHECKING:
    from natsbroker.system.answers import ServerActions, SystemAnswers
    from natsbroker.system.pages import ServerPages


class SystemReports(NamedTuple):
    """
    @ivar isShared: whether the broker is one server with others, and their parent knows when the
        server ends: the end of the broker is no event.
    """

    requests: SystemRequests
    status: StatusReports
    counts: ConnectionCounts
    isShared: bool


def systemReports(
    findBus: Callable[[], IMessageBus | None],
    bus: IMessageBus,
    serverId: str,
    describe: Describe,
    findPages: Callable[[], ServerPages],
    findActions: Callable[[], ServerActions],
    countPeers: Callable[[], float],
    cluster: HostCluster | None,
    reactor: Any,
    random: Random,
) -> SystemReports:
    """
    @param findBus: gives the system account's bus, which a reload may replace.
    @param findPages: gives the pages of this broker, at the first request.
    @param cluster: the brokers that are one server; C{None} if this broker is a server itself.
    """

    def makeAnswers() -> SystemAnswers:
        from natsbroker.system.answers import SystemAnswers

        return SystemAnswers(describe, findPages(), reactor, findActions(), random)

    shared = None if cluster is None or cluster.ask is None else SharedAnswers(cluster.ask)
    isSpeaking = (lambda: True) if cluster is None else cluster.isSpeaking
    requests = SystemRequests(bus, serverId, makeAnswers, reactor, countPeers, shared, isSpeaking)
    status = StatusReports(
        findBus,
        serverId,
        describe,
        lambda: requests.answers.ofServer("STATSZ", b""),
        reactor,
        isSpeaking,
    )
    counts = ConnectionCounts(
        findBus, describe, lambda names: requests.answers.accountRows(names), reactor, random
    )
    return SystemReports(requests, status, counts, shared is not None)
