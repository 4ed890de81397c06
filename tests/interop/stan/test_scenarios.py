"""
Original, unmodified NATS Streaming clients against natsbroker, with channels in memory and on disk.

Most scenarios wait most of the time. All of them, of both clients, therefore share one broker for
each store and run at the same time, with clients and channels of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import showLogs
from tests.interop.servers import OURS_FAST, OURS_PURE, Server
from tests.interop.stan.programs import PROGRAMS, Line, Outcome, runScenarios, runTogether
from tests.interop.stan.scenarios import CONFIG, STORES, TOGETHER

#: Scenarios that run one after another, when the others are done.
AFTERWARDS: dict[str, list[Line]] = {
    "idleAgain": [{"got": [[1, "new", 0]]}],
    "channels": [{"publish": "too many channels", "subscribe": "too many channels"}],
}

HEARTBEATS = """
streaming {
    %s
    hb_interval: "200ms"
    hb_timeout: "500ms"
    hb_fail_count: 2
}
"""


def _runAll(server: Server) -> Outcome:
    printed = runTogether(server.url, *TOGETHER)
    for name in printed:
        server.waitForLog(rf'Channel "idle\.{name}" has been deleted')
    for scenario in AFTERWARDS:
        for name, lines in printed.items():
            lines.update(runScenarios(PROGRAMS[name], server.url, scenario))
    return printed


@pytest.fixture(scope="module", params=STORES)
def outcome(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcome]:
    """The output of the scenarios, by client, on a broker with each kind of store."""
    directory = tmp_path_factory.mktemp("streaming")
    server = Server(OURS_FAST, directory, CONFIG % STORES[request.param]).start()
    showLogs(request.node, server)
    try:
        yield _runAll(server)
    finally:
        server.stop()


@pytest.mark.parametrize("scenario", [*TOGETHER, *AFTERWARDS])
@pytest.mark.parametrize("name", PROGRAMS)
def test_scenarios(name: str, scenario: str, outcome: Outcome) -> None:
    """The API of the client behaves as documented."""
    assert outcome[name][scenario] == {**TOGETHER, **AFTERWARDS}[scenario]


@pytest.mark.parametrize("store", STORES)
def test_heartbeats(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """
    A client that does not answer heartbeats is removed, which its next ping reports. Its durable
    subscription can be resumed.
    """
    server = Server(OURS_FAST, tmp_path, HEARTBEATS % STORES[store]).start()
    showLogs(request.node, server)
    try:
        for name, lines in runTogether(server.url, "heartbeats").items():
            assert lines["heartbeats"] == [
                {"lost": "client has been replaced or is no longer registered"},
                {"resumed": [[2, "2", 1], [3, "3", 0]]},
            ]
            server.waitForLog(rf"\[Client:{name}-hangs\] Timed out on heartbeats")
            assert f"[Client:{name}-well]" not in server.log()
    finally:
        server.stop()


@pytest.mark.parametrize("name", PROGRAMS)
def test_pure(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Without the compiled lane the results are the same."""
    server = Server(OURS_PURE, tmp_path, CONFIG % STORES["lmdb"]).start()
    showLogs(request.node, server)
    scenarios = ("publish", "durable", "queue", "inFlight", "refused")
    try:
        printed = runScenarios(PROGRAMS[name], server.url, *scenarios)
    finally:
        server.stop()
    assert printed == {scenario: TOGETHER[scenario] for scenario in scenarios}
