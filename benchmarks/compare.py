"""
From samples to comparisons: one figure of one server, beside another's, beside its target.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.figures import Bound, Statistic, Unit, summary
from benchmarks.rounds import OWN, Results
from benchmarks.rows import Figure, Row

__all__ = ["Comparison", "Failure", "compare", "failuresIn"]

CEILING = 0.8
"""From this share of the generator's ceiling on, the generator and not the server is measured."""

BUSY = 0.9
"""From this share of a processor on, a thread of the generator is what holds the server back."""


@dataclass(frozen=True)
class Comparison:
    """
    One figure of ours beside one of theirs.

    @ivar lane: C{fast} or C{pure}.
    @ivar base: what it is compared with: a contestant's name, or the name of a setting where ours
        is compared with ours; C{""} when the figure stands alone.
    @ivar mine: our figure.
    @ivar theirs: the base's figure, C{None} when there is no base.
    @ivar bound: what the ratio has to keep; C{None} where nothing is aimed at.
    @ivar limit: what our figure itself has to keep.
    @ivar remark: why the figure is to be read with care, or C{""}.
    """

    row: Row
    figure: Figure
    lane: str
    base: str
    mine: float
    theirs: float | None
    bound: Bound | None
    limit: Bound | None
    remark: str = ""

    @property
    def ratio(self) -> float | None:
        """
        Ours divided by theirs, whichever way is better.
        """
        return self.mine / self.theirs if self.theirs else None

    @property
    def holds(self) -> bool | None:
        """
        Whether the target is met; C{None} where there is none.
        """
        verdicts = []
        if self.bound is not None and self.ratio is not None:
            verdicts.append(self.bound.holds(self.ratio))
        if self.limit is not None:
            verdicts.append(self.limit.holds(self.mine))
        return all(verdicts) if verdicts else None


@dataclass(frozen=True)
class Failure:
    """
    Measurements that did not come to an end, for one reason.

    @ivar who: the contestant's name and the setting's.
    @ivar times: how many there were.
    @ivar lost: whether not a single figure is left.
    """

    row: Row
    who: tuple[str, str]
    reason: str
    times: int
    lost: bool


def one(
    results: Results, key: tuple[str, str], figure: Figure, statistic: Statistic
) -> float | None:
    """
    @return: the figure that stands for all rounds of an entry, if it has any.
    """
    samples = results.figures(key, figure.key)
    return summary(samples, figure.unit, statistic) if samples else None


def basesOf(
    row: Row, figure: Figure, lane: str
) -> Iterator[tuple[str, tuple[str, str], Bound | None]]:
    """
    @return: what a lane is compared with: the base's name, its entry's key, and the bound.
    """
    bound = figure.fast if lane == "fast" else figure.pure
    if row.against is not None:
        yield row.against, (lane, row.against), bound
        return
    if row.isRelayed:
        yield "relay", ("relay", "plain"), bound
        return
    yield "reference", ("reference", row.setting), bound
    yield "old", ("old", row.setting), figure.old if lane == "fast" else None


def remarkOn(results: Results, lane: str, figure: Figure, mine: float) -> str:
    """
    @return: how near the figure is to what the generator can reach, as far as that is known, and
        how long a synced write took meanwhile.
    """
    key = (lane, results.row.setting)
    writes = results.notes(key, "synced_write")
    disk = (
        [f"a synced write: {Unit.MICROSECONDS.show(statistics.median(writes))}"] if writes else []
    )
    ceilings = results.figures(("ceiling", results.row.setting), figure.key)
    if ceilings:
        share = mine / max(ceilings)
        near = ": too near" if share >= CEILING else ""
        return f"{share:.0%} of the generator's ceiling{near}"
    busiest = results.notes(key, "busiest_thread")
    busy = ["the generator is busy"] if busiest and min(busiest) >= BUSY else []
    return ", ".join([*busy, *disk])


def compare(results: Results, statistic: Statistic) -> list[Comparison]:
    """
    @return: every comparison that the row's samples allow, figure by figure, lane by lane.
    """
    comparisons: list[Comparison] = []
    for figure in results.row.figures:
        for lane in OWN:
            mine = one(results, (lane, results.row.setting), figure, statistic)
            if mine is not None:
                comparisons += besides(results, figure, lane, mine, statistic)
    return comparisons


def besides(
    results: Results, figure: Figure, lane: str, mine: float, statistic: Statistic
) -> Iterator[Comparison]:
    """
    @return: C{mine} beside each base that was measured; alone if there is none but a limit.
    """
    row, remark = results.row, remarkOn(results, lane, figure, mine)
    limit, alone = figure.limit, True
    for base, key, bound in basesOf(row, figure, lane):
        theirs = one(results, key, figure, statistic)
        if theirs is not None and (base in ("reference", "relay", row.against) or bound or alone):
            yield Comparison(row, figure, lane, base, mine, theirs, bound, limit, remark)
            limit, alone = None, False
    if alone:
        yield Comparison(row, figure, lane, "", mine, None, None, limit, remark)


def failuresIn(results: Results) -> list[Failure]:
    """
    @return: the failed measurements of a row, those of one server for one reason together.
    """
    failures: list[Failure] = []
    for who, reasons in results.failures.items():
        lost = results.hopeless(who)
        for reason, times in Counter(reasons).items():
            failures.append(Failure(results.row, who, reason, times, lost))
    return failures
