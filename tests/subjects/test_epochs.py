"""
Tests for L{natsbroker.subjects.epochs}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.subjects.epochs import Epochs
from natsbroker.subjects.grammar import matches
from tests.subjects.strategies import DELIVERABLE, PATTERNS


class TestEpochs:
    """The ages of subjects."""

    @given(
        st.lists(PATTERNS | DELIVERABLE, max_size=20),
        st.sets(DELIVERABLE, min_size=1, max_size=5),
        st.sampled_from([1, 2, 64, 4096]),
    )
    def test_neverStale(self, changes: list[bytes], subjects: set[bytes], counters: int) -> None:
        """A change of any matching pattern gives a subject a new epoch."""
        epochs = Epochs(counters)
        seen = {subject: epochs.epochOf(subject) for subject in subjects}
        for pattern in changes:
            epochs.changed(pattern)
            for subject in subjects:
                now = epochs.epochOf(subject)
                assert now >= seen[subject]
                if matches(pattern, subject):
                    assert now > seen[subject]
                seen[subject] = now

    @given(DELIVERABLE)
    def test_steady(self, subject: bytes) -> None:
        """Asking for an epoch changes no epoch."""
        epochs = Epochs()
        assert epochs.epochOf(subject) == epochs.epochOf(subject)

    def test_othersMostlyStay(self) -> None:
        """A change of other patterns leaves the epochs of nearly all subjects unchanged."""
        epochs = Epochs(4096)
        subjects = [b"orders.%d" % number for number in range(1000)]
        others = [b"h%d" % number for number in range(100)]
        elsewhere = [head for head in others if hash(head) % 4096 != hash(b"orders") % 4096]
        before = [epochs.epochOf(subject) for subject in subjects]
        for number, head in enumerate(elsewhere[:20]):
            epochs.changed(head + b".*")
            epochs.changed(b"orders.%d" % (number + 1000))
        after = [epochs.epochOf(subject) for subject in subjects]
        # 20 of 4,096 counters moved: about 5 of the subjects share one of them by chance.
        assert sum(a != b for a, b in zip(before, after, strict=True)) < 100

    def test_leadingWildcardsAgeAll(self) -> None:
        """A change of a pattern with a leading wildcard gives every subject a new epoch."""
        epochs = Epochs()
        before = epochs.epochOf(b"a.b")
        epochs.changed(b"*.x.y")
        epochs.changed(b">")
        assert epochs.epochOf(b"a.b") == before + 2

    def test_tokensThatLookLikeWildcards(self) -> None:
        """A first token that only begins with a star is a literal one."""
        epochs = Epochs(1 << 16)
        before = epochs.epochOf(b"*a.b")
        epochs.changed(b"*a.*")
        assert epochs.epochOf(b"*a.b") > before

    @pytest.mark.parametrize("counters", [0, -1, 3, 1000])
    def test_rowLength(self, counters: int) -> None:
        """Rows have a power of two of counters."""
        with pytest.raises(ValueError, match="power of two"):
            Epochs(counters)
