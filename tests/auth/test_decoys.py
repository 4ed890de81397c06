"""
Tests of L{natsbroker.auth.decoys}.
"""

from __future__ import annotations

from collections import Counter

from natsbroker.auth.decoys import DummySecrets


def test_sameForAName() -> None:
    """A name always gets the same secret, and names share what there is."""
    decoys = DummySecrets(["a", "b", "c"])
    names = [f"user{number}" for number in range(300)]
    given = [decoys.secretFor(name) for name in names]
    assert given == [decoys.secretFor(name) for name in names]
    counts = Counter(given)
    assert set(counts) == {"a", "b", "c"}
    assert min(counts.values()) > 50


def test_notForeseeable() -> None:
    """Which secret a name gets differs from one start to the next."""
    secrets = [str(number) for number in range(1000)]
    assert [DummySecrets(secrets).secretFor(name) for name in "abc"] != [
        DummySecrets(secrets).secretFor(name) for name in "abc"
    ]


def test_nobody() -> None:
    """Without any user there is still something to compare with."""
    assert DummySecrets([]).secretFor("x") == ""


def test_anyName() -> None:
    """Names that are no Unicode text get one, too."""
    assert DummySecrets(["a"]).secretFor("\ud800\udcff\x00") == "a"
