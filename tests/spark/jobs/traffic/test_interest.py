"""
What is published beside what is subscribed to.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.traffic import interest as interests
from natsbroker.spark.jobs.traffic.events import readEvent
from natsbroker.spark.jobs.traffic.interest import InterestTotals, NoInterest, PolicyEntry
from tests.spark.eventlogs import event, interest, traffic
from tests.spark.jobs.interestrows import receiver, sender


def folded(*events: bytes) -> InterestTotals:
    """All of some events."""
    found = InterestTotals()
    for each in events:
        found.add(readEvent(each))
    return found


def test_wasted() -> None:
    """What both sides tell comes together."""
    found = folded(*receiver(), *sender())
    assert found.noInterest() == [NoInterest("A", "X", "B", 150, 1500, 7, 200, "optimistic", 1)]
    assert folded(*receiver()).noInterest() == [NoInterest("A", "X", "B", 150, 1500, 7, 150, "", 1)]
    assert folded(*sender()).noInterest() == []


def test_advice() -> None:
    """Enough in vain, and a large part of what was sent, is worth telling everything."""
    found = folded(*receiver(), *sender())
    right = PolicyEntry("A", "X", "B", "interest-only", 150, 1500)
    assert list(found.advice(150, 0.75, 1000)) == [right]
    assert list(found.advice(151, 0.0, 1000)) == []
    assert list(found.advice(1, 0.76, 1000)) == []
    assert list(folded(*receiver(), *sender(mode="interest-only")).advice(1, 0, 1000)) == []


def test_keepOptimistic() -> None:
    """Telling a great many patterns because of a few refusals is not worth it."""
    found = folded(*receiver(messages=50, patterns=2000), *sender())
    right = PolicyEntry("A", "X", "B", "optimistic", 50, 500, 2000)
    assert list(found.advice(100, 0.1, 1000)) == [right]
    assert list(found.advice(100, 0.1, 2000)) == []
    many = folded(*receiver(messages=99, patterns=900), *sender())
    assert list(many.advice(100, 0.1, 100)) == []


def test_withoutClusters() -> None:
    """What does not say which cluster it is from cannot be advised."""
    row = traffic("X", "a", "gateway", "B", no_interest=500, bytes_in=5)
    found = folded(event("traffic", 1, [row]))
    assert found.noInterest()[0].messages == 500
    assert list(found.advice(1, 0, 1)) == []


def test_newest() -> None:
    """Of what is subscribed to only the newest event of a broker holds, in all its parts."""
    rows = [interest("X", "old")], [interest("X", "new.>")], [interest("X", "newer")]
    one, two, three = (event("interest", at, row) for at, row in zip((1, 2, 2), rows, strict=True))
    expected = {("X", "new.>"): {""}, ("X", "newer"): {""}}
    for order in ((one, two, three), (three, two, one), (two, one, three)):
        assert folded(*order).subscribed() == expected
        whole = folded(order[0])
        whole.merge(pickle.loads(pickle.dumps(folded(*order[1:]))))
        assert whole.subscribed() == expected
        assert whole.events == 3


def test_unheard() -> None:
    """What nobody is subscribed to, and what nobody publishes; the broker's own is left out."""
    found = folded(
        event(
            "traffic",
            1,
            [
                traffic("X", "lost.>", msgs_in=5, bytes_in=50, no_interest=5),
                traffic("X", "heard.>", msgs_in=5, bytes_in=50),
                traffic("X", "far.>", msgs_in=1, bytes_in=1, no_interest=1),
                traffic("Y", "lost.>", msgs_in=5, bytes_in=70, no_interest=1),
                traffic("X", "$SYS.>", msgs_in=5, bytes_in=50, no_interest=5),
                traffic("X", "_INBOX.>", msgs_in=5, bytes_in=50, no_interest=5),
                traffic("W", ">", msgs_in=5, bytes_in=50, no_interest=5),
                traffic("X", "no subject", msgs_in=5, bytes_in=50, no_interest=5),
            ],
        ),
        event(
            "interest",
            1,
            [
                interest("X", "heard.*"),
                interest("X", "far.away.>"),
                interest("X", "silent.>"),
                interest("X", "$JS.>"),
                interest("Z", "lost.>"),
                interest("W", "perhaps"),
            ],
            cluster="A",
        ),
    )
    assert found.unsubscribed() == [("Y", "lost.>", 5, 70), ("X", "lost.>", 5, 50)]
    assert found.unpublished() == [("X", "silent.>", "A"), ("Z", "lost.>", "A")]


def test_merge() -> None:
    """Sums do not depend on who counted."""
    events = [*receiver(10), *sender(10), *receiver(20), *sender(20)]
    whole, part = folded(*events), folded(*events[:3])
    part.merge(folded(*events[3:]))
    assert part.noInterest() == whole.noInterest()
    assert part.noInterest()[0].messages == 300
    assert (part.sent, part.published, part.last) == (whole.sent, whole.published, whole.last)


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many subjects are an error that says what to do."""
    monkeypatch.setattr(interests, "_MOST", 2)
    rows: list[dict[str, Any]] = [traffic("X", f"s{n}", msgs_in=1) for n in range(3)]
    folded(event("traffic", 1, rows[:2]), event("traffic", 2, rows[:2]))
    with pytest.raises(DataSourceError, match="too many subjects"):
        folded(event("traffic", 1, rows))
