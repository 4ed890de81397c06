"""
JetStream of natsbroker, compared with that of nats-server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.jetstream.asking import STORAGE
from tests.interop.jetstream.lockstep import Lockstep
from tests.interop.jetstream.requests import EACH, compareRound
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server

_LENGTH = 20

#: Of the histories.
SEEDS = tuple(range(100, 106))

#: Of the rounds of requests.
ROUNDS = tuple(range(100, 104))


@pytest.fixture
def lockstep(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lockstep]:
    """nats-server, and the server that the test names."""
    servers = []
    flavours: tuple[Flavour, ...] = (request.param, REAL)
    for place, flavour in enumerate(flavours):
        directory = tmp_path / str(place)
        directory.mkdir()
        servers.append(Server(flavour, directory, STORAGE).start())
    yield Lockstep(*servers)
    for server in servers:
        server.stop()


@pytest.mark.parametrize("lockstep", [OURS_FAST], ids=lambda flavour: flavour.name, indirect=True)
def test_agreement(lockstep: Lockstep) -> None:
    """
    The answers and the deliveries of histories, and the answers to requests, are nats-server's.
    """
    histories = [lockstep.history(seed, _LENGTH) for seed in SEEDS]
    histories += [compareRound(lockstep, seed) for seed in ROUNDS]
    assert not any(histories), "\n".join(filter(None, histories))
    assert lockstep.requests == _LENGTH * len(SEEDS) + EACH * len(ROUNDS)


@pytest.mark.parametrize("lockstep", [REAL], ids=lambda flavour: flavour.name, indirect=True)
def test_oracleIsRepeatable(lockstep: Lockstep) -> None:
    """nats-server agrees with itself, so that a difference is significant."""
    histories = [lockstep.history(seed, _LENGTH) for seed in SEEDS[:2]]
    assert not any(histories), "\n".join(filter(None, histories))
