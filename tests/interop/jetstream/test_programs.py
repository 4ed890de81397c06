"""
nats.js and libnats use streams, consumers, key-value and object stores. The same runs with
nats-server show that the programs are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import showLogs
from tests.interop.jetstream.asking import STORAGE
from tests.interop.programs import JETSTREAM_JS, JETSTREAM_PROGRAMS, Line, Program
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server

_FILLED: list[Line] = [
    {"stream": "S", "seq": 1, "duplicate": False},
    {"stream": "S", "seq": 1, "duplicate": True},
    {"stream": "S", "seq": 2, "duplicate": False},
    {"stream": "S", "seq": 3, "duplicate": False},
]

#: Scenario and what it prints.
_PRINTED: dict[str, list[Line]] = {
    "pull": [
        *_FILLED,
        {"data": "zero", "seq": 1, "delivered": 1},
        {"data": "two", "seq": 3, "delivered": 1},
        {"data": "two", "seq": 3, "delivered": 2},
        {"pending": 0, "unacked": 0, "floor": 3},
    ],
    "ordered": [
        *_FILLED,
        {"data": "zero", "seq": 1, "delivered": 1},
        {"data": "one", "seq": 2, "delivered": 1},
        {"data": "two", "seq": 3, "delivered": 1},
        {"stream": "S", "seq": 4, "duplicate": False},
        {"data": "later", "seq": 4, "delivered": 1},
    ],
    "keys": [
        *({"revision": number} for number in (1, 2, 3)),
        {"key": "a", "value": "3", "revision": 3},
        {"refused": True},
        {"key": "a", "value": "2", "revision": 2},
        {"key": "a", "value": "3", "revision": 3},
        {"revision": 4},
        {"key": "b"},
        {"key": "b", "value": "5", "revision": 4},
        {"revision": 6},
        {"key": "b", "value": "6", "revision": 6},
    ],
    "objects": [{"size": 300000, "chunks": 3}, {"same": True}, {"gone": True}],
}


@pytest.fixture(params=[OURS_FAST, REAL], ids=lambda flavour: flavour.name)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """
    A server with JetStream.
    """
    flavour: Flavour = request.param
    running = Server(flavour, tmp_path, STORAGE).start()
    showLogs(request.node, running)
    yield running
    running.stop()


@pytest.mark.parametrize("program", JETSTREAM_PROGRAMS, ids=lambda program: program.name)
@pytest.mark.parametrize("scenario", ["pull", "ordered", "keys"])
def test_scenario(scenario: str, program: Program, server: Server) -> None:
    """The API of the client behaves on the server as documented."""
    assert program.run(scenario, server.url) == _PRINTED[scenario]


def test_objects(server: Server) -> None:
    """An object is stored in chunks, read and deleted. (libnats 3.4 has no object store.)"""
    assert JETSTREAM_JS.run("objects", server.url) == _PRINTED["objects"]
