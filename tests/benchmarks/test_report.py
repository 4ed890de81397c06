"""The report: the tables and the JSON for given figures."""

from __future__ import annotations

import json

from benchmarks.compare import Failure, compare
from benchmarks.figures import Statistic
from benchmarks.report import asJson, asMarkdown, asText, shortfalls
from benchmarks.rows import choose

from .test_compare import RATES, rateResults

TITLES = {"reference": "nats-server 2.15.1", "old": "nats-server 2.9.10", "fast": "natsbroker"}

RESULTS = rateResults("one-128", RATES)
COMPARISONS = compare(RESULTS, Statistic.MEDIAN)
(ROW,) = choose(["one-128"])
FAILURES = [Failure(ROW, ("old", "plain"), "5 messages lost", times=1, lost=False)]


def test_text() -> None:
    """The table has one line for each row, with target and verdict beside the ratio."""
    lines = [" ".join(line.split()) for line in asText(COMPARISONS, [], TITLES).splitlines()]
    assert lines[0] == "row lane ours beside theirs ratio target remark"
    assert lines[2:] == [
        "1 to 1, 128 B fast 4.00 M/s nats-server 2.15.1 1.00 M/s 4.00 >= 4 ok",
        "fast 4.00 M/s nats-server 2.9.10 1.60 M/s 2.50 >= 2 ok",
        "pure 130 k/s nats-server 2.15.1 1.00 M/s 0.13 >= 0.15 SHORT",
    ]


def test_failuresFollow() -> None:
    """The failures follow the table."""
    assert asText(COMPARISONS, FAILURES, TITLES).splitlines()[-1] == (
        "  1 to 1, 128 B (nats-server 2.9.10, plain): 5 messages lost; once, other rounds stand"
    )


def test_markdown() -> None:
    """The Markdown table has the same cells in each line, and missed targets in bold."""
    lines = asMarkdown(COMPARISONS, [], TITLES).splitlines()
    assert {line.count("|") for line in lines} == {10}
    assert lines[2].startswith("| 1 to 1, 128 B | fast | 4.00 M/s | nats-server 2.15.1 | 1.00 M/s")
    assert "≥ 0.15 | **no** |" in lines[4]


def test_limitsAreShownWithTheirUnit() -> None:
    """A figure's fixed limit is shown with the unit of the figure."""
    rates = {("fast", "plain"): [2500.0]}
    results = rateResults("storm", rates)
    figure = results.row.figures[0]
    results.row = type(results.row)(**{**vars(results.row), "figures": (figure,)})
    assert ">= 2.00 k/s  ok" in asText(compare(results, Statistic.MEDIAN), [], TITLES)


def test_json() -> None:
    """The JSON holds the conditions, each comparison and each single round."""
    document = json.loads(asJson({"rounds": 3}, [RESULTS], COMPARISONS))
    assert document["conditions"] == {"rounds": 3}
    assert [comparison["met"] for comparison in document["comparisons"]] == [True, True, False]
    assert document["comparisons"][0]["ratio"] == 4.0
    rounds = {sample["contestant"]: sample["rounds"] for sample in document["samples"]}
    assert rounds["fast"] == [{"rate": 4.4e6}, {"rate": 3.9e6}, {"rate": 4.0e6}]


def test_shortfalls() -> None:
    """Missed targets are counted, rows without a target are not."""
    assert shortfalls(COMPARISONS) == 1
