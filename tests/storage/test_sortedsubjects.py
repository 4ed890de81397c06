"""
Many subjects in byte order.
"""

from __future__ import annotations

from random import Random

import pytest

from natsbroker.storage import sortedsubjects
from natsbroker.storage.sortedsubjects import SortedSubjects


def test_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subjects that come and go are found in order, behind a place and below a beginning."""
    monkeypatch.setattr(sortedsubjects, "LONGEST", 8)
    chance = Random(11)
    subjects = SortedSubjects()
    known: set[bytes] = set()
    for turn in range(3000):
        each = b"%c.%d" % (chance.choice(b"abc"), chance.randrange(60))
        if each in known:
            known.remove(each)
            subjects.remove(each)
        else:
            known.add(each)
            subjects.add(each)
        if turn % 50 == 0 or turn < 20:
            assert list(subjects.behind(b"", b"")) == sorted(known)
            below = sorted(one for one in known if one.startswith(b"b."))
            assert list(subjects.behind(b"", b"b.")) == below
            assert list(subjects.behind(b"b.3", b"b.")) == [one for one in below if one > b"b.3"]
    assert max(map(len, subjects._lists)) <= 8
    for one in known:
        subjects.remove(one)
    assert list(subjects.behind(b"", b"")) == []
