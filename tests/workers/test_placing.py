"""
The placement of connections.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from natsbroker.workers.placing import FACTOR, SPARE, WorkerLoad, chosen


class Server:
    """Workers that are given connections."""

    def __init__(self, workers: int) -> None:
        self.random = Random(1)
        self.loads = [WorkerLoad() for _ in range(workers)]
        self.number = 0

    def connect(self, account: str, count: int = 1) -> Counter[int]:
        """Connect clients of an account; return their workers."""
        places: Counter[int] = Counter()
        for _ in range(count):
            self.number += 1
            place = chosen(account, self.loads, self.random)
            self.loads[place][self.number] = account
            places[place] += 1
        return places


class TestPlacement:
    """Clients and their workers."""

    def test_apart(self) -> None:
        """Clients of a small account share a worker; many accounts are spread over the workers."""
        server = Server(4)
        accounts = [f"A{number}" for number in range(64)]
        homes = Counter(place for name in accounts for place in server.connect(name, 10))
        assert sum(homes.values()) == 64
        assert all(12 <= homes[place] <= 20 for place in range(4))

    def test_home(self) -> None:
        """An account stays at its worker, even if another one has less load."""
        server = Server(2)
        (home,) = server.connect("A")
        server.connect("", 20)
        assert server.connect("A", 30) == {home: 30}

    @pytest.mark.parametrize("workers", [2, 4, 8])
    def test_spills(self, workers: int) -> None:
        """
        When a large account's worker is full, the account's further clients are spread over all
        workers.
        """
        server = Server(workers)
        server.connect("A", 4000)
        sizes = sorted(map(len, server.loads))
        assert sizes[-1] <= FACTOR * 4000 / workers + SPARE + 1
        assert sizes[0] >= 0.5 * 4000 / workers

    def test_largestHome(self) -> None:
        """
        If an account has several workers, its next client goes to the one with most of its clients.
        """
        server = Server(2)
        for cid in range(4):
            server.loads[1][1000 + cid] = "A"
        server.loads[0][2000] = "A"
        assert server.connect("A", 20) == {1: 20}

    def test_lessLoaded(self) -> None:
        """Clients of an unknown account are spread evenly."""
        server = Server(3)
        server.connect("", 300)
        assert max(map(len, server.loads)) - min(map(len, server.loads)) <= 4

    def test_closed(self) -> None:
        """A worker whose connections have closed has less load, and no accounts."""
        server = Server(2)
        (home,) = server.connect("A", 10)
        server.connect("", 10)
        for cid in list(server.loads[home]):
            del server.loads[home][cid]
        assert server.loads[home].of("A") == 0
        server.loads[1 - home][500] = "B"
        assert server.connect("B", 5) == {1 - home: 5}
        assert set(server.connect("C", 1)) == {home}

    def test_killed(self) -> None:
        """After the end of a worker, its accounts go to the other workers, and stay there."""
        server = Server(3)
        (home,) = server.connect("A", 10)
        server.loads[home].clear()
        dead = server.loads.pop(home)
        (other,) = server.connect("A", 10)
        server.loads.append(dead)
        assert server.connect("A", 10) == {other: 10}

    def test_one(self) -> None:
        """A single worker gets all clients."""
        server = Server(1)
        assert server.connect("A", 500) == {0: 500}
        assert server.connect("", 5) == {0: 5}


class TestLoads:
    """The connections of one worker."""

    def test_entered(self) -> None:
        """After its login, a connection counts for its account."""
        load = WorkerLoad()
        load[1] = ""
        load[1] = "A"
        assert (load.of(""), load.of("A"), len(load)) == (0, 1, 1)
        assert dict(load) == {1: "A"}

    def test_members(self) -> None:
        """Only connections that have logged in count as members of an account."""
        load = WorkerLoad()
        load[1] = load[2] = "A"
        load.enter(1, "A")
        load.enter(3, "A")
        assert (load.of("A"), load.membersOf("A")) == (3, 2)
        del load[2], load[3]
        assert (load.of("A"), load.membersOf("A")) == (1, 1)
        load.clear()
        assert load.membersOf("A") == 0

    def test_closedTwice(self) -> None:
        """A closed connection may be removed twice."""
        load = WorkerLoad()
        load[1] = "A"
        assert load.pop(1, None) == "A" and load.pop(1, None) is None
        assert len(load) == 0
