"""
The durable form of a consumer's state.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.jetstream.consumers import state
from natsbroker.jetstream.consumers.state import ConsumerState, DamagedState, stateKey

NUMBERS = st.integers(0, (1 << 63) - 1)


@given(
    positions=st.lists(NUMBERS, min_size=6, max_size=6),
    pending=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=20, unique_by=lambda e: e[0]),
    counts=st.dictionaries(NUMBERS, st.integers(0, 1 << 40), max_size=20),
)
def test_roundTrip(
    positions: list[int], pending: list[tuple[int, int, int]], counts: dict[int, int]
) -> None:
    """A state that is written and read is the same."""
    delivered, last, floor, floorStream, start, resume = positions
    last = (1 << 63) - 1
    written = ConsumerState(
        delivered, last, floor, floorStream, start, resume, sorted(pending), counts
    )
    assert ConsumerState.decode(written.encode()) == written


def test_size() -> None:
    """A thousand pending messages take twelve bytes each, and little more."""
    pending = [(10_000_000 + n, 5_000_000 + n, 1_700_000_000_000_000_000 + n) for n in range(1000)]
    assert len(ConsumerState(pending=pending, deliveredStream=1 << 40).encode()) < 12_200


@pytest.mark.parametrize("length", [0, 1, 40, 49, 60, 117])
def test_cutOff(length: int) -> None:
    """A value that is cut off is damaged, not another state."""
    value = ConsumerState(1, 2, 0, 0, 0, 0, [(1, 1, 5), (2, 2, 5)], {1: 3}).encode()
    assert length < len(value)
    with pytest.raises(DamagedState):
        ConsumerState.decode(value[:length])


def test_otherVersion() -> None:
    """A value of a later version is not understood."""
    with pytest.raises(DamagedState):
        ConsumerState.decode(b"\x09" + ConsumerState().encode()[1:])


def test_tooManyPending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for all pending messages, the newest count as not delivered."""
    monkeypatch.setattr(state, "MOST_PENDING", 2)
    pending = [(1, 1, 5), (4, 2, 5), (9, 3, 5)]
    written = ConsumerState(3, 9, 0, 0, 0, 0, pending, {4: 1, 9: 2})
    read = ConsumerState.decode(written.encode())
    assert (read.deliveredStream, read.pending, read.counts) == (4, pending[:2], {4: 1})


def test_key() -> None:
    """The key fits however long the names are, and differs for each consumer."""
    keys = {stateKey("S" * 255, "C" * 255), stateKey("S", "C"), stateKey("S", "D")}
    assert len(keys) == 3
    assert max(map(len, keys)) < 300
