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

COLUMN = 13
"""The bytes of a column without values."""


@given(
    positions=st.lists(NUMBERS, min_size=5, max_size=5),
    pending=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=20),
    counts=st.dictionaries(NUMBERS, st.integers(0, 1 << 40), max_size=20),
    unsent=st.lists(NUMBERS, max_size=20),
)
def test_roundTrip(
    positions: list[int],
    pending: list[tuple[int, int, int]],
    counts: dict[int, int],
    unsent: list[int],
) -> None:
    """A state that is written and read is the same."""
    delivered, floor, floorStream, start, resume = positions
    last = (1 << 63) - 1
    sequences, firsts, dues = ([entry[place] for entry in sorted(pending)] for place in range(3))
    written = ConsumerState(
        delivered,
        last,
        floor,
        floorStream,
        start,
        resume,
        sequences,
        firsts,
        dues,
        counts,
        unsent,
    )
    assert ConsumerState.decode(written.encode()) == written


def test_size() -> None:
    """A thousand pending messages take twelve bytes each, and little more."""
    bases = (10**7, 5 * 10**6, 1_700_000_000_000)
    sequences, firsts, dues = (list(range(base, base + 1000)) for base in bases)
    state = ConsumerState(5000, 1 << 40, 0, 0, 0, 0, sequences, firsts, dues)
    assert len(state.encode()) < 12_200


@pytest.mark.parametrize("length", [0, 1, 40, 49, 60, 117])
def test_cutOff(length: int) -> None:
    """A value that is cut off is damaged, not another state."""
    value = ConsumerState(1, 2, 0, 0, 0, 0, [1, 2], [1, 2], [5, 5], {1: 3}).encode()
    assert length < len(value)
    with pytest.raises(DamagedState):
        ConsumerState.decode(value[:length])


def test_otherVersion() -> None:
    """A value of a later version is not understood."""
    with pytest.raises(DamagedState):
        ConsumerState.decode(b"\x09" + ConsumerState().encode()[1:])


def test_firstVersion() -> None:
    """
    A state of the first version, which lacks unsent messages, is read as if all had been sent.
    """
    written = ConsumerState(1, 2, 0, 0, 0, 0, [2], [1], [5], {2: 3})
    withoutLast = written.encode()[:-COLUMN]
    assert ConsumerState.decode(b"\x01" + withoutLast[1:]) == written


def test_tooManyPendingToStore(monkeypatch: pytest.MonkeyPatch) -> None:
    """If not all pending messages fit into the stored state, the newest count as undelivered."""
    monkeypatch.setattr(state, "MOST_PENDING", 2)
    written = ConsumerState(3, 9, 0, 0, 0, 0, [1, 4, 9], [1, 2, 3], [5, 5, 5], {4: 1, 9: 2})
    read = ConsumerState.decode(written.encode())
    assert (read.deliveredStream, read.sequences, read.counts) == (4, [1, 4], {4: 1})
    assert (read.firsts, read.dues) == ([1, 2], [5, 5])


def test_key() -> None:
    """The key fits however long the names are, and differs for each consumer."""
    keys = {stateKey("S" * 255, "C" * 255), stateKey("S", "C"), stateKey("S", "D")}
    assert len(keys) == 3
    assert max(map(len, keys)) < 300
