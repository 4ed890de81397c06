"""
Following a log with tables: messages from servers, or from an archive, go to the files of tables,
each exactly once.

A table's own log is the checkpoint: the next messages are those that it does not contain. Tasks
copy ranges into files that no reader sees. Then one commit adds all of them to the table, or none.
So any number of jobs may run, and die. Each of several tables has its own log. The next range
begins at the end of the table that is furthest behind, and stops where another one ends, so that
both continue from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from natsbroker.spark.datasource.tasks import batchesOf, connected, stateOf
from natsbroker.spark.errors import DataLoss, OptionError
from natsbroker.spark.jobs.common import Runner, inline
from natsbroker.spark.logs.apis import ChannelApi, StreamState
from natsbroker.spark.logs.planning import oneName
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.tables.locations import Location
from natsbroker.spark.tables.parquet import COLUMNS, readFiles, writeFiles
from natsbroker.spark.tables.snapshots import File, Log, Range, TableSnapshot, joined
from natsbroker.spark.tables.table import ArchiveTable, tableAt

OnLost = Callable[[Range], object]


def logOf(state: StreamState, options: dict[str, Any]) -> Log:
    isChannel = bool(options["channel"])
    scope = options["clusterId"] if isChannel else options["domain"]
    return Log("channel" if isChannel else "stream", state.name, scope, state.created)


@dataclass(frozen=True)
class StoredRange:
    log: Log
    start: int
    stop: int


@dataclass(frozen=True)
class LogOrigin:
    options: dict[str, Any]

    def __post_init__(self) -> None:
        oneName(self.options, isWhole=True)

    def state(self) -> StoredRange:
        state = stateOf(self.options, oneName(self.options))
        return StoredRange(logOf(state, self.options), state.first, state.stop)

    def batches(self, bounds: SequenceRange, onLost: OnLost = lambda lost: None) -> Iterator[Any]:
        """C{onLost} gets ranges that are not stored any more."""
        options = {**self.options, "failOnDataLoss": False}
        return batchesOf(
            options,
            COLUMNS,
            bounds,
            onLoss=lambda loss: [onLost(stretch) for stretch in loss.ranges],
        )

    def now(self) -> LogOrigin:
        """The same source, including messages that have come since it was made."""
        return self


@dataclass(frozen=True)
class ArchiveOrigin:
    root: Location
    snapshot: TableSnapshot

    @classmethod
    def of(cls, root: str) -> ArchiveOrigin:
        table = tableAt(root)
        return cls(table.root, table.require())

    def state(self) -> StoredRange:
        return StoredRange(self.snapshot.log, self.snapshot.start, self.snapshot.stop)

    def batches(self, bounds: SequenceRange, onLost: OnLost = lambda lost: None) -> Iterator[Any]:
        isWanted = (pc.field("seq") >= bounds.start) & (pc.field("seq") < bounds.stop)
        for start, stop in self.snapshot.lost:
            if start < bounds.stop and stop > bounds.start:
                onLost((max(start, bounds.start), min(stop, bounds.stop)))
        for tile in self.snapshot.tiles:
            if tile.start < bounds.stop and tile.stop > bounds.start:
                for batch in self.read(tile.files):
                    yield from pa.Table.from_batches([batch]).filter(isWanted).to_batches()

    def read(self, files: Sequence[File]) -> Iterator[Any]:
        return readFiles(self.root, files)

    def now(self) -> ArchiveOrigin:
        return replace(self, snapshot=tableAt(self.root).require())


#: The source of a job's messages.
Origin = LogOrigin | ArchiveOrigin


@dataclass(frozen=True)
class FilePlan:
    """
    @ivar rowsPerFile: the most sequences of a file.
    @ivar filesPerVersion: the most files that a version adds; more if days end in them.
    @ivar partitionBy: the partition of a new archive: C{date} for files of one day each.
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
    """
    @ivar files: a range in files, by the names of the tables.
    @ivar lost: ranges no longer stored.
    @ivar ignored: how many messages had no table.
    @ivar first: the sequence and reason of the first dead letter, if there is one.
    """

    files: Mapping[str, Sequence[File]]
    lost: Sequence[Range]
    ignored: int = 0
    first: tuple[int, str] | None = None


def copyRange(origin: Origin, root: Location, partition: str, bounds: SequenceRange) -> CopyResult:
    lost: list[Range] = []
    files = writeFiles(root, origin.batches(bounds, lost.append), bounds.start, bool(partition))
    return CopyResult({"": files}, lost)


def checkLog(table: ArchiveTable, snapshot: TableSnapshot, log: Log) -> None:
    mine = snapshot.log
    if (mine.kind, mine.name, mine.scope) != (log.kind, log.name, log.scope):
        raise OptionError(f"{table.root} is an archive of {mine.kind} {mine.name}")
    if mine.identity != log.identity:
        raise DataLoss(
            f"{log.kind} {log.name} was deleted and made again since it was archived: its"
            " sequences belong to other messages now; archive it elsewhere"
        )


