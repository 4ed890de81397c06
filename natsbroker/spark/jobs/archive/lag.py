"""
The job C{lag}: how far archives and streaming queries are behind their logs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from natsbroker.spark.datasource.offsets import readOffset
from natsbroker.spark.datasource.tasks import connected
from natsbroker.spark.errors import ApiError, DataSourceError, OptionError
from natsbroker.spark.jobs.archive.verify import optionsOf
from natsbroker.spark.jobs.common import FOUND, JobRun, command, sourceOptions
from natsbroker.spark.jobs.report import Chart, JobReport, ReportSection, writePage
from natsbroker.spark.logs.selection import checkedNames, isMissing, logsOf
from natsbroker.spark.tables.table import tableAt


def placesOf(checkpoint: Path) -> dict[str, tuple[str, int]]:
    """
    Where a streaming query is that reads with our data source: for each log of all its sources its
    identity, and the next sequence behind the last micro-batch that ended.

    @param checkpoint: the query's C{checkpointLocation}.
    """
    try:
        # What is in offsets/ alone is planned, and perhaps not done.
        ended = [int(x.name) for x in (checkpoint / "commits").iterdir() if x.name.isdigit()]
        lines = (checkpoint / "offsets" / str(max(ended))).read_text("utf-8").splitlines()
    except (OSError, ValueError):
        raise DataSourceError(
            f"{checkpoint}: there is no checkpoint of a streaming query that has ended a"
            " micro-batch"
        ) from None
    found: dict[str, tuple[str, int]] = {}
    for line in lines[2:]:
        try:
            places = readOffset(json.loads(line), None)
        except (ValueError, OptionError):
            continue  # Another source's.
        for name, place in places.items():
            # Of two sources with one log the one that is behind counts.
            found[name] = min(place, found.get(name, place), key=itemgetter(1))
    if not found:
        raise DataSourceError(
            f"{checkpoint}: the query does not read with the data source 'natsbroker'"
        )
    return found


@command("lag")
def main(job: JobRun) -> int:
    job.addSource()
    job.option("--archive", None, "the directory of an archive")
    job.option("--checkpoint", None, "or the checkpoint of a query that reads these logs")
    job.option("--most", -1, "how far behind is too far")
    job.addPage()
    given = job.given()
    if bool(given.archive) == bool(given.checkpoint):
        job.error("either --archive or --checkpoint")
    options = sourceOptions(given)
    if given.archive:
        snapshot = tableAt(given.archive).require()
        options = optionsOf(snapshot, options)
        places = {snapshot.log.name: (snapshot.log.identity, snapshot.stop)}
    else:
        checkedNames(options)
        places = placesOf(Path(given.checkpoint))
    job.summary["logs"] = logs = _compared(options, places)
    job.summary["behind"] = sum(each.get("behind", 0) for each in logs.values())
    wrong = [name for name, each in logs.items() if "error" in each]
    for name in wrong:
        print(f"{name}: {logs[name]['error']}", file=job.stderr)
    writePage(reportOf(logs, job.summary["behind"]), given.html, job.summary)
    isTooFar = 0 <= given.most < job.summary["behind"]
    return FOUND if wrong or isTooFar else 0


def reportOf(logs: Mapping[str, Mapping[str, Any]], behind: int) -> JobReport:
    names = ("next", "last", "behind", "error")
    rows = [(log, *(each.get(name, "") for name in names)) for log, each in logs.items()]
    bars = [(name, float(each["behind"])) for name, each in logs.items() if "behind" in each]
    chart = Chart("bars", {"": bars}, "sequences")
    columns = ("log", "next", "last", "behind", "wrong")
    return JobReport("Lag", {"Behind": behind}, [ReportSection("Logs", columns, rows, "", chart)])


def _compared(
    options: dict[str, Any], places: dict[str, tuple[str, int]]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    with connected(options) as connection:
        logs = logsOf(connection, options)
        for name, (identity, following) in sorted(places.items()):
            found[name] = one = dict[str, Any](next=following)
            try:
                state = logs.state(name)
            except ApiError as error:
                if not isMissing(error):
                    raise
                one["error"] = "it is gone"
                continue
            if state.created != identity:
                one["error"] = "it was deleted and made again"
                continue
            one.update(last=state.stop - 1, behind=max(state.stop - following, 0))
            if state.first > following:
                one["error"] = f"sequences {following} to {state.first - 1} are not stored any more"
    return found
