"""
Where a job has its messages from: a log on servers, or an archive of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from natsbroker.spark.datasource.tasks import batchesOf, stateOf
from natsbroker.spark.logs.reading import Loss, SequenceRange
from natsbroker.spark.logs.selection import oneName
from natsbroker.spark.logs.streams import StreamState
from natsbroker.spark.tables.checking import COLUMNS, readFiles
from natsbroker.spark.tables.locations import Location
from natsbroker.spark.tables.snapshots import Log, Range, TableSnapshot
from natsbroker.spark.tables.table import tableAt

OnLost = Callable[[Range], object]


def logOf(state: StreamState, options: dict[str, Any]) -> Log:
    isChannel = bool(options["channel"])
    scope = options["clusterId"] if isChannel else options["domain"]
    return Log("channel" if isChannel else "stream", state.name, scope, state.created)


def lostIn(snapshot: TableSnapshot, start: int, stop: int) -> list[Range]:
    return [(max(a, start), min(b, stop)) for a, b in snapshot.lost if a < stop and b > start]


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
        found = stateOf(self.options, oneName(self.options))
        return StoredRange(logOf(found, self.options), found.first, found.stop)

    def batches(self, bounds: SequenceRange, onLost: OnLost = lambda lost: None) -> Iterator[Any]:
        """
        The messages of a range, in Arrow batches with the columns of archives.

        @param onLost: called with ranges that are not stored any more.
        """

        def onLoss(loss: Loss) -> None:
            for each in loss.ranges:
                onLost(each)

        options = {**self.options, "failOnDataLoss": False}
        return batchesOf(options, COLUMNS, bounds, onLoss=onLoss)

    def now(self) -> LogOrigin:
        """
        The same with what came since it was made.
        """
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
        for each in lostIn(self.snapshot, bounds.start, bounds.stop):
            onLost(each)
        for tile in self.snapshot.tiles:
            if tile.start < bounds.stop and tile.stop > bounds.start:
                for batch in readFiles(self.root, tile.files):
                    yield from pa.Table.from_batches([batch]).filter(isWanted).to_batches()

    def now(self) -> ArchiveOrigin:
        return replace(self, snapshot=tableAt(self.root).require())


#: Where a job has its messages from.
Origin = LogOrigin | ArchiveOrigin
