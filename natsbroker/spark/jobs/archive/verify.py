"""The jobs C{verify} and C{lag}, which compare an archive, or a streaming query, with its log."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from natsbroker.spark.datasource.offsets import readOffset
from natsbroker.spark.datasource.tasks import connected, stateOf
from natsbroker.spark.errors import ApiError, DataSourceError, OptionError
from natsbroker.spark.jobs.archive.archiver import LogOrigin, checkLog, logOf
from natsbroker.spark.jobs.common import (
    FOUND,
    JobRun,
    Runner,
    command,
    optionTexts,
    runnerOf,
    sessionFor,
    sourceOptions,
)
from natsbroker.spark.jobs.report import Chart, JobReport, ReportSection, writePage
from natsbroker.spark.logs.apis import ChannelApi, StreamState, sensible
from natsbroker.spark.logs.planning import checkedNames, isMissing, logsOf
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.locations import Location
from natsbroker.spark.tables.parquet import (
    STORED,
    ArchiveDamaged,
    Difference,
    consecutive,
    damageOf,
    examined,
)
from natsbroker.spark.tables.snapshots import File, Log, TableSnapshot, Tile
from natsbroker.spark.tables.table import ArchiveTable, tableAt
from natsbroker.wire.columnar import addToDigest

#: The sequences that a fingerprint covers.
BLOCK = 10_000

#: The compared columns, and their names in differences.
_COMPARED = {"time_ns": "time", "subject": "subject", "headers": "headers", "data": "data"}


@dataclass(frozen=True)
class Comparison:
    findings: tuple[Difference, ...] = ()
    rows: int = 0
    deleted: int = 0


def optionsOf(snapshot: TableSnapshot, options: dict[str, Any]) -> dict[str, Any]:
    log = snapshot.log
    named = {"stream": (), "channel": (), log.kind: (log.name,)}
    scope = {"clusterId" if log.kind == "channel" else "domain": log.scope}
    return {**options, **named, **scope}


def following(
    table: ArchiveTable, snapshot: TableSnapshot, options: dict[str, Any]
) -> tuple[dict[str, Any], StreamState]:
    """The options for an archive's log, and its state; C{DataLoss} if the log is another one."""
    options = optionsOf(snapshot, options)
    state = stateOf(options, snapshot.log.name)
    checkLog(table, snapshot, logOf(state, options))
    return options, state


def checkFiles(root: Location, groups: Sequence[Sequence[File]], run: Runner) -> None:
    damages = run(partial(damageOf, root), groups)
    if findings := [difference for damage in damages for difference in damage]:
        raise ArchiveDamaged(root, findings)


def verified(
    spark: Any, options: Mapping[str, str], archive: str, block: int = BLOCK
) -> dict[str, Any]:
    """
    Compare an archive with its log.

    @param spark: a session whose workers compare; C{None} to do it here.
    @param options: of the data source: C{servers}, and the login.
    @param block: how many sequences a fingerprint covers.
    @return: the job's line of JSON.
    @raise DataLoss: if the log is another one.
    """
    table = tableAt(archive)
    snapshot = table.require()
    values, state = following(table, snapshot, readOptions(options))
    work = partial(compareFiles, values, table.root, snapshot.log, state.first, block)
    done: list[Comparison] = runnerOf(spark)(work, snapshot.tiles)
    return {
        **{name: getattr(snapshot, name) for name in ("version", "start", "stop")},
        "files": len(snapshot.files),
        "rows": sum(result.rows for result in done),
        "deleted": sum(result.deleted for result in done),
        "lost": [list(stretch) for stretch in snapshot.lost],
        "findings": [asdict(finding) for result in done for finding in result.findings],
    }


def compareFiles(
    options: dict[str, Any], root: Location, log: Log, firstStored: int, block: int, tile: Tile
) -> Comparison:
    findings: list[Difference] = []
    different: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    rows = deleted = 0
    blocks = _blocks(root, tile, max(tile.start, firstStored), block, findings)
    with connected(options, tile.start) as connection:
        logs = logsOf(connection, options)
        for begin, end, archived in blocks:
            rows += pc.count_distinct(archived["seq"]).as_py()
            bounds = SequenceRange(log.name, log.identity, begin, end)
            if isinstance(logs, ChannelApi) and _isSame(logs, bounds, block, archived):
                continue
            known = {row["seq"]: row for row in archived.to_pylist()}
            batches = LogOrigin(options).batches(bounds)
            for row in chain.from_iterable(batch.to_pylist() for batch in batches):
                kept = known.pop(row["seq"], None)
                if kept is None:
                    different["missing", "is stored and not in the archive"].append(row["seq"])
                elif which := [name for x, name in _COMPARED.items() if kept[x] != row[x]]:
                    different["differs", f"has another {' and '.join(which)}"].append(row["seq"])
            deleted += len(known)
    for (kind, detail), seqs in different.items():
        findings += consecutive(kind, pa.array(seqs), detail)
    return Comparison(tuple(findings), rows, deleted)


