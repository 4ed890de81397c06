"""
NATS Streaming clients of a member of a cluster, where another member serves NATS Streaming.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import showLogs
from tests.interop.servers import OURS_FAST, Server
from tests.interop.stan.programs import runTogether
from tests.interop.stan.scenarios import TOGETHER

CLUSTER = 'cluster {{ name: c, listen: "127.0.0.1:-1", routes: [{}] }}\n'

SCENARIOS = ("publish", "durable", "queue", "queueLeave", "redelivery", "inFlight", "refused")


@pytest.fixture
def url(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a broker that has a route to the one that serves NATS Streaming."""
    servers: list[Server] = []

    def start(name: str, config: str) -> Server:
        directory = tmp_path / name
        directory.mkdir()
        server = Server(OURS_FAST, directory, config)
        servers.append(server)
        showLogs(request.node, server)
        return server.start()

    try:
        serving = start("serving", "streaming {}\n" + CLUSTER.format(""))
        match = serving.waitForLog(r"Listening for route connections on \S+:(\d+)")
        other = start("other", CLUSTER.format(f'"nats://127.0.0.1:{match[1]}"'))
        other.waitForLog(r"[Rr]oute connection created")
        yield other.url
    finally:
        for server in reversed(servers):
            server.stop()


def test_route(url: str) -> None:
    """Over a route all results are the same as at the serving broker itself."""
    for printed in runTogether(url, *SCENARIOS).values():
        assert printed == {scenario: TOGETHER[scenario] for scenario in SCENARIOS}
