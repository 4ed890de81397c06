"""
Keeping an archive tidy: many small files into few large ones, and what nobody names any more away.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from natsbroker.spark.jobs.common import (
    Parser,
    Runner,
    addMaster,
    command,
    inline,
    runnerFor,
    secondsOf,
)
from natsbroker.spark.tables.columns import columnsOf, rowsOf
from natsbroker.spark.tables.filing import readFiles, timeOf, writeFile
from natsbroker.spark.tables.formats import tableAt
from natsbroker.spark.tables.manifests import File, Manifest, TableError, dayOf
from natsbroker.spark.tables.parquet import ParquetTable
from natsbroker.spark.tables.table import ArchiveTable, Vacuumed

__all__ = ["compact", "compactMain", "merged", "runsOf", "vacuum", "vacuumMain"]

#: How large files become.
TARGET = 512 << 20

#: For how long what is not named any more stays, in seconds.
AGE = 86400.0

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def runsOf(manifest: Manifest, target: int) -> list[tuple[File, ...]]:
    """
    Files that follow each other and can become one.

    @param target: how many bytes that has at most.
    """
    runs: list[tuple[File, ...]] = []
    run: list[File] = []
    for group in manifest.groups:
        days = {dayOf(x.path) for x in (*run, *group) if x.path}
        if run and (sum(x.bytes for x in (*run, *group)) > target or len(days) > 1):
            runs.append(tuple(run))
            run = []
        run += group
    runs.append(tuple(run))
    return [each for each in runs if len(each) > 1]


def merged(root: Path, files: Sequence[File]) -> File:
    columns = columnsOf(ParquetTable(root))
    if columns is None:
        groups = groupby(files, lambda each: (each.start, each.stop))
        batches = (batch for _, group in groups for batch in readFiles(root, list(group)))
    else:
        batches = (batch for batch in rowsOf(root, files, columns))
    time = timeOf(root, files)
    day = next((dayOf(each.path) for each in files if each.path), "")
    made = writeFile(root, batches, files[0].start, files[-1].stop, time, day)
    rows = sum(each.rows for each in files)
    if made.rows != rows:
        (root / made.path).unlink(missing_ok=True)
        raise TableError(f"files from {files[0].start} have {made.rows} messages and not {rows}")
    return made


def compact(
    table: ArchiveTable,
    run: Runner = inline,
    target: int = TARGET,
    now: Callable[[], float] = time.time,
) -> int:
    """
    Make few large files of many small ones; the small ones stay until they are vacuumed.

    @param target: how many bytes a file has at most.
    @return: how many files gave way to others.
    """
    manifest = table.require()
    runs = runsOf(manifest, target)
    made: list[File] = run(partial(merged, table.root), runs)
    gone = 0
    for old, new in zip(runs, made, strict=True):
        if _replace(table, old, new, now):
            gone += len(old)
    return gone


def _replace(table: ArchiveTable, old: Sequence[File], new: File, now: Callable[[], float]) -> bool:
    """
    Have one file take the place of others, also while somebody archives.

    @return: whether it does: not if somebody else replaced them.
    """
    while True:
        manifest = table.require()
        if not set(old) <= set(manifest.files):
            if new.path:
                (table.root / new.path).unlink(missing_ok=True)
            return False
        if table.commit(manifest.replaced(old, [new], now())):
            return True


def vacuum(
    table: ArchiveTable,
    age: float = AGE,
    now: Callable[[], float] = time.time,
    isDryRun: bool = False,
) -> Vacuumed:
    """
    Delete versions that have not held for a while, and files that no version names that is left.

    @param age: how long ago they stopped holding, or were written, at least; in seconds.
    @param isDryRun: say what would be deleted, and delete nothing.
    """
    table.require()
    return table.vacuum(age, now, isDryRun)


def bytesOf(text: str) -> int:
    """
    A size: C{1000}, C{64K}, C{512M}, C{2G}, with or without C{B} behind it.

    @raise ValueError: for anything else, and for nothing.
    """
    found = re.fullmatch(r"(\d+)([KMG]?)B?", text)
    if found is None or not int(found[1]):
        raise ValueError(f"not a size: {text!r}")
    return int(found[1]) * _UNITS[found[2]]


@command("compact")
def compactMain(
    arguments: Sequence[str], summary: dict[str, Any], stdout: TextIO, stderr: TextIO
) -> int:
    parser = Parser("compact", "Make few large files of the many small ones of an archive.")
    parser.add_argument("--archive", required=True, help="the directory of the archive")
    parser.add_argument("--target", type=bytesOf, default=TARGET, help="how large: 512M")
    addMaster(parser)
    given = parser.parse_args(list(arguments))
    table = tableAt(given.archive)
    before = table.require()
    with runnerFor(given.master) as run:
        summary["replaced"] = compact(table, run, given.target)
    after = table.require()
    summary.update(version=after.version, before=len(before.files), files=len(after.files))
    return 0


@command("vacuum")
def vacuumMain(
    arguments: Sequence[str], summary: dict[str, Any], stdout: TextIO, stderr: TextIO
) -> int:
    parser = Parser("vacuum", "Delete old versions of an archive, and files that none names.")
    parser.add_argument("--archive", required=True, help="the directory of the archive")
    parser.add_argument("--older-than", type=secondsOf, default=AGE, help="how old: 1d")
    parser.add_argument("--dry-run", action="store_true", help="delete nothing")
    given = parser.parse_args(list(arguments))
    done = vacuum(tableAt(given.archive), given.older_than, isDryRun=given.dry_run)
    summary.update(files=done.files, versions=done.versions, bytes=done.bytes)
    return 0
