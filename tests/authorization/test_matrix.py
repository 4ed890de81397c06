"""
The authorization matrix: generated kinds of connection, states, verbs and rules, and the reference
that the product is compared with.

A disagreement names its scene. C{python -m tests.authorization --scenes 20000} plays more of them.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from natsbroker.leafnodes.rules import LeafRules
from natsbroker.subjects.permissions import Verdict
from tests.authorization.reference import Rules, covers, fits, may
from tests.authorization.scenes import KINDS, STATES, Disagreement, Scene, check
from tests.support import COMPILED, PURE, Names, onEach

#: How many scenes each implementation plays.
SCENES = int(os.environ.get("NATSBROKER_SCENES", "90"))

LEAST = 5000


@pytest.mark.slow
@onEach
def test_matrix(names: Names) -> None:
    """At least five thousand cases agree with the reference, and each kind and state occurs."""
    cases: Counter[tuple[str, str]] = Counter()
    for number in range(SCENES):
        scene = Scene(number, names)
        cases[scene.kind.name, scene.state] += scene.play()
    assert cases.total() >= LEAST
    assert set(cases) == {(kind.name, state) for kind in KINDS for state in STATES}


def test_scenesAreRepeatable() -> None:
    """A number always makes the same scene."""
    assert [Scene(number, PURE).play() for number in (7, 13)] == [
        Scene(number, PURE).play() for number in (7, 13)
    ]


@pytest.mark.parametrize("verb", ["publish", "subscribe", "hear"])
def test_disagreementsAreFound(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """A reference that is wrong about one verb disagrees with the product in some scene."""

    def wrong(rules: Rules, asked: str, subject: str, queue: str = "") -> bool:
        return may(rules, asked, subject, queue) or asked == verb

    monkeypatch.setattr("tests.authorization.scenes.may", wrong)
    with pytest.raises(Disagreement, match="scene"):
        for number in range(SCENES):
            Scene(number, COMPILED or PURE).play()


@pytest.mark.parametrize("method", ["mayCome", "mayExport"])
def test_lenientHubIsFound(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """A hub that lets a leafnode publish or subscribe beyond its user's permissions is found."""
    monkeypatch.setattr(LeafRules, method, lambda *_: Verdict.ALLOWED)
    with pytest.raises(Disagreement, match="leafnode"):
        for number in range(SCENES):
            Scene(number, COMPILED or PURE).play()


def test_check() -> None:
    """A failed check raises Disagreement, also with C{python -O}."""
    check(True)
    with pytest.raises(Disagreement, match="so b'x'"):
        check(False, "so", b"x")


class TestReference:
    """The reference itself, where the rules are easily misunderstood."""

    @pytest.mark.parametrize(
        ("pattern", "subject", "expected"),
        [
            ("a.*", "a.b", True),
            ("a.*", "a", False),
            ("a.*", "a.b.c", False),
            ("a.>", "a", False),
            ("a.>", "a.b.c", True),
            (">", "a", True),
            ("*", "*", True),
            ("a.*", "a.>", True),
        ],
    )
    def test_matchingPair(self, pattern: str, subject: str, expected: bool) -> None:
        """A pattern and a subject match if the wildcards stand for words."""
        assert fits(pattern, subject) is expected

    @pytest.mark.parametrize(
        ("pattern", "other", "expected"),
        [("a.*", "a.>", False), ("a.>", "a.>", True), ("a.>", "a.*", True), (">", "a.>", True)],
    )
    def test_covers(self, pattern: str, other: str, expected: bool) -> None:
        """A pattern covers another one if it matches all that the other one matches."""
        assert covers(pattern, other) is expected

    def test_queues(self) -> None:
        """
        An entry with a queue applies to this queue only, and restricts entries without a queue.
        """
        rules = Rules(subscribe=("s.a", "s.a v1"))
        assert may(rules, "subscribe", "s.a")
        assert may(rules, "subscribe", "s.a", "v1")
        assert not may(rules, "subscribe", "s.a", "v2")
        assert not may(Rules(notSubscribe=("s.a v1",)), "hear", "s.a", "v1")
        assert may(Rules(notSubscribe=("s.a v1",)), "hear", "s.a", "v2")
