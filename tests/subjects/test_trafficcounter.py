"""
Counting what clients publish, on the lanes and on the readable path.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker.wire.values import Kind, Message
from tests.support import HEADERS, QUIET, Names, World, onEach, using


@onEach
def test_sums(names: Names) -> None:
    """Counts and bytes are added up, copies included."""
    tally = names.TrafficCounter()
    tally.add(2, 10, 3)
    tally.add(1, 5, 0)
    counts = (tally.messages, tally.size, tally.copies, tally.copiedSize)
    assert counts == (3, 15, 6, 30)


class Counted:
    """
    A world whose global account is counted, subject by subject.

    @ivar tallies: by subject, one for each time that it was asked for.
    """

    def __init__(self, names: Names, lane: bool) -> None:
        self.world = World()
        self.world.context.fastLane = lane
        self.tallies: dict[bytes, Any] = {}
        self._names = names
        self.matcher = self.world.accounts["$G"].matcher
        self.matcher.counterFor = self._record
        self.matcher.changed(b">")

    def _record(self, subject: bytes, matches: Any) -> Any:
        return self.tallies.setdefault(subject, self._names.TrafficCounter())

    def figures(self, subject: bytes) -> tuple[int, int, int, int]:
        """The counts for a subject."""
        tally = self.tallies[subject]
        return (tally.messages, tally.size, tally.copies, tally.copiedSize)


@onEach
@pytest.mark.parametrize("lane", [True, False])
def test_countsWhatIsPublished(names: Names, lane: bool) -> None:
    """A message counts once with its bytes, and once for each receiver, on any path."""
    with using(names):
        counted = Counted(names, lane)
        one, two = counted.world.client(QUIET), counted.world.client(QUIET)
        one.send(b"SUB a.* 1\r\nSUB a.b 2\r\nSUB a.b q 3\r\n")
        two.send(b"SUB a.b q 1\r\n")
        publisher = counted.world.client(HEADERS)
        publisher.send(b"PUB a.b 3\r\nabc\r\n" * 5 + b"PUB nobody 1\r\nx\r\n")
        publisher.send(b"HPUB a.c 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
        assert counted.figures(b"a.b") == (5, 15, 15, 45)
        assert counted.figures(b"nobody") == (1, 1, 0, 0)
        assert counted.figures(b"a.c") == (1, 14, 1, 14)


@onEach
def test_changes(names: Names) -> None:
    """A later subscription counts from then on; without a counter, messages are not counted."""
    with using(names):
        counted = Counted(names, True)
        publisher, subscriber = counted.world.client(QUIET), counted.world.client(QUIET)
        publisher.send(b"PUB a 1\r\nx\r\n")
        subscriber.send(b"SUB a 1\r\n")
        publisher.send(b"PUB a 1\r\nx\r\nPUB a 1\r\nx\r\n")
        assert counted.figures(b"a") == (3, 3, 2, 2)
        counted.matcher.counterFor = None
        counted.matcher.changed(b">")
        publisher.send(b"PUB a 1\r\nx\r\n")
        assert counted.figures(b"a") == (3, 3, 2, 2)


@onEach
def test_onlyClients(names: Names) -> None:
    """Messages of services and links are not counted."""
    with using(names):
        counted = Counted(names, True)
        account = counted.world.accounts["$G"]
        account.delivery.publish(Kind.CLIENT, Message(b"a", b"x"))
        for kind in (Kind.INTERNAL, Kind.ROUTE, Kind.GATEWAY, Kind.HUB, Kind.SPOKE):
            account.delivery.publish(kind, Message(b"a", b"x"))
        assert counted.figures(b"a") == (1, 1, 0, 0)


@onEach
def test_declined(names: Names) -> None:
    """
    A message that the lane leaves to the readable path is counted once, and a refused one not at
    all.
    """
    with using(names):
        counted = Counted(names, True)
        client = counted.world.client(HEADERS)
        client.send(b"PUB a _INBOX.1 1\r\nx\r\nPUB _GR_.a 1\r\nx\r\n")
        assert counted.figures(b"a") == (1, 1, 0, 0)
        refused = counted.tallies.get(b"_GR_.a")
        assert refused is None or refused.messages == 0


def published(subject: bytes, reply: bytes, header: bytes, size: int) -> bytes:
    """A publish in its usual spelling."""
    line = b" ".join(filter(None, [subject, reply]))
    if not header:
        return b"PUB %b %d\r\n%b\r\n" % (line, size, b"x" * size)
    length = len(header)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (line, length, length + size, header, b"x" * size)


MESSAGES = st.builds(
    published,
    st.sampled_from([b"a.b", b"a.c", b"x", b"nobody"]),
    st.sampled_from([b"", b"_INBOX.1", b"a.c"]),
    st.sampled_from([b"", b"NATS/1.0\r\n\r\n"]),
    st.integers(0, 20),
)

CHANGES = st.sampled_from([b"SUB a.> 1\r\n", b"SUB a.b q 2\r\n", b"UNSUB 1\r\n", b"SUB x 3\r\n"])


@pytest.mark.slow
@onEach
@settings(max_examples=60)
@given(st.lists(st.tuples(st.lists(CHANGES, max_size=2), st.lists(MESSAGES)), max_size=6))
def test_lanesCountAlike(names: Names, script: list[tuple[list[bytes], list[bytes]]]) -> None:
    """A lane counts any messages like the readable path."""
    rows = []
    with using(names):
        for lane in (True, False):
            counted = Counted(names, lane)
            publisher, subscriber = counted.world.client(HEADERS), counted.world.client(HEADERS)
            for changes, messages in script:
                subscriber.send(b"".join(changes))
                publisher.send(b"".join(messages))
            sums = {tally: counted.figures(tally) for tally in counted.tallies}
            rows.append({key: figures for key, figures in sums.items() if any(figures)})
    assert rows[0] == rows[1]
    count = sum(len(messages) for _, messages in script)
    assert sum(figures[0] for figures in rows[0].values()) == count
