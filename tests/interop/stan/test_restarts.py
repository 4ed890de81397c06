"""
Real NATS Streaming clients while the broker is stopped, or killed, and started again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.conftest import showLogs
from tests.interop.servers import OURS_FAST, Server
from tests.interop.stan.programs import PROGRAMS, Line, runScenarios

DISK = 'streaming { store: file, dir: "$DIR/channels" }\n'

READY: Line = {"event": "ready"}


def _kill(server: Server) -> None:
    """
    End the broker as kill -9 does, and start it again.
    """
    server.signal("KILL")
    server.exitStatus()
    server.restart()


@pytest.mark.parametrize("name", PROGRAMS)
def test_stopped(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Subscriptions go on when the broker is started again, without connecting anew: nothing that
    was acknowledged comes again, and nothing is left out. Durable ones can also be resumed later,
    and so can durable queue groups."""
    server = Server(OURS_FAST, tmp_path, DISK).start()
    showLogs(request.node, server)
    try:
        printed = runScenarios(
            PROGRAMS[name],
            server.url,
            "restart",
            onLine=lambda line: server.restart() if line == READY else None,
        )
    finally:
        server.stop()
    assert printed["restart"] == [
        {"got": [1, 2], "group": [1, 2]},
        READY,
        {"got": [3], "group": [3]},
        READY,
        {"got": [4], "group": [4]},
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_killed(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The same after kill -9, except that what was acknowledged last may come again: then it is
    marked. And of messages that are published all the while, none is lost that was acknowledged,
    and none is doubled."""
    server = Server(OURS_FAST, tmp_path, DISK).start()
    showLogs(request.node, server)
    restarts: list[Line] = []

    def restart(line: Line) -> None:
        if line == READY:
            restarts.append(line)
            _kill(server)

    try:
        restarted = runScenarios(PROGRAMS[name], server.url, "restart", onLine=restart)["restart"]
        killed = runScenarios(PROGRAMS[name], server.url, "killed", onLine=restart)["killed"]
    finally:
        server.stop()
    assert len(restarts) == 3
    assert not any("failed" in line for line in restarted), restarted
    for place, sequence in ((2, 3), (4, 4)):
        for kind in ("got", "group"):
            new, *others = restarted[place][kind]
            assert new == sequence
            assert all(each < sequence for again in others for each in again)
    assert killed == [
        READY,
        {"lost": [], "many": True, "ordered": True, "sequences": True},
    ]
