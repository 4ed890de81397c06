"""
The report: a table for a terminal, one for the documentation, and the figures as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.compare import Comparison, Failure
from benchmarks.rounds import Results

__all__ = ["asJson", "asMarkdown", "asText", "cells", "shortfalls"]

HEADINGS = ("row", "lane", "ours", "beside", "theirs", "ratio", "target", "", "remark")
NUMERIC = (2, 4, 5)


def showRatio(ratio: float | None) -> str:
    """
    @return: a ratio with as many digits as say something.
    """
    if ratio is None:
        return ""
    return f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def cells(comparison: Comparison, titles: Mapping[str, str]) -> list[str]:
    """
    @param titles: what contestants are called, by name.
    @return: the columns of L{HEADINGS}.
    """
    unit, figure = comparison.figure.unit, comparison.figure.title
    theirs = "" if comparison.theirs is None else unit.show(comparison.theirs)
    targets = [str(comparison.bound)] if comparison.bound and comparison.theirs is not None else []
    if comparison.limit is not None:
        targets.append(f"{str(comparison.limit)[:3]}{unit.show(comparison.limit.value)}".strip())
    verdict = {True: "ok", False: "SHORT", None: ""}[comparison.holds]
    base = comparison.base
    return [
        f"{comparison.row.title}{f': {figure}' if figure else ''}",
        comparison.lane,
        unit.show(comparison.mine),
        titles.get(base, f"ours, {base}" if base else ""),
        theirs,
        showRatio(comparison.ratio),
        ", ".join(targets),
        verdict,
        comparison.remark,
    ]


def rowsOf(comparisons: Sequence[Comparison], titles: Mapping[str, str]) -> list[list[str]]:
    """
    @return: the table's lines; what repeats the line above is left out.
    """
    lines: list[list[str]] = []
    title = ""
    for comparison in comparisons:
        line = cells(comparison, titles)
        line[0], title = ("" if line[0] == title else line[0]), line[0]
        lines.append(line)
    return lines


def failureLines(failures: Sequence[Failure], titles: Mapping[str, str]) -> list[str]:
    """
    @return: a sentence for each failure.
    """
    lines = []
    for failure in failures:
        name, setting = failure.who
        who = f"{titles.get(name, name)}, {setting}"
        often = "once" if failure.times == 1 else f"{failure.times} times"
        tail = "; no figure is left" if failure.lost else f"; {often}, other rounds stand"
        lines.append(f"{failure.row.title} ({who}): {failure.reason}{tail}")
    return lines


def asText(
    comparisons: Sequence[Comparison], failures: Sequence[Failure], titles: Mapping[str, str]
) -> str:
    """
    @return: the table for a terminal, followed by what failed.
    """
    table = [list(HEADINGS), *rowsOf(comparisons, titles)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADINGS))]
    lines = []
    for line in table:
        padded = [
            cell.rjust(width) if i in NUMERIC else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths if width))
    if failures:
        lines += [
            "",
            "failed:",
            *(f"  {failureLine}" for failureLine in failureLines(failures, titles)),
        ]
    return "\n".join(lines)


def asMarkdown(
    comparisons: Sequence[Comparison], failures: Sequence[Failure], titles: Mapping[str, str]
) -> str:
    """
    @return: the same table in Markdown, with short rows in bold.
    """
    headings = [*HEADINGS[:7], "met", "remark"]
    rules = ["---:" if i in NUMERIC else "---" for i in range(len(headings))]
    lines = [markdownLine(headings), markdownLine(rules)]
    for line in rowsOf(comparisons, titles):
        line[7] = {"ok": "yes", "SHORT": "**no**", "": ""}[line[7]]
        lines.append(markdownLine([cell.replace(">=", "≥").replace("<=", "≤") for cell in line]))
    if failures:
        lines += [
            "",
            *(f"- failed: {failureLine}" for failureLine in failureLines(failures, titles)),
        ]
    return "\n".join(lines)


def markdownLine(line: Sequence[str]) -> str:
    """
    @return: one line of a Markdown table.
    """
    return f"| {' | '.join(cell.replace('|', '/') for cell in line)} |"


def shortfalls(comparisons: Sequence[Comparison]) -> int:
    """
    @return: how many targets were missed.
    """
    return sum(comparison.holds is False for comparison in comparisons)


def comparisonJson(comparison: Comparison) -> dict[str, Any]:
    """
    @return: one comparison as JSON members.
    """
    return {
        "row": comparison.row.key,
        "figure": comparison.figure.key,
        "unit": comparison.figure.unit.label,
        "lane": comparison.lane,
        "base": comparison.base,
        "ours": comparison.mine,
        "theirs": comparison.theirs,
        "ratio": comparison.ratio,
        "target": str(comparison.bound) if comparison.bound else None,
        "limit": str(comparison.limit) if comparison.limit else None,
        "met": comparison.holds,
        "remark": comparison.remark,
    }


def sampleJson(results: Results) -> list[dict[str, Any]]:
    """
    @return: what one row yielded, round by round, as JSON members.
    """
    keys = [*results.samples, *(key for key in results.failures if key not in results.samples)]
    return [
        {
            "row": results.row.key,
            "contestant": name,
            "setting": setting,
            "rounds": [
                {**sample.figures, **sample.notes}
                for sample in results.samples.get((name, setting), [])
            ],
            "failures": results.failures.get((name, setting), []),
        }
        for name, setting in keys
    ]


def asJson(
    machine: Mapping[str, Any], results: Sequence[Results], comparisons: Sequence[Comparison]
) -> str:
    """
    @param machine: where and how it was measured.
    @return: everything, for programs: the conditions, the comparisons, and every single round.
    """
    document = {
        "conditions": machine,
        "comparisons": [comparisonJson(comparison) for comparison in comparisons],
        "samples": [sample for result in results for sample in sampleJson(result)],
    }
    return json.dumps(document, indent=1)
