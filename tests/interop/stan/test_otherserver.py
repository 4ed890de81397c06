"""
NATS Streaming on the bus of another NATS server: C{-ns URL}.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import showLogs
from tests.interop.servers import OURS_FAST, REAL, Server
from tests.interop.stan.programs import PROGRAMS, Outcome, runScenarios, runTogether
from tests.interop.stan.scenarios import CONFIG, STORES, TOGETHER


@pytest.fixture(scope="module")
def outcome(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcome]:
    """
    The output of the scenarios, by client, on a nats-server with our streaming server beside it.
    """
    directory = tmp_path_factory.mktemp("streaming")
    nats = Server(REAL, directory).start()
    flags = ["-ns", nats.url]
    streaming = Server(OURS_FAST, directory, CONFIG % STORES["lmdb"], flags)
    try:
        streaming.start()
        showLogs(request.node, streaming)
        yield runTogether(nats.url, *TOGETHER)
    finally:
        streaming.stop()
        nats.stop()


@pytest.mark.parametrize("scenario", TOGETHER)
@pytest.mark.parametrize("name", PROGRAMS)
def test_scenarios(name: str, scenario: str, outcome: Outcome) -> None:
    """Clients of the other server are served as those of this broker are."""
    assert outcome[name][scenario] == TOGETHER[scenario]


def test_reconnects(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """
    When the other server is restarted, its clients are served again. Clients connect only to the
    other server, and no listener is open here.
    """
    nats = Server(REAL, tmp_path).start()
    streaming = Server(OURS_FAST, tmp_path, arguments=["-ns", nats.url])
    try:
        streaming.start()
        showLogs(request.node, streaming)
        assert "Listening for client connections" not in streaming.log()
        expected = {"publish": TOGETHER["publish"]}
        assert runScenarios(PROGRAMS["js"], nats.url, "publish") == expected
        since = streaming.logLength()
        nats.restart()
        streaming.waitForLog("Connected to NATS server", since)
        assert runScenarios(PROGRAMS["py"], nats.url, "publish") == expected
    finally:
        streaming.stop()
        nats.stop()


def test_secondServer(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """
    A second streaming server for the same cluster id does not start, and one for another does.
    """
    nats = Server(REAL, tmp_path).start()
    servers = [
        Server(OURS_FAST, tmp_path, arguments=["-ns", nats.url, *more])
        for more in ((), ("-cid", "other"), ())
    ]
    showLogs(request.node, servers[2])
    try:
        servers[0].start()
        servers[1].start()
        with pytest.raises(RuntimeError, match="discovered another streaming server with cluster"):
            servers[2].start()
    finally:
        for server in servers:
            server.stop()
        nats.stop()


def test_noServer(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A streaming server does not start without the other server."""
    nats = Server(REAL, tmp_path).start()
    nats.stop()
    streaming = Server(OURS_FAST, tmp_path, arguments=["-ns", nats.url])
    showLogs(request.node, streaming)
    with pytest.raises(RuntimeError, match="refused"):
        streaming.start()
