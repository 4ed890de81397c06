"""
Tests for L{natsbroker.subjects.collisionindex}.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from natsbroker.steps import PIECE, finish
from natsbroker.subjects.collisionindex import CollisionIndex
from natsbroker.subjects.grammar import overlaps
from tests.counting import callsOf
from tests.subjects.strategies import LITERALS, PATTERNS


class _Owner(NamedTuple):
    subjects: tuple[str, ...]


_LISTS = st.lists((PATTERNS | LITERALS).map(bytes.decode), max_size=4, unique=True).map(tuple)
_OWNED = st.dictionaries(st.sampled_from("ABCD"), _LISTS, max_size=4)


def _ownersOf(owned: Mapping[str, tuple[str, ...]]) -> dict[str, _Owner]:
    return {name: _Owner(subjects) for name, subjects in owned.items()}


def _meets(owned: dict[str, tuple[str, ...]], patterns: tuple[str, ...], owner: str) -> bool:
    theirs = [subject for name, some in owned.items() if name != owner for subject in some]
    return any(overlaps(one.encode(), other.encode()) for one in patterns for other in theirs)


@given(st.lists(st.tuples(_OWNED, _LISTS, st.sampled_from("ABCDE")), max_size=5))
def test_meets(history: list[tuple[dict[str, tuple[str, ...]], tuple[str, ...], str]]) -> None:
    """After any changes, the index finds the same overlaps as a comparison of all pairs."""
    index = CollisionIndex()
    for owned, patterns, owner in history:
        finish(index.update(_ownersOf(owned)))
        assert finish(index.meets(patterns, owner)) == _meets(owned, patterns, owner)


@given(_OWNED, _OWNED, _LISTS)
def test_changed(
    before: dict[str, tuple[str, ...]], after: dict[str, tuple[str, ...]], patterns: tuple[str, ...]
) -> None:
    """An update looks only at the named owners, with the same result as if it looked at all."""
    index = CollisionIndex()
    finish(index.update(_ownersOf(before)))
    changed = {"A", "B", "Z"}
    finish(index.update(_ownersOf(after), changed))
    known = {name: before[name] for name in before if name not in "AB"}
    known.update((name, after[name]) for name in after if name in "AB")
    assert changed == set()
    assert finish(index.meets(patterns, "E")) == _meets(known, patterns, "E")


def test_changeWithinAQuestion() -> None:
    """A change between the steps of a search is included in the result."""
    owned = {str(number): (f"a.{number}.x",) for number in range(1000)}
    index = CollisionIndex()
    finish(index.update(_ownersOf(owned)))
    asking = index.meets(["*.b.y"], "")
    next(asking)
    finish(index.update(_ownersOf({**owned, "late": ("c.b.y",)})))
    assert finish(asking)


MANY = tuple(f"a.{number}" for number in range(3 * PIECE))


def test_manyInSteps() -> None:
    """
    Very many patterns of one owner are added and removed in steps; those that stay cost nothing.
    """
    index = CollisionIndex()
    assert sum(1 for _ in index.update({"A": _Owner(MANY)})) > 3
    assert sum(1 for _ in index.update({"A": _Owner((*MANY, "b"))})) <= 3
    assert finish(index.meets(["b"], "B")) and finish(index.meets(["a.9"], "B"))
    assert sum(1 for _ in index.update({})) > 3
    assert not finish(index.meets(["a.*"], "B"))


def test_updatesAtOnce() -> None:
    """An update that begins while another one runs includes the changes of both."""
    index = CollisionIndex()
    owners = {"A": _Owner(MANY)}
    changed = {"A"}
    first = index.update(owners, changed)
    next(first)
    next(first)
    owners["A"] = _Owner(("b.*",))
    finish(index.update(owners, {"A"}))
    assert not finish(index.meets(["a.*"], "B")) and finish(index.meets(["b.x"], "B"))
    finish(first)
    assert not finish(index.meets(["a.*"], "B")) and finish(index.meets(["b.x"], "B"))


def test_workOfAQuestion() -> None:
    """
    A search for one pattern costs the same with any number of owners; a change costs one look-up.
    """
    calls = []
    for count in (1000, 4000):
        index = CollisionIndex()
        owned = {str(number): (f"a.{number}",) for number in range(count)}
        owners = _ownersOf(owned)
        finish(index.update(owners))
        for pattern in ("a.x", "b.*"):
            assert not finish(index.meets([pattern], "x"))
            calls.append(callsOf(partial(finish, index.meets([pattern], "x"))))
        owners["1"] = _Owner(("a.1", "b.1"))
        calls.append(callsOf(partial(finish, index.update(owners))))
    assert calls[:2] == calls[3:5]
    assert calls[0] < 100
    assert calls[2] < 1200
    assert calls[5] < 4200


def test_tables() -> None:
    """Searches for very many shapes do not fill the memory."""
    index = CollisionIndex()
    owned = {str(number): ("a." * 11 + str(number),) for number in range(3000)}
    finish(index.update(_ownersOf(owned)))
    for number in range(64):
        stars = ["*" if number >> place & 1 else "b" for place in range(12)]
        assert not finish(index.meets([".".join(stars) + ".c", "a." * 11 + "x"], ""))
        assert index.entries <= 4 * 3000 + 4096 + 3000
