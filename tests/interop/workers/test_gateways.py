"""
Several workers as one cluster for other clusters, of nats-servers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import Server
from tests.interop.workers.exact import crowd, running, waitUntil
from tests.interop.workers.linking import CLIENTS, HOST, NAME, document, made, workersOf
from tests.interop.workers.test_clusters import cluster, routePort, waitForMembers


def gateway(name: str, remotes: Sequence[tuple[str, str]] = ()) -> str:
    """
    @param remotes: names and ports of other clusters.
    """
    urls = ", ".join(
        f'{{ name: {other}, url: "nats://u:p@127.0.0.1:{port}" }}' for other, port in remotes
    )
    return f"""
        gateway {{
            name: {name}, listen: "127.0.0.1:-1", gateways: [ {urls} ]
            authorization {{ user: u, password: p }}
        }}
    """


def gatewayPort(server: Server) -> str:
    return server.waitForLog(r"Listening for gateways connections on \S+:(\d+)")[1]


def waitForGateways(server: Server, name: str, inbound: int) -> None:
    """Wait until a server has a connection to another cluster, and one from each member of it."""

    def isConnected() -> bool:
        page = document(server, "gatewayz")
        there: list[dict[str, Any]] = page["inbound_gateways"].get(name, [])
        names = {connection["connection"]["name"] for connection in there}
        return bool(page["outbound_gateways"].get(name)) and len(names) == inbound

    waitUntil(isConnected, lambda: document(server, "gatewayz"))


@pytest.mark.parametrize("dials", [False, True])
def test_twoClusters(tmp_path: Path, dials: bool) -> None:
    """All messages pass once, whichever cluster dials, also after a worker has ended."""
    if dials:
        other = made(tmp_path, "other", gateway("B"))
        with running(other):
            text = HOST + gateway("A", [("B", gatewayPort(other))])
            host = made(tmp_path, NAME, text, isHost=True)
            with running(host):
                _exchange(host, other)
    else:
        host = made(tmp_path, NAME, HOST + gateway("A"), isHost=True)
        with running(host):
            other = made(tmp_path, "other", gateway("B", [("A", gatewayPort(host))]))
            with running(other):
                _exchange(host, other)


def _exchange(host: Server, other: Server) -> None:
    places = (host, CLIENTS), (other, 3)
    waitForGateways(other, "A", 2)
    with crowd(*places) as clients:
        clients.check()
    for place in range(2):
        since = host.logLength()
        pid = workersOf(host)[place]
        os.kill(pid, signal.SIGKILL)
        host.waitForLog(r"Worker \d is ready", since)
        waitForGateways(other, "A", 2)
        with crowd(*places) as clients:
            clients.check()


def test_requests(tmp_path: Path) -> None:
    """Answers return to the worker of the requesting client."""
    host = made(tmp_path, NAME, HOST + gateway("A"), isHost=True)
    with running(host):
        other = made(tmp_path, "other", gateway("B", [("A", gatewayPort(host))]))
        with running(other):
            waitForGateways(other, "A", 2)
            with crowd((host, CLIENTS), (other, 1)) as clients:
                *askers, answerer = clients.clients
                served = answerer.subscribe(b"ask")
                clients.meet()
                inboxes = [asker.subscribe(b"inbox.%d" % n) for n, asker in enumerate(askers)]
                for number, asker in enumerate(askers):
                    asker.publish(b"ask", b"?", b"inbox.%d" % number)
                for reply, _, _ in answerer.messages(served, len(askers)):
                    answerer.publish(reply, b"!")
                for asker, inbox in zip(askers, inboxes, strict=True):
                    assert asker.take(inbox, 1) == [b"!"]


def test_clustersAndGateways(tmp_path: Path) -> None:
    """A cluster of workers and nats-servers exchanges messages with a cluster of nats-servers."""
    host = made(tmp_path, NAME, HOST + cluster([]) + gateway("C"), isHost=True)
    with running(host):
        beside = made(tmp_path, "beside", cluster([routePort(host)]) + gateway("C"))
        other = made(tmp_path, "other", gateway("B", [("C", gatewayPort(host))]))
        with running(beside, other):
            waitForMembers(beside)
            waitForGateways(other, "C", 3)
            with crowd((host, CLIENTS), (beside, 2), (other, 2)) as clients:
                clients.check()
