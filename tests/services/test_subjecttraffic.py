"""
The publishers with the most messages.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from natsbroker.services.subjecttraffic import SubjectTraffic, TrafficCount, prefixOf
from natsbroker.wire.values import Kind


@pytest.mark.parametrize(
    ("subject", "prefix"),
    [
        (b"a", b"a"),
        (b"a.b", b"a.b"),
        (b"a.b.c", b"a.b.>"),
        (b"a.b.c.d", b"a.b.>"),
        (b"a.*.c", b"a.*.>"),
        (b"a.>", b"a.>"),
        (b">", b">"),
        (b"_INBOX.xyz.7", b"_INBOX.>"),
        (b"_INBOX.xyz", b"_INBOX.>"),
        (b"x" * 250 + b".b", b">"),
    ],
)
def test_prefix(subject: bytes, prefix: bytes) -> None:
    """A group of subjects has the first two tokens in common."""
    assert prefixOf(subject, 2) == prefix


def matching(*gateways: str, plain: int = 1) -> Any:
    """A match with a number of clients and some gateways."""
    links = tuple(
        SimpleNamespace(
            kind=Kind.GATEWAY,
            closed=False,
            subscriber=SimpleNamespace(link=SimpleNamespace(gateway=gateway)),
        )
        for gateway in gateways
    )

    class Found(SimpleNamespace):
        def __bool__(self) -> bool:
            return bool(plain or gateways)

    return Found(links=links, copies=plain)


def count(
    talkers: SubjectTraffic, account: str, subject: bytes, times: int = 1, size: int = 1
) -> None:
    """Count publishes to a subject."""
    talkers.counterOf(account, subject, matching()).add(times, times * size, 1)


def test_reportedOnce() -> None:
    """A count is reported once. A subject without new messages is not reported."""
    talkers = SubjectTraffic(2, 10)
    counter = talkers.counterOf("A", b"x.y.1", matching("b", "a"))
    assert talkers.counterOf("A", b"x.y.2", matching("a", "b")) is counter
    counter.add(2, 10, 3)
    assert talkers.take() == (
        [TrafficCount("A", b"x.y.>", ("a", "b"), True, (2, 10, 6, 30))],
        set(),
    )
    assert talkers.take() == ([], set())
    counter.add(1, 1, 0)
    assert talkers.take()[0] == [TrafficCount("A", b"x.y.>", ("a", "b"), True, (1, 1, 0, 0))]


def test_distinguished() -> None:
    """
    Traffic is counted separately by account, prefix, clusters, and whether there was a receiver.
    """
    talkers = SubjectTraffic(2, 10)
    for account, subject, matches in [
        ("A", b"x", matching()),
        ("B", b"x", matching()),
        ("A", b"y", matching()),
        ("A", b"x", matching("far")),
        ("A", b"x", matching(plain=0)),
    ]:
        talkers.counterOf(account, subject, matches).add(1, 1, 0)
    talks, _ = talkers.take()
    assert len(talks) == 5
    assert [talk.isWanted for talk in talks].count(False) == 1


def test_newcomerTakesTheLightest() -> None:
    """
    A new subject with more messages than the least counted one replaces it after the next report.
    """
    talkers = SubjectTraffic(1, 4)
    old = [(b"a", 9), (b"b", 7), (b"c", 1), (b"d", 8)]
    for subject, times in old:
        count(talkers, "A", subject, times)
    count(talkers, "B", b"new", 20)
    talks, displaced = talkers.take()
    assert displaced == {"B"}
    assert [talk.prefix for talk in talks] == [b"a", b"d", b"b", b"c", b">"]
    assert talks[-1] == TrafficCount("B", b">", (), True, (20, 20, 20, 20))
    for subject, times in old:
        count(talkers, "A", subject, times)
    count(talkers, "B", b"new", 20)
    talks, displaced = talkers.take()
    assert displaced == {"A", "B"}
    assert [talk.prefix for talk in talks] == [b"new", b"a", b"d", b"b", b">"]
    assert talks[-1] == TrafficCount("A", b">", (), True, (1, 1, 1, 1))
    assert talkers.take() == ([], set())


def test_lightNewcomers() -> None:
    """A new subject without more messages than the least counted one does not replace it."""
    talkers = SubjectTraffic(1, 2)
    for _ in range(3):
        for subject in (b"a", b"b", b"c"):
            count(talkers, "A", subject, 5)
        talks, displaced = talkers.take()
        assert [talk.prefix for talk in talks] == [b"a", b"b", b">"]
        assert displaced == {"A"}


def test_restOfAnAccount() -> None:
    """At most half of the counted subjects are replaced in one report."""
    talkers = SubjectTraffic(1, 4)
    for _ in range(2):
        for number in range(4):
            count(talkers, "A", b"old%d" % number, 10)
        for number in range(50):
            count(talkers, "B", b"new%d" % number, 20)
        talks, displaced = talkers.take()
        assert len(talks) <= 4 + 2
        assert sum(talk.figures[0] for talk in talks if talk.account == "A") == 40
        assert sum(talk.figures[0] for talk in talks if talk.account == "B") == 1000
    assert displaced == {"A", "B"}
    assert len([talk for talk in talks if talk.account == "A" and talk.prefix != b">"]) == 2


@pytest.mark.parametrize("seed", range(5))
def test_sumsAreExact(seed: int) -> None:
    """The sums of each account are exact, with a limited number of rows."""
    random = Random(seed)
    talkers = SubjectTraffic(1, 8)
    published: Counter[str] = Counter()
    told: Counter[str] = Counter()
    known: dict[tuple[str, bytes], Any] = {}
    for _ in range(2000):
        account = random.choice("ABC")
        subject = b"s%d" % int(random.expovariate(0.1))
        # As a matcher does, which remembers answers until they are to be forgotten.
        counter = known.get((account, subject))
        if counter is None:
            counter = known[account, subject] = talkers.counterOf(account, subject, matching())
        counter.add(1, 3, 1)
        published[account] += 1
        if random.random() < 0.02:
            talks, displaced = talkers.take()
            assert len(talks) <= 8 + 3
            told.update({letter: 0 for letter in "ABC"})
            for talk in talks:
                told[talk.account] += talk.figures[0]
            known = {key: value for key, value in known.items() if key[0] not in displaced}
    for talk in talkers.take()[0]:
        told[talk.account] += talk.figures[0]
    assert told == published


def test_manyAccounts() -> None:
    """
    The rest is counted separately for a limited number of accounts, and together for all others.
    """
    talkers = SubjectTraffic(1, 2)
    for number in range(2000):
        count(talkers, f"A{number}", b"x")
    talks, _ = talkers.take()
    assert len(talks) <= 2 + 256 + 2 + 1
    assert sum(talk.figures[0] for talk in talks) == 2000
