"""
Clusters of three in memory, with seeded histories: clients connect, publish and disconnect, and
links break. No client ever receives a message twice, or out of its publisher's order. After the
links are restored, every member knows exactly the interest of the others, and every message
arrives.

C{python -m tests.links.test_histories SEED} plays one history again.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from typing import Any

import pytest

from natsbroker.subjects.grammar import matches
from tests.routes.clusters import Node, mesh, target
from tests.support import Recorder

pytestmark = pytest.mark.slow

#: How many histories are played; more of them: C{python -m tests.links.test_histories FIRST LAST}.
SEEDS = range(150)

STEPS = 40
SUBJECTS = [b"a", b"a.b", b"b.c", b"c"]
PATTERNS = [b"a", b"a.*", b">", b"b.>", b"*"]


class History:
    """A cluster, and its events."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        size = self.random.choice([-1, 1, 3])
        first = Node("n0", 6000, poolSize=size)
        self.nodes = [first]
        for place in (1, 2):
            named = self.random.sample(range(6000, 6003), self.random.randint(1, 2))
            targets = tuple(target(port) for port in sorted({6000, *named} - {6000 + place}))
            self.nodes.append(
                Node(f"n{place}", 6000 + place, first.clock, poolSize=size, targets=targets)
            )
        mesh(*self.nodes)
        for node in self.nodes:
            for goal in node.cluster.terms.targets:
                node.cluster.dial(goal, 0.0)
        self.clients: list[tuple[int, str, bytes, bytes, Recorder]] = []
        self.numbers: Counter[tuple[int, str, bytes]] = Counter()

    def settle(self, seconds: float) -> None:
        """Let time pass."""
        self.nodes[0].settle(seconds)

    def step(self) -> None:
        """Let one random event happen."""
        random = self.random
        what = random.random()
        place, account = random.randrange(3), random.choice(["A", "B"])
        if what < 0.3:
            pattern, queue = random.choice(PATTERNS), random.choice([b"", b"", b"q", b"r"])
            recorder = self.nodes[place].subscribe(pattern, queue, account)
            self.clients.append((place, account, pattern, queue, recorder))
        elif what < 0.45 and self.clients:
            *_, recorder = self.clients.pop(random.randrange(len(self.clients)))
            recorder.subscription.cancel()
        elif what < 0.85:
            for _ in range(random.randint(1, 5)):
                self.publish(place, account, random.choice(SUBJECTS))
        elif what < 0.95:
            routes = list(self.nodes[place].cluster)
            if routes:
                peer: Any = random.choice(routes).peer
                peer.abort()
        else:
            self.settle(random.choice([0.05, 0.5, 2.0]))

    def publish(self, place: int, account: str, subject: bytes) -> bytes:
        """Publish as a client. Each message is numbered by its publisher and subject."""
        key = place, account, subject
        self.numbers[key] += 1
        body = b"%d %b %b %d" % (place, account.encode(), subject, self.numbers[key])
        self.nodes[place].publish(subject, body, account)
        return body

    def checkHeard(self) -> None:
        """Check that no client received a message twice, or out of order."""
        for *_, recorder in self.clients:
            last: dict[bytes, int] = {}
            for body in recorder.bodies:
                publisher, _, number = body.rpartition(b" ")
                assert int(number) > last.get(publisher, 0), f"{body!r} after {last}"
                last[publisher] = int(number)

    def checkWhole(self) -> None:
        """Check that every member knows the interest of the others, and nothing else."""
        for node in self.nodes:
            assert len(node.peers()) == 2, f"{node.cluster.identity.server_name}: {node.peers()}"
            for other in self.nodes:
                if other is node:
                    continue
                member = node.cluster.members[other.cluster.identity.server_id]
                told = Counter(
                    (interest.account, interest.pattern, interest.queue, interest.weight)
                    for route in member
                    if route.traffic is not None
                    for interest in route.traffic.interest
                )
                assert told == self.served(self.nodes.index(other))

    def served(self, place: int) -> Counter[tuple[bytes, bytes, bytes, int]]:
        """The interest of a member that others should know."""
        counts = Counter(
            (account.encode(), pattern, queue)
            for where, account, pattern, queue, _ in self.clients
            if where == place
        )
        return Counter((*key, count if key[2] else 0) for key, count in counts.items())

    def checkArrives(self) -> None:
        """Check that new messages reach all plain subscribers, and one member of each group."""
        for place in range(3):
            for account in ("A", "B"):
                for subject in SUBJECTS:
                    body = self.publish(place, account, subject)
                    groups: Counter[bytes] = Counter()
                    expected: set[bytes] = set()
                    for _, owner, pattern, queue, recorder in self.clients:
                        count = recorder.bodies.count(body)
                        isFor = owner == account and matches(pattern, subject)
                        if not queue or not isFor:
                            assert count == isFor, f"{body!r} came {count} times to {pattern!r}"
                        else:
                            groups[queue] += count
                            expected.add(queue)
                    assert groups == Counter(dict.fromkeys(expected, 1))

    def play(self) -> None:
        """Play the history from the beginning to the end."""
        self.settle(1.0)
        for _ in range(STEPS):
            self.step()
        self.settle(8.0)
        self.checkWhole()
        self.checkArrives()
        self.checkHeard()
        for *_, recorder in self.clients:
            recorder.subscription.cancel()
        self.clients.clear()
        self.settle(0.1)
        self.checkWhole()


def play(seed: int) -> None:
    """Play one history, whose seed is named if it fails."""
    try:
        History(seed).play()
    except Exception as error:
        raise AssertionError(f"python -m tests.links.test_histories {seed}: {error}") from error


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, 10))
def test_histories(first: int) -> None:
    """Ten histories with different seeds lose, repeat and reorder no message."""
    for seed in range(first, first + 10):
        play(seed)


if __name__ == "__main__":
    bounds = [int(bound) for bound in sys.argv[1:]]
    for history in range(bounds[0], bounds[-1] + 1):
        play(history)
    print(f"played {bounds[-1] - bounds[0] + 1}")
