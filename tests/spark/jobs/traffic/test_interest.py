"""
The published subjects beside the subscribed ones.
"""

from __future__ import annotations

import pickle
from typing import Any

from natsbroker.spark.jobs.traffic.interestjob import InterestFindings, NoInterest
from natsbroker.spark.jobs.traffic.totals import EventTotals, readEvent
from tests.spark.eventlogs import event, interest, traffic
from tests.spark.jobs.interestrows import receiver, sender


def folded(*events: bytes) -> EventTotals:
    """All of some events."""
    totals = EventTotals()
    for entry in events:
        totals.add(readEvent(entry))
    return totals


def findings(*events: bytes) -> InterestFindings:
    """The findings of some events."""
    return InterestFindings(folded(*events))


def advised(summary: InterestFindings, least: int, share: float, quiet: int) -> list[Any]:
    """The mode of each advice."""
    return [entry["mode"] for entry in summary.advice(least, share, quiet)]


def test_wasted() -> None:
    """
    Unwanted messages are counted from the receiver's events, and those sent from the sender's.
    """
    summary = findings(*receiver(), *sender())
    assert summary.noInterest == [NoInterest(("A", "X", "B"), 150, 1500, 7, 200, "optimistic", 1)]
    assert summary.prefixes == {(("A", "X", "B"), "a.b.>"): [150, 1500, 7]}
    right = NoInterest(("A", "X", "B"), 150, 1500, 7, 150, "", 1)
    assert findings(*receiver()).noInterest == [right]
    assert findings(*sender()).noInterest == []


def test_advice() -> None:
    """Advice is given for many unwanted messages that are a large share of those sent."""
    summary = findings(*receiver(), *sender())
    assert list(summary.advice(150, 0.75, 1000)) == [
        {
            "cluster": "A",
            "account": "X",
            "gateway": "B",
            "mode": "interest-only",
            "no_interest_msgs": 150,
            "no_interest_bytes": 1500,
        }
    ]
    assert advised(summary, 151, 0.0, 1000) == []
    assert advised(summary, 1, 0.76, 1000) == []
    assert advised(findings(*receiver(), *sender(mode="interest-only")), 1, 0, 1000) == []


def test_keepOptimistic() -> None:
    """For a few unwanted messages and many patterns, the advice is to stay optimistic."""
    summary = findings(*receiver(messages=50, patterns=2000), *sender())
    (entry,) = summary.advice(100, 0.1, 1000)
    assert (entry["mode"], entry["max_no_interest"]) == ("optimistic", 2000)
    assert (entry["no_interest_msgs"], entry["no_interest_bytes"]) == (50, 500)
    assert advised(summary, 100, 0.1, 2000) == []
    many = findings(*receiver(messages=99, patterns=900), *sender())
    assert advised(many, 100, 0.1, 100) == []


def test_withoutClusters() -> None:
    """An event without its cluster gives no advice."""
    row = traffic("X", "a", "gateway", "B", no_interest=500, bytes_in=5)
    summary = findings(event("traffic", 1, [row]))
    assert summary.noInterest[0].messages == 500
    assert advised(summary, 1, 0, 1) == []


def test_newestEvent() -> None:
    """Of a broker's events about interest, only the newest counts, with all its parts."""
    rows = [interest("X", "old")], [interest("X", "new.>")], [interest("X", "newer")]
    one, two, three = (event("interest", at, row) for at, row in zip((1, 2, 2), rows, strict=True))
    expected = {("X", "new.>"): {""}, ("X", "newer"): {""}}
    for order in ((one, two, three), (three, two, one), (two, one, three)):
        assert findings(*order).subscribed == expected
        whole = folded(order[0])
        whole.merge(pickle.loads(pickle.dumps(folded(*order[1:]))))
        assert InterestFindings(whole).subscribed == expected
        assert whole.kinds.total() == 3


def test_unheard() -> None:
    """
    A subject without a subscriber, or without a publisher, is found. The broker's own subjects are
    left out.
    """
    summary = findings(
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
    assert summary.unsubscribed == [("Y", "lost.>", 5, 70), ("X", "lost.>", 5, 50)]
    assert summary.unpublished == [("X", "silent.>", "A"), ("Z", "lost.>", "A")]


def test_merge() -> None:
    """Sums from several workers are those of a single one."""
    events = [*receiver(10), *sender(10), *receiver(20), *sender(20)]
    whole, part = folded(*events), folded(*events[:3])
    part.merge(folded(*events[3:]))
    assert part.sums == whole.sums
    assert InterestFindings(part).noInterest == InterestFindings(whole).noInterest
    assert InterestFindings(part).noInterest[0].messages == 300
