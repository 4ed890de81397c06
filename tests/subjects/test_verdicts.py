"""
Verdicts about subjects are those of the grammar.
"""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from natsbroker.steps import PIECE, finish
from natsbroker.subjects.grammar import matches
from natsbroker.subjects.verdicts import SubjectVerdicts, indexing
from tests.counting import callsOf

TOKENS = st.sampled_from([b"a", b"b", b"ab", b"*", b">", b""])
NAMES = st.lists(TOKENS, min_size=1, max_size=4).map(b".".join)
PATTERNS = st.sampled_from([b">", b"a.>", b"a.b.>", b"*.>", b"a", b"a.*", b".>", b">.>", b"a..>"])


@given(st.lists(NAMES | PATTERNS, max_size=14), st.lists(NAMES, max_size=6))
def test_asTheGrammar(patterns: list[bytes], subjects: list[bytes]) -> None:
    """A subject gets the grammar's verdict, however often it is asked for."""
    verdicts = SubjectVerdicts(patterns)
    for subject in subjects * 2:
        assert verdicts[subject] == any(matches(pattern, subject) for pattern in patterns)


def test_prefixes() -> None:
    """A pattern that ends with C{>} matches longer subjects."""
    verdicts = SubjectVerdicts([b"load.>"])
    answers = [
        verdicts[subject] for subject in (b"load.1", b"load", b"load.", b"loads.1", b"load.a.b")
    ]
    assert answers == [True, False, False, False, True]


def test_manyPatterns() -> None:
    """A verdict costs about the same with any number of patterns."""
    few, many = (SubjectVerdicts([b"a.%d" % number for number in range(n)]) for n in (10, 3000))
    calls = [callsOf(partial(known.__missing__, b"a.x")) for known in (few, many)]
    assert calls[0] == calls[1] > 0
    assert many[b"a.2999"]


def test_inSteps() -> None:
    """An index of many patterns is built in steps, and remembered as one of the latest."""
    patterns = tuple(b"steps.%d.*" % number for number in range(2 * PIECE + 1))
    assert sum(1 for _ in indexing(patterns)) == 3
    assert sum(1 for _ in indexing(patterns)) == 0
    assert SubjectVerdicts(patterns)[b"steps.5.x"]
    for number in range(16):
        finish(indexing((b"other.%d" % number,)))
    assert sum(1 for _ in indexing(patterns)) == 3