def _blocks(
    root: Location, tile: Tile, start: int, block: int, findings: list[Difference]
) -> Iterator[tuple[int, int, Any]]:
    """The rows from a sequence on, up to the end of a block of the broker, or of the table."""
    seq, rest = pc.field("seq"), STORED.empty_table()
    for table, wrong in chain(examined(root, tile.files), [(rest, [])]):
        findings += wrong
        until = tile.stop
        if table is not rest:
            until = min((pc.max(table["seq"]).as_py() or 0) + 1, until)
        while start < until:
            stop = min((start // block + 1) * block, until)
            yield start, stop, table.filter((seq >= start) & (seq < stop))
            start = stop


def _isSame(channels: ChannelApi, bounds: SequenceRange, block: int, rows: Any) -> bool:
    name, stop = bounds.stream, bounds.stop
    question = {"start": bounds.start, "stop": stop, "identity": bounds.created, "block": block}
    answer = channels.call("DIGEST", name, question)
    with sensible(f"channel {name}: the answer with its fingerprints is malformed"):
        [fingerprint] = answer["blocks"]
        theirs = fingerprint["sha256"], fingerprint["stop"], bool(fingerprint.get("damaged"))
    sha256 = hashlib.sha256()
    seqs, times, headers, data = (
        rows[column].to_pylist() for column in ("seq", "time_ns", "headers", "data")
    )
    subjects = rows["subject"].cast(pa.binary()).to_pylist()
    addToDigest(sha256, seqs, times, subjects, list(map(_blockOf, headers)), data)
    return theirs == (sha256.hexdigest(), stop, False)


def _blockOf(headers: Sequence[Mapping[str, str]]) -> bytes:
    lines = "".join(f"{header['key']}: {header['value']}\r\n" for header in headers)
    return f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""


@command("verify")
def verifyMain(job: JobRun) -> int:
    job.addServers()
    job.addArchive()
    job.option("--block", BLOCK, "sequences in a fingerprint")
    job.addPage()
    job.addMaster()
    given = job.given()
    if not 1 <= given.block <= 1_000_000:
        job.error("--block is 1 to 1000000")
    with sessionFor(given.master) as spark:
        job.summary.update(verified(spark, optionTexts(given), given.archive, given.block))
    for finding in job.summary["findings"]:
        print(Difference(**finding), file=job.stderr)
    writePage(differenceReport(job.summary), given.html, job.summary)
    return FOUND if job.summary["findings"] else 0


def differenceReport(summary: Mapping[str, Any]) -> JobReport:
    findings = summary["findings"]
    ranges: dict[str, list[tuple[Any, float]]] = {"archive": [(summary["start"], summary["stop"])]}
    if summary["lost"]:
        ranges["lost before"] = [(start, stop) for start, stop in summary["lost"]]
    for finding in findings:
        ranges.setdefault(finding["kind"], []).append((finding["first"], finding["last"] + 1))
    names = ("version", "start", "stop", "files", "rows", "deleted")
    facts = {**{name: summary[name] for name in names}, "findings": len(findings)}
    columns = ("kind", "first", "last", "detail")
    rows = [tuple(finding[name] for name in columns) for finding in findings]
    chart = Chart("ranges", ranges, "sequences")
    return JobReport(
        "Archive and log", facts, [ReportSection("Differences", columns, rows, "", chart)]
    )


def placesOf(checkpoint: Path) -> dict[str, tuple[str, int]]:
    """
    The place of a streaming query that reads with our data source: for each log of its sources, the
    identity and the sequence after the last ended micro-batch.

    @param checkpoint: the query's C{checkpointLocation}.
    """
    try:
        # An entry that is only in offsets/ is planned, and perhaps not done.
        ended = [int(x.name) for x in (checkpoint / "commits").iterdir() if x.name.isdigit()]
        lines = (checkpoint / "offsets" / str(max(ended))).read_text("utf-8").splitlines()
    except (OSError, ValueError):
        raise DataSourceError(
            f"{checkpoint}: there is no checkpoint of a streaming query that has ended a"
            " micro-batch"
        ) from None
    placesByLog: dict[str, tuple[str, int]] = {}
    for line in lines[2:]:
        try:
            places = readOffset(json.loads(line), None)
        except (ValueError, OptionError):
            continue  # An entry of another source.
        for name, place in places.items():
            # If two sources read one log, the one that is further behind counts.
            placesByLog[name] = min(place, placesByLog.get(name, place), key=itemgetter(1))
    if not placesByLog:
        raise DataSourceError(
            f"{checkpoint}: the query does not read with the data source 'natsbroker'"
        )
    return placesByLog


@command("lag")
def lagMain(job: JobRun) -> int:
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
    job.summary["behind"] = sum(log.get("behind", 0) for log in logs.values())
    wrong = [name for name, log in logs.items() if "error" in log]
    for name in wrong:
        print(f"{name}: {logs[name]['error']}", file=job.stderr)
    writePage(lagReport(logs, job.summary["behind"]), given.html, job.summary)
    isTooFar = 0 <= given.most < job.summary["behind"]
    return FOUND if wrong or isTooFar else 0


def lagReport(logs: Mapping[str, Mapping[str, Any]], behind: int) -> JobReport:
    names = ("next", "last", "behind", "error")
    rows = [(log, *(row.get(name, "") for name in names)) for log, row in logs.items()]
    bars = [(name, float(row["behind"])) for name, row in logs.items() if "behind" in row]
    chart = Chart("bars", {"": bars}, "sequences")
    columns = ("log", "next", "last", "behind", "wrong")
    return JobReport("Lag", {"Behind": behind}, [ReportSection("Logs", columns, rows, "", chart)])


def _compared(
    options: dict[str, Any], places: dict[str, tuple[str, int]]
) -> dict[str, dict[str, Any]]:
    compared: dict[str, dict[str, Any]] = {}
    with connected(options) as connection:
        logs = logsOf(connection, options)
        for name, (identity, following) in sorted(places.items()):
            compared[name] = one = dict[str, Any](next=following)
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
    return compared