class LogFollower:
    """
    Adds a log to tables, from where they stop. A single table has no name, and gets messages
    unchanged.

    @ivar added: how many rows it has added, by the names of tables.
    @ivar lost: the ranges that it recorded as lost.
    @ivar onProgress: called after each version with where the tables stop, and where the log.
    @ivar onVersion: called with each version of the tables; with a first one before it is made.
    @ivar isOver: whether to end before the next version.
    """

    def __init__(
        self,
        origin: Origin,
        tables: Mapping[str, ArchiveTable],
        run: Runner = inline,
        plan: FilePlan | None = None,
    ) -> None:
        self.added = dict.fromkeys(tables, 0)
        self.files = self.bytes = 0
        self.lost: list[Range] = []
        self.onProgress: Callable[[int, int], object] = lambda done, end: None
        self.onVersion: Callable[[TableSnapshot], object] = lambda version: None
        self.isOver: Callable[[], bool] = lambda: False
        self.plan = plan or FilePlan()
        self.origin: Origin = origin
        self._tables = tables
        self._run = run

    @property
    def rows(self) -> int:
        return sum(self.added.values())

    def hasBegun(self) -> bool:
        return any(table.latest(hasFiles=False) is not None for table in self._tables.values())

    def follow(self) -> dict[str, TableSnapshot]:
        """
        @return: the current versions afterwards, without their files.
        @raise DataLoss: if a table is of another log.
        """
        self.origin = self.origin.now()
        state = self.origin.state()
        snapshots = self._begin(state)
        while True:
            for snapshot in snapshots.values():
                self.onVersion(snapshot)
            start = min(snapshot.stop for snapshot in snapshots.values())
            if start >= state.stop or self.isOver():
                return snapshots
            stops = [snapshot.stop for snapshot in snapshots.values() if snapshot.stop > start]
            behind = {
                name: snapshot for name, snapshot in snapshots.items() if snapshot.stop == start
            }
            self._advance(behind, min([*stops, state.stop]))
            snapshots = {
                name: table.require(hasFiles=False) for name, table in self._tables.items()
            }
            self.onProgress(min(snapshot.stop for snapshot in snapshots.values()), state.stop)

    def _begin(self, state: StoredRange) -> dict[str, TableSnapshot]:
        partition = self.plan.partitionBy
        snapshots = {}
        for name, table in self._tables.items():
            snapshot = table.latest(hasFiles=False)
            if snapshot is None:
                first = TableSnapshot.first(state.log, state.start, partition)
                self.onVersion(first)
                table.make()
                self._create(name, first)
                snapshot = table.require(hasFiles=False)
            checkLog(table, snapshot, state.log)
            if partition not in ("", snapshot.partition):
                raise OptionError(
                    f"{table.root} is an archive that is not partitioned by {partition}: that is"
                    " decided when it is begun"
                )
            if isinstance(self.origin, ArchiveOrigin) and snapshot.stop < state.start:
                raise DataLoss(
                    f"{table.root} stops at {snapshot.stop}, and the archive begins at"
                    f" {state.start}"
                )
            snapshots[name] = snapshot
        return snapshots

    def _create(self, name: str, first: TableSnapshot) -> None:
        self._tables[name].create(first)

    def _copier(self, behind: Mapping[str, TableSnapshot]) -> Callable[[SequenceRange], CopyResult]:
        [snapshot] = behind.values()
        return partial(copyRange, self.origin, self._tables[""].root, snapshot.partition)

    def _advance(self, behind: Mapping[str, TableSnapshot], end: int) -> list[CopyResult]:
        base = next(iter(behind.values()))
        ranges = self.plan.ranges(base.log, base.stop, end)
        done: list[CopyResult] = self._run(self._copier(behind), ranges)
        lost = [stretch for copied in done for stretch in copied.lost]
        for name, snapshot in behind.items():
            files = [file for copied in done for file in copied.files[name]]
            if self._tables[name].append(snapshot, files, lost, ranges[-1].stop):
                self.added[name] += sum(file.rows for file in files)
                self.bytes += sum(file.bytes for file in files)
                self.files += len(files)
                self.lost += lost
        return done


class Archiver(LogFollower):
    def __init__(
        self,
        options: dict[str, Any],
        table: ArchiveTable,
        run: Runner = inline,
        plan: FilePlan | None = None,
    ) -> None:
        oneName(options, " to archive")
        if options["subject"]:
            raise OptionError("subject: an archive must have every message of its log")
        super().__init__(LogOrigin(options), {"": table}, run, plan)
        self.table = table
        self._options = options

    def once(self, hold: int = 0) -> TableSnapshot:
        """
        Follow the log once. The broker keeps later messages for C{hold} seconds after the last
        version.
        """
        self.onVersion = partial(self._hold, hold) if hold else lambda version: None
        return self.follow()[""]

    def summary(self) -> dict[str, Any]:
        snapshot = self.table.latest(hasFiles=False)
        return {
            "rows": self.rows,
            "files": self.files,
            **{name: getattr(snapshot, name, None) for name in ("version", "start", "stop")},
            "lost": [list(stretch) for stretch in joined(self.lost)],
        }

    def _hold(self, seconds: int, snapshot: TableSnapshot) -> None:
        if snapshot.log.kind != "channel":
            raise OptionError("hold: only channels of our broker can be held")
        question = {
            "name": f"archive-{snapshot.table}",
            "floor": snapshot.stop,
            "seconds": seconds,
            "identity": snapshot.log.identity,
        }
        with connected(self._options) as connection:
            ChannelApi(connection, snapshot.log.scope).call("HOLD", snapshot.log.name, question)
