"""
The job C{verify}: whether an archive has what its log has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from natsbroker.spark.jobs.archive.archiver import inline
from natsbroker.spark.jobs.archive.comparing import BLOCK, verify
from natsbroker.spark.jobs.common import (
    FOUND,
    Parser,
    addArchive,
    addMaster,
    inSpark,
    reported,
    runnerFor,
    sourceOptions,
)
from natsbroker.spark.jobs.report import Chart, JobReport, ReportSection
from natsbroker.spark.jobs.reporthtml import writePage
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.formats import tableAt

__all__ = ["main", "reportOf", "verified"]


def verified(spark: Any, options: Mapping[str, str], archive: str) -> dict[str, Any]:
    """
    Compare an archive with its log.

    @param spark: a session whose workers compare; C{None} to do it here.
    @param options: of the data source: C{servers}, and what logs in.
    @param archive: its directory.
    @return: what the job's line of JSON says.
    """
    run = inline if spark is None else inSpark(spark)
    return _summary(*verify(readOptions(options), tableAt(archive), run))


def _summary(manifest: Any, compared: Any) -> dict[str, Any]:
    return {
        "version": manifest.version,
        "start": manifest.start,
        "stop": manifest.stop,
        "files": sum(1 for each in manifest.files if each.path),
        "rows": compared.rows,
        "deleted": compared.deleted,
        "lost": [list(each) for each in manifest.lost],
        "findings": [asdict(each) for each in compared.findings],
    }


def main(arguments: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
    """
    The command line.
    """
    return reported("verify", lambda summary: _work(arguments, summary, stderr), stdout, stderr)


def _work(arguments: Sequence[str], summary: dict[str, Any], stderr: TextIO) -> int:
    parser = Parser(
        prog="natsbroker spark verify",
        description="Compare an archive with the log that it is of.",
    )
    addArchive(parser)
    parser.add_argument("--block", type=int, default=BLOCK, help="sequences in a fingerprint")
    parser.add_argument("--html", default="", help="a file for a report, with a plot")
    addMaster(parser)
    given = parser.parse_args(list(arguments))
    if not 1 <= given.block <= 1_000_000:
        parser.error("--block is 1 to 1000000")
    options = sourceOptions(given)
    with runnerFor(given.master) as run:
        summary.update(_summary(*verify(options, tableAt(given.archive), run, given.block)))
    for each in summary["findings"]:
        where = f"{each['first']} to {each['last']}"
        print(f"{each['kind']}: sequences {where}: {each['detail']}", file=stderr)
    if given.html:
        writePage(reportOf(summary), given.html)
        summary["html"] = given.html
    return FOUND if summary["findings"] else 0


def reportOf(summary: Mapping[str, Any]) -> JobReport:
    """
    What was found, as a report.

    @param summary: what the job says.
    """
    findings = summary["findings"]
    spans: dict[str, list[tuple[Any, float]]] = {"archive": [(summary["start"], summary["stop"])]}
    if summary["lost"]:
        spans["lost before"] = [(start, stop) for start, stop in summary["lost"]]
    for each in findings:
        spans.setdefault(each["kind"], []).append((each["first"], each["last"] + 1))
    names = ("version", "start", "stop", "files", "rows", "deleted")
    facts = {**{name: summary[name] for name in names}, "findings": len(findings)}
    columns = ("kind", "first", "last", "detail")
    rows = [tuple(each[name] for name in columns) for each in findings]
    chart = Chart("spans", spans, "sequences")
    return JobReport(
        "Archive and log", facts, [ReportSection("Differences", columns, rows, "", chart)]
    )
