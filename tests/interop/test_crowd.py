"""
Many clients at once, and many that connect and disconnect. L{tests.interop.crowd} is the command
for larger numbers.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.servers import ALL, CHECKOUT, OURS_FAST, REAL, Flavour
from tests.interop.websocket.listeners import WebSocketServer

CROWD = 2500
STORM = 2000

#: Files that a process has open besides its connections.
OTHERS = 100

#: No run may take longer than this many seconds: it is a hang then.
DEADLINE = 300


@pytest.fixture
def roomFor() -> Iterator[int]:
    """
    The number of connections that a new process may have, with the limit raised as far as possible.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield CROWD if hard == resource.RLIM_INFINITY else min(CROWD, hard - OTHERS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def crowd(port: int, *arguments: str) -> dict[str, object]:
    """
    @return: the output of a run of the crowd.
    """
    command = [sys.executable, "-m", "tests.interop.crowd", str(port), *arguments]
    output = subprocess.run(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, check=True, timeout=DEADLINE
    ).stdout
    result: dict[str, object] = json.loads(output)
    return result


@pytest.mark.parametrize("flavour", ALL, ids=lambda flavour: flavour.name)
def test_crowd(flavour: Flavour, startServer: StartServer, roomFor: int) -> None:
    """Thousands of clients are connected at the same time, and each gets its own message."""
    if roomFor < CROWD:
        warnings.warn(f"the limit of open files allows {roomFor} clients only", stacklevel=1)
    result = crowd(startServer(flavour).port, str(roomFor))
    assert result["failed"] == {}
    assert (result["answered"], result["received"]) == (roomFor, roomFor)


@pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)
def test_webSockets(flavour: Flavour, tmp_path: Path, roomFor: int) -> None:
    """Many clients over WebSocket are connected at the same time, and each gets its own message."""
    server = WebSocketServer(flavour, tmp_path, "server").start()
    try:
        result = crowd(server.port, str(roomFor), "--websocket", str(server.webSocketPort))
    finally:
        server.stop()
    assert result["failed"] == {}
    assert (result["answered"], result["received"]) == (roomFor, roomFor)


@pytest.mark.parametrize("flavour", ALL, ids=lambda flavour: flavour.name)
def test_storm(flavour: Flavour, startServer: StartServer) -> None:
    """Thousands of clients that connect and disconnect at the highest rate are all served."""
    server = startServer(flavour)
    result = crowd(server.port, str(STORM), "--storm")
    assert result["failed"] == {}
    assert result["answered"] == STORM
    assert crowd(server.port, "1")["received"] == 1
