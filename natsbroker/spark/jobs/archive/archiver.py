"""
Archiving a log: from servers to the files of a table, each message exactly once.

What is next is what the table does not account for yet, so its log is the checkpoint. Tasks copy
ranges into files that nobody knows of; then one commit adds all of them to the table, or none. So
any number of archivers may run, and die.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from natsbroker.spark.datasource.tasks import connected
from natsbroker.spark.errors import DataLoss, OptionError
from natsbroker.spark.jobs.archive.origins import LogOrigin, logOf
from natsbroker.spark.jobs.common import Runner, inline
from natsbroker.spark.logs.channels import ChannelApi
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.logs.selection import Logs, logsOf, oneName
from natsbroker.spark.tables.filing import writeFiles
from natsbroker.spark.tables.locations import Location
from natsbroker.spark.tables.snapshots import File, Log, Range, TableSnapshot, joined
from natsbroker.spark.tables.table import ArchiveTable


@dataclass(frozen=True)
class FilePlan:
    """
    @ivar rowsPerFile: how many sequences a file accounts for, at most.
    @ivar filesPerVersion: how many files a version adds, at most; more if days end in them.
    @ivar partitionBy: of an archive that is begun: C{date} for files of one day each.
    """

    rowsPerFile: int = 1_000_000
    filesPerVersion: int = 4
    partitionBy: str = ""

    def ranges(self, log: Log, start: int, end: int) -> list[SequenceRange]:
        size = self.rowsPerFile
        starts = range(start, end, size)[: self.filesPerVersion]
        return [SequenceRange(log.name, log.identity, x, min(x + size, end)) for x in starts]


@dataclass(frozen=True)
class CopyResult:
    files: tuple[File, ...]
    lost: tuple[Range, ...]


def copyRange(
    origin: LogOrigin, root: Location, partition: str, bounds: SequenceRange
) -> CopyResult:
    lost: list[Range] = []
    files = writeFiles(root, origin.batches(bounds, lost.append), bounds.start, bool(partition))
    return CopyResult(tuple(files), tuple(lost))


def checkLog(table: ArchiveTable, snapshot: TableSnapshot, log: Log) -> None:
    mine = snapshot.log
    if (mine.kind, mine.name, mine.scope) != (log.kind, log.name, log.scope):
        raise OptionError(f"{table.root} is an archive of {mine.kind} {mine.name}")
    if mine.identity != log.identity:
        raise DataLoss(
            f"{log.kind} {log.name} was deleted and made again since it was archived: its"
            " sequences are others; archive it elsewhere"
        )


class LogFollower:
    """
    Adds what a log has to tables, from where they stop.

    @ivar rows: how many it has added.
    @ivar bytes: of their files.
    @ivar lost: what it has recorded as lost.
    @ivar onProgress: told after each version where the tables stop, and where the log.
    @ivar isOver: whether to end before the next version.
    """

    def __init__(self, run: Runner, plan: FilePlan | None) -> None:
        self.rows = self.bytes = 0
        self.lost: list[Range] = []
        self.onProgress: Callable[[int, int], object] = lambda done, end: None
        self.isOver: Callable[[], bool] = lambda: False
        self._run = run
        self._plan = plan or FilePlan()

    def hasBegun(self) -> bool:
        raise NotImplementedError


class Archiver(LogFollower):
    def __init__(
        self,
        options: dict[str, Any],
        table: ArchiveTable,
        run: Runner = inline,
        plan: FilePlan | None = None,
    ) -> None:
        super().__init__(run, plan)
        self._name = oneName(options, " to archive")
        if options["subject"]:
            raise OptionError("subject: an archive has every message of its log")
        self.table = table
        self.files = 0
        self._options = options

    def once(self, hold: int = 0) -> TableSnapshot:
        """
        Archive what is stored now.

        @param hold: for how many seconds the broker is to keep what is not archived yet, from the
            last version on; 0 for not at all.
        @return: the version that holds then, without its files.
        @raise DataLoss: if the log is another one than that of the archive.
        """
        self.table.make()
        with connected(self._options) as connection:
            logs = logsOf(connection, self._options)
            state = logs.state(self._name)
            log = logOf(state, self._options)
            snapshot = self.table.latest(hasFiles=False)
            if snapshot is None:
                snapshot = TableSnapshot.first(log, state.first, self._plan.partitionBy)
                # Before anything is promised, so that what is promised is there.
                self._hold(logs, snapshot, hold)
                self.table.create(snapshot)
                snapshot = self.table.require(hasFiles=False)
            checkLog(self.table, snapshot, log)
            if self._plan.partitionBy not in ("", snapshot.partition):
                raise OptionError(
                    f"{self.table.root} is an archive that is not partitioned by"
                    f" {self._plan.partitionBy}: that is decided when it is begun"
                )
            self._hold(logs, snapshot, hold)
            while snapshot.stop < state.stop and not self.isOver():
                snapshot = self._advance(snapshot, state.stop)
                self.onProgress(snapshot.stop, state.stop)
                self._hold(logs, snapshot, hold)
            return snapshot

    def hasBegun(self) -> bool:
        return self.table.latest(hasFiles=False) is not None

    def summary(self) -> dict[str, Any]:
        snapshot = self.table.latest(hasFiles=False)
        return {
            "rows": self.rows,
            "files": self.files,
            **{name: getattr(snapshot, name, None) for name in ("version", "start", "stop")},
            "lost": [list(each) for each in joined(self.lost)],
        }

    def _hold(self, logs: Logs, snapshot: TableSnapshot, seconds: int) -> None:
        if not seconds:
            return
        if not isinstance(logs, ChannelApi):
            raise OptionError("hold: only channels of our broker can be held")
        question = {
            "name": f"archive-{snapshot.table}",
            "floor": snapshot.stop,
            "seconds": seconds,
            "identity": snapshot.log.identity,
        }
        logs.call("HOLD", snapshot.log.name, question)

    def _advance(self, snapshot: TableSnapshot, end: int) -> TableSnapshot:
        ranges = self._plan.ranges(snapshot.log, snapshot.stop, end)
        origin = LogOrigin(self._options)
        work = partial(copyRange, origin, self.table.root, snapshot.partition)
        done: list[CopyResult] = self._run(work, ranges)
        files = [file for copied in done for file in copied.files]
        lost = [each for copied in done for each in copied.lost]
        if self.table.append(snapshot, files, lost, ranges[-1].stop):
            self.files += len(files)
            self.rows += sum(each.rows for each in files)
            self.bytes += sum(each.bytes for each in files)
            self.lost += lost
        return self.table.require(hasFiles=False)
