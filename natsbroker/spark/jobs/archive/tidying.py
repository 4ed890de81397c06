"""
Tidying an archive: old messages are removed. During a series of rounds, a thread joins small files
and vacuums old versions.
"""

from __future__ import annotations

import argparse
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from natsbroker.spark.datasource.tasks import connected
from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.jobs.archive.verify import checkFiles, placesOf
from natsbroker.spark.jobs.common import (
    JobRun,
    Runner,
    command,
    inline,
    runnerOf,
    sessionFor,
    sourceOptions,
)
from natsbroker.spark.logs.apis import ChannelApi, sensible
from natsbroker.spark.tables.locations import Location, parquetFile
from natsbroker.spark.tables.snapshots import File, TableSnapshot
from natsbroker.spark.tables.table import ArchiveTable, tableAt

#: The size that files reach. A reader of a compacted file sorts it in memory.
TARGET = 128 << 20

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

#: For how long what is not named any more stays, in seconds.
AGE = 86400.0


def addRetention(job: JobRun) -> None:
    job.duration("--keep", 0.0, "remove versions that are older than this: 30d")
    text = "but keep what this streaming query has not read yet"
    job.option("--needed-by", [], text, metavar="CHECKPOINT")


def checkRetention(job: JobRun, given: argparse.Namespace) -> None:
    if given.needed_by and not given.keep:
        job.error("--needed-by needs --keep")


def expire(
    table: ArchiveTable,
    keep: float,
    checkpoints: Sequence[str] = (),
    options: dict[str, Any] | None = None,
    clock: Callable[[], float] = time.time,
) -> int:
    """
    Remove files whose messages are all too old, and that nobody needs any more.

    @param keep: the age from which messages are removed, in seconds.
    @param checkpoints: of streaming queries that may still need messages.
    @param options: of the data source, for the holds on a channel; C{None} to ask no server.
    @return: how many files.
    """
    snapshot = table.require()
    limit = _neededFrom(snapshot, checkpoints, options)
    oldest = clock() - keep
    start, gone = snapshot.start, 0
    for tile in snapshot.tiles:
        if tile.stop > limit or any(_newest(table.root, x) >= oldest for x in tile.files):
            break
        if tile.files:
            start, gone = tile.stop, gone + len(tile.files)
    return gone if gone and table.expire(snapshot, start) else 0


def _neededFrom(
    snapshot: TableSnapshot, checkpoints: Sequence[str], options: dict[str, Any] | None
) -> int:
    log = snapshot.log
    limits = [snapshot.stop]
    for checkpoint in checkpoints:
        identity, following = placesOf(Path(checkpoint)).get(log.name, ("", 0))
        if identity != log.identity:
            raise OptionError(
                f"{checkpoint}: the query does not read the {log.kind} of the archive"
            )
        limits.append(following)
    if options is not None and log.kind == "channel":
        with connected(options) as connection:
            info = ChannelApi(connection, log.scope).call("INFO", log.name)
        with sensible(f"channel {log.name}: the answer about its holds is malformed"):
            limits += [int(hold["floor"]) for hold in info.get("holds", ())]
    return min(limits)


def _newest(root: Location, file: File) -> float:
    times = parquetFile(root / file.path).read(columns=["time"])["time"]
    return float(pc.max(times).as_py().timestamp())


def compact(table: ArchiveTable, run: Runner = inline, target: int = TARGET) -> int:
    """Join files, and return their number; C{ArchiveDamaged} for changed content."""
    # The new files will say how many rows they have, so what is missing must be found before. Files
    # of decoded tables have no sequences, and no checksums.
    tiles = (tile.files for tile in table.require().tiles)
    small = [x for x in tiles if any(file.last and file.bytes < target for file in x)]
    checkFiles(table.root, small, run)
    return table.compact(target)


@dataclass
class Housekeeper:
    """
    Tidies an archive after a number of versions. A killed one leaves files that no version names.

    @ivar table: not that of the archiver: the two are used at the same time.
    @ivar say: called with a failure; the next round tries again.
    @ivar after: how many versions; 0 for never.
    @ivar keep: as for L{expire}, as C{checkpoints}; 0 if no messages go.
    @ivar version: the one after which it tidied last.
    """

    table: ArchiveTable
    options: dict[str, Any]
    run: Runner
    say: Callable[[str], object]
    after: int
    keep: float = 0.0
    checkpoints: Sequence[str] = ()
    compacted: int = 0
    expired: int = 0
    failures: int = 0
    version: int | None = None
    thread: threading.Thread = field(default_factory=threading.Thread)

    def look(self, snapshot: TableSnapshot) -> None:
        if not self.after or self.thread.is_alive():
            return
        if self.version is None or snapshot.version - self.version >= self.after:
            self.version = snapshot.version
            self.thread = threading.Thread(target=self._tidy)
            self.thread.start()

    def finish(self) -> None:
        if self.thread.ident is not None:
            self.thread.join()

    def _tidy(self) -> None:
        try:
            if self.keep:
                self.expired += expire(self.table, self.keep, self.checkpoints, self.options)
            files = [file for file in self.table.require().files if file.bytes < TARGET]
            if len(files) > 1:
                self.compacted += compact(self.table, self.run)
            self.table.vacuum(AGE, False)
            # The versions that tidying made are no reason to tidy again.
            self.version = self.table.require(hasFiles=False).version
        except (DataSourceError, OSError) as error:
            self.failures += 1
            self.say(f"tidying: {getattr(error, 'strerror', '') or error}")


def bytesOf(text: str) -> int:
    """A size: C{1000}, C{64K}, C{512M}, C{2G}, with or without C{B} behind it."""
    match = re.fullmatch(r"(\d+)([KMG]?)B?", text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"not a size: {text!r}")
    return int(match[1]) * _UNITS[match[2]]


@command("compact")
def compactMain(job: JobRun) -> int:
    job.addArchive()
    job.option("--target", TARGET, "how large: 128M", type=bytesOf)
    job.addMaster()
    given = job.given()
    table = tableAt(given.archive)
    before = table.require()
    with sessionFor(given.master) as spark:
        job.summary["replaced"] = compact(table, runnerOf(spark), given.target)
    after = table.require()
    job.summary.update(version=after.version, before=len(before.files), files=len(after.files))
    return 0


@command("vacuum")
def vacuumMain(job: JobRun) -> int:
    job.addArchive()
    job.duration("--older-than", AGE, "how old: 1d")
    job.option("--dry-run", False, "delete nothing")
    addRetention(job)
    job.addServers(isRequired=False)
    given = job.given()
    if given.keep and given.dry_run:
        job.error("--keep and --dry-run exclude each other")
    checkRetention(job, given)
    options = sourceOptions(given) if given.servers else None
    table = tableAt(given.archive)
    if given.keep:
        job.summary["expired"] = expire(table, given.keep, given.needed_by, options)
    done = table.vacuum(given.older_than, given.dry_run)
    job.summary.update(asdict(done))
    return 0
