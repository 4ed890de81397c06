"""
The job C{verify}: whether an archive has what its log has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from natsbroker.spark.datasource.tasks import connected, stateOf
from natsbroker.spark.errors import ApiError
from natsbroker.spark.jobs.archive.archiver import LogOrigin, checkLog, logOf
from natsbroker.spark.jobs.common import FOUND, JobRun, Runner, command, runnerOf, sourceOptions
from natsbroker.spark.jobs.report import Chart, JobReport, ReportSection, writePage
from natsbroker.spark.logs.channels import ChannelApi
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.logs.selection import logsOf
from natsbroker.spark.logs.streams import StreamState
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.checking import ArchiveDamaged, Difference, damageOf, examined
from natsbroker.spark.tables.locations import Location
from natsbroker.spark.tables.snapshots import File, Log, TableSnapshot, Tile
from natsbroker.spark.tables.table import ArchiveTable, tableAt
from natsbroker.wire.columnar import addToDigest

#: How many sequences a fingerprint covers.
BLOCK = 10_000

#: Sequence, time, subject, headers and data.
Row = tuple[int, int, str, tuple[tuple[str, str], ...], bytes]


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
    """
    @return: the options for the log of an archive, and its state.
    @raise DataLoss: if the log is another one.
    """
    options = optionsOf(snapshot, options)
    state = stateOf(options, snapshot.log.name)
    checkLog(table, snapshot, logOf(state, options))
    return options, state


def checkFiles(root: Location, groups: Sequence[Sequence[File]], run: Runner) -> None:
    """
    @raise ArchiveDamaged: if files have not what was written.
    """
    found = run(partial(damageOf, root), groups)
    if findings := [each for damage in found for each in damage]:
        raise ArchiveDamaged(root, findings)


def verify(
    options: dict[str, Any], table: ArchiveTable, run: Runner, block: int = BLOCK
) -> tuple[TableSnapshot, Comparison]:
    """
    Compare an archive with its log.

    @param options: of the data source, read; the archive says which log it is.
    @raise DataLoss: if the log is another one.
    """
    snapshot = table.require()
    options, state = following(table, snapshot, options)
    work = partial(compareFiles, options, table.root, snapshot.log, state.first, block)
    done: list[Comparison] = run(work, snapshot.tiles)
    return snapshot, Comparison(
        tuple(finding for each in done for finding in each.findings),
        sum(each.rows for each in done),
        sum(each.deleted for each in done),
    )


def compareFiles(
    options: dict[str, Any], root: Location, log: Log, first: int, block: int, tile: Tile
) -> Comparison:
    """
    @param first: the first sequence that the log stores.
    """
    findings: list[Difference] = []
    rows = deleted = 0
    blocks = _blocks(_rowsIn(root, tile, findings), max(tile.start, first), tile.stop, block)
    with connected(options, tile.start) as connection:
        logs = logsOf(connection, options)
        for begin, end, archived in blocks:
            rows += len(archived)
            bounds = SequenceRange(log.name, log.identity, begin, end)
            if isinstance(logs, ChannelApi) and _isSame(logs, bounds, block, archived):
                continue
            stored = [x for batch in LogOrigin(options).batches(bounds) for x in _rowsOf(batch)]
            for seq, kind, detail in _differences(archived, stored):
                last = findings[-1] if findings else None
                if last and (last.kind, last.detail, last.last) == (kind, detail, seq - 1):
                    findings[-1] = replace(last, last=seq)
                else:
                    findings.append(Difference(kind, seq, seq, detail))
            deleted += len({each[0] for each in archived} - {each[0] for each in stored})
    return Comparison(tuple(findings), rows, deleted)


def _rowsIn(root: Location, tile: Tile, findings: list[Difference]) -> Iterator[Row]:
    """
    The rows of a tile that can be read; those that are there twice once.

    @param findings: takes what is wrong with them.
    """
    last = 0
    for table, wrong in examined(root, tile.files):
        findings += wrong
        for row in _rowsOf(table):
            if row[0] != last:
                yield row
            last = row[0]


def _blocks(
    rows: Iterator[Row], start: int, stop: int, block: int
) -> Iterator[tuple[int, int, list[Row]]]:
    """
    Messages from a sequence on, in blocks as the broker cuts them.
    """
    row = next(rows, None)
    while row is not None and row[0] < start:
        row = next(rows, None)
    while start < stop:
        end = min((start // block + 1) * block, stop)
        found = []
        while row is not None and row[0] < end:
            found.append(row)
            row = next(rows, None)
        yield start, end, found
        start = end
    for _ in rows:
        continue


def _rowsOf(table: Any) -> Iterator[Row]:
    names = ("seq", "time_ns", "subject", "headers", "data")
    columns = (table.column(each).to_pylist() for each in names)
    for seq, time, subject, headers, data in zip(*columns, strict=True):
        yield seq, time, subject, tuple((each["key"], each["value"]) for each in headers), data


def _isSame(channels: ChannelApi, bounds: SequenceRange, block: int, rows: list[Row]) -> bool:
    name, stop = bounds.stream, bounds.stop
    question = {"start": bounds.start, "stop": stop, "identity": bounds.created, "block": block}
    answer = channels.call("DIGEST", name, question)
    try:
        [found] = answer["blocks"]
        theirs = found["sha256"], found["stop"], bool(found.get("damaged"))
    except (KeyError, TypeError, ValueError):
        raise ApiError(f"channel {name}: its fingerprints make no sense") from None
    sha256 = hashlib.sha256()
    addToDigest(
        sha256,
        [each[0] for each in rows],
        [each[1] for each in rows],
        [each[2].encode("utf-8") for each in rows],
        [_blockOf(each[3]) for each in rows],
        [each[4] for each in rows],
    )
    return theirs == (sha256.hexdigest(), stop, False)


def _blockOf(headers: tuple[tuple[str, str], ...]) -> bytes:
    if not headers:
        return b""
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers)
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def _differences(archived: list[Row], stored: list[Row]) -> Iterator[tuple[int, str, str]]:
    known = {each[0]: each for each in archived}
    for row in stored:
        ours = known.get(row[0])
        if ours is None:
            yield row[0], "missing", "is stored and not in the archive"
        elif ours != row:
            names = ("sequence", "time", "subject", "headers", "data")
            which = [x for x, one, two in zip(names, ours, row, strict=True) if one != two]
            yield row[0], "differs", f"has another {' and '.join(which)}"


def verified(spark: Any, options: Mapping[str, str], archive: str) -> dict[str, Any]:
    """
    Compare an archive with its log.

    @param spark: a session whose workers compare; C{None} to do it here.
    @param options: of the data source: C{servers}, and what logs in.
    @return: what the job's line of JSON says.
    """
    return _summary(*verify(readOptions(options), tableAt(archive), runnerOf(spark)))


def _summary(snapshot: TableSnapshot, compared: Comparison) -> dict[str, Any]:
    return {
        **{name: getattr(snapshot, name) for name in ("version", "start", "stop")},
        "files": len(snapshot.files),
        "rows": compared.rows,
        "deleted": compared.deleted,
        "lost": [list(each) for each in snapshot.lost],
        "findings": [asdict(each) for each in compared.findings],
    }


@command("verify")
def main(job: JobRun) -> int:
    job.addServers()
    job.addArchive()
    job.option("--block", BLOCK, "sequences in a fingerprint")
    job.addPage()
    job.addMaster()
    given = job.given()
    if not 1 <= given.block <= 1_000_000:
        job.error("--block is 1 to 1000000")
    options = sourceOptions(given)
    with job.runner(given.master) as run:
        snapshot, compared = verify(options, tableAt(given.archive), run, given.block)
    job.summary.update(_summary(snapshot, compared))
    for each in compared.findings:
        print(each, file=job.stderr)
    writePage(reportOf(job.summary), given.html, job.summary)
    return FOUND if compared.findings else 0


def reportOf(summary: Mapping[str, Any]) -> JobReport:
    findings = summary["findings"]
    ranges: dict[str, list[tuple[Any, float]]] = {"archive": [(summary["start"], summary["stop"])]}
    if summary["lost"]:
        ranges["lost before"] = [(start, stop) for start, stop in summary["lost"]]
    for each in findings:
        ranges.setdefault(each["kind"], []).append((each["first"], each["last"] + 1))
    names = ("version", "start", "stop", "files", "rows", "deleted")
    facts = {**{name: summary[name] for name in names}, "findings": len(findings)}
    columns = ("kind", "first", "last", "detail")
    rows = [tuple(each[name] for name in columns) for each in findings]
    chart = Chart("ranges", ranges, "sequences")
    return JobReport(
        "Archive and log", facts, [ReportSection("Differences", columns, rows, "", chart)]
    )
