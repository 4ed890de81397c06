"""
Comparison of given results: ratios and verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from benchmarks.compare import compare, failuresIn
from benchmarks.figures import Statistic
from benchmarks.measure import Sample
from benchmarks.rounds import Results
from benchmarks.rows import choose

Rates = Mapping[tuple[str, str], Sequence[float]]

RATES: Rates = {
    ("reference", "plain"): [1.0e6, 0.9e6, 1.1e6],
    ("fast", "plain"): [4.4e6, 3.9e6, 4.0e6],
    ("pure", "plain"): [0.14e6, 0.13e6, 0.1e6],
    ("old", "plain"): [1.6e6, 1.6e6, 1.6e6],
}


def rateResults(key: str, rates: Rates) -> Results:
    """
    @return: the results of a throughput row, one rate a round.
    """
    (row,) = choose([key])
    samples = {who: [Sample({"rate": rate}) for rate in many] for who, many in rates.items()}
    return Results(row, samples)


def summaries(results: Results, statistic: Statistic = Statistic.MEDIAN) -> list[object]:
    """
    @return: lane, base, ratio to two digits, and verdict of each comparison.
    """
    return [
        (
            comparison.lane,
            comparison.base,
            None if comparison.ratio is None else round(comparison.ratio, 2),
            comparison.holds,
        )
        for comparison in compare(results, statistic)
    ]


def test_mediansAreCompared() -> None:
    """
    Each lane is compared with nats-server by the medians. The compiled lane is also compared with
    the old server.
    """
    assert summaries(rateResults("one-128", RATES)) == [
        ("fast", "reference", 4.0, True),
        ("fast", "old", 2.5, True),
        ("pure", "reference", 0.13, False),
    ]


def test_bestAreCompared() -> None:
    """On request the best rounds are compared."""
    assert summaries(rateResults("one-128", RATES), Statistic.BEST)[0] == (
        "fast",
        "reference",
        4.0,
        True,
    )
    assert summaries(rateResults("one-16", RATES), Statistic.BEST)[1] == ("fast", "old", 2.75, True)


def test_permissionsBesidePlain() -> None:
    """A row with permissions compares each lane with itself without permissions."""
    rates = {("fast", "permissions"): [0.9e6], ("fast", "plain"): [1.0e6]}
    assert summaries(rateResults("permissions-one-16", rates)) == [("fast", "plain", 0.9, True)]


def test_besideTheRelay() -> None:
    """A relay row compares the compiled lane with the relay."""
    rates = {("fast", "permissions"): [0.9e6], ("relay", "plain"): [1.0e6]}
    assert summaries(rateResults("relay-one-16", rates)) == [("fast", "relay", 0.9, True)]


@pytest.mark.parametrize(("mine", "holds"), [(99.0, True), (101.0, False)])
def test_latencyIsBoundedAbove(mine: float, holds: bool) -> None:
    """A latency meets its target when the ratio is no more than the bound."""
    (row,) = choose(["request-1"])
    samples = {
        ("reference", "plain"): [Sample({"p50": 100.0, "p99": 200.0})],
        ("fast", "plain"): [Sample({"p50": mine, "p99": 2 * mine})],
    }
    assert [
        comparison.holds for comparison in compare(Results(row, samples), Statistic.MEDIAN)
    ] == [holds] * 2


def test_limitsNeedNoBase() -> None:
    """A figure with a fixed limit gets a verdict without another server."""
    (row,) = choose(["storm"])
    figures = {"rate": 1999.0, "answering": 5000.0, "ping_p99": 80.0}
    results = Results(row, {("fast", "plain"): [Sample(figures)]})
    verdicts = {
        comparison.figure.key: comparison.holds for comparison in compare(results, Statistic.MEDIAN)
    }
    assert verdicts == {"rate": False, "answering": True, "ping_p99": True}


def test_nobodyToCompareWith() -> None:
    """Without the other server's figures there is neither a ratio nor a verdict."""
    results = rateResults("one-16", {("fast", "plain"): [1.0]})
    assert summaries(results) == [("fast", "", None, None)]


def test_ceilingIsRemarked() -> None:
    """Rates are shown as a share of the generator's limit, and marked when close to it."""
    rates = {**RATES, ("ceiling", "plain"): [5.0e6]}
    remarks = [
        comparison.remark for comparison in compare(rateResults("one-16", rates), Statistic.MEDIAN)
    ]
    assert remarks == [
        "80% of the generator's ceiling: too near",
        "80% of the generator's ceiling: too near",
        "3% of the generator's ceiling",
    ]


def test_busyGeneratorIsRemarked() -> None:
    """A rate that was limited by one busy thread of the generator is marked."""
    (row,) = choose(["one-16"])
    sample = Sample({"rate": 1.0}, {"busiest_thread": 0.95})
    (only,) = compare(Results(row, {("fast", "plain"): [sample]}), Statistic.MEDIAN)
    assert only.remark == "the generator is busy"


def test_syncedWriteIsRemarked() -> None:
    """A row that stores says how long the disk takes for a synced write, by the median."""
    (row,) = choose(["operation-put-always"])
    notes = [{"synced_write": write} for write in (900.0, 105.0, 110.0)]
    samples = [Sample({"cost": 50.0, "rate": 1e4}, note) for note in notes]
    results = Results(row, {("fast", row.setting): samples})
    remarks = {one.remark for one in compare(results, Statistic.MEDIAN)}
    assert remarks == {"a synced write: 110 us"}


def test_failuresStayVisible() -> None:
    """
    A failure is reported with how often it happened, and whether the server has any result left.
    """
    results = rateResults("one-16", {("fast", "plain"): [1.0]})
    results.failures = {("fast", "plain"): ["5 lost", "5 lost"], ("old", "plain"): ["no INFO"]}
    told = [
        (failure.who[0], failure.reason, failure.times, failure.lost)
        for failure in failuresIn(results)
    ]
    assert told == [("fast", "5 lost", 2, False), ("old", "no INFO", 1, True)]
