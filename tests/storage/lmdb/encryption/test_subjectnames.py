"""
The subjects of encrypted logs, listed in byte order.
"""

from __future__ import annotations

from collections.abc import Iterator

from natsbroker.storage.lmdb.encryption.subjectnames import STALE, SubjectNames
from natsbroker.subjects.searching import PatternSearch

ALL = PatternSearch(b">")


def namesOf(names: SubjectNames) -> list[bytes]:
    """All known names of log 1."""
    some = names.find(1, ALL, b"")
    assert some is not None
    return some[0]


def test_learnt() -> None:
    """The names of subjects are read once, and later commits add theirs."""
    names = SubjectNames()
    assert names.find(1, ALL, b"") is None
    names.adding({1: [b"before"]}, {1: 1})
    names.learn(1, lambda: [b"b", b"before"])
    names.learn(1, lambda: [b"not read again"])
    names.adding({1: [b"a"], 2: [b"z"]}, {1: 3, 2: 1})
    assert namesOf(names) == [b"a", b"b", b"before"]


def test_commitUnderway() -> None:
    """Names of a commit that began before the names were read are included."""
    names = SubjectNames()
    names.adding({1: [b"underway"]}, {1: 1})
    names.learn(1, lambda: [])
    assert namesOf(names) == [b"underway"]


def test_commitMeanwhile() -> None:
    """Names that are committed while others are read are included."""
    names = SubjectNames()

    def read() -> Iterator[bytes]:
        yield b"a"
        names.adding({1: [b"new"]}, {1: 2})

    names.learn(1, read)
    assert namesOf(names) == [b"a", b"new"]


def test_stale() -> None:
    """If most names are gone from the database, the names are read again."""
    names = SubjectNames()
    names.learn(1, lambda: (b"%d" % number for number in range(STALE)))
    names.adding({1: [b"one"]}, {1: 1})
    assert namesOf(names)
    names.adding({1: [b"two", b"three"]}, {1: 0})
    assert names.find(1, ALL, b"") is None
    names.learn(1, lambda: [b"three"])
    names.forget(1)
    assert names.find(1, ALL, b"") is None
