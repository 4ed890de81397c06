"""
Following a log with tables: what is next, who does it, and what came of it.

Each table has its own log, and what is next begins where the one that is furthest behind
stops. Ranges end where others stop, so that they go on together from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from natsbroker.spark.codecs.datatypes import TIMESTAMP, Clash, checkNames, ddlText, nullable
from natsbroker.spark.codecs.mappings import PayloadMapping, codecOf
from natsbroker.spark.errors import DataLoss, OptionError
from natsbroker.spark.jobs.archive.archiver import FilePlan, LogFollower, checkLog
from natsbroker.spark.jobs.archive.origins import ArchiveOrigin, Origin, StoredRange
from natsbroker.spark.jobs.common import Runner, inline
from natsbroker.spark.jobs.decode.ranges import (
    COORDINATES,
    DEAD,
    DecodePlan,
    DecodeResult,
    decodeRange,
)
from natsbroker.spark.tables.checking import STORED
from natsbroker.spark.tables.delta import DeltaLakeTable
from natsbroker.spark.tables.locations import locationOf
from natsbroker.spark.tables.snapshots import TableSnapshot, joined

_TYPES = {"seq": pa.int64(), "subject": pa.string(), "time": TIMESTAMP}

#: The columns of dead letters, which are archives too.
_DEAD = pa.schema([*STORED, *(pa.field(each, pa.string()) for each in DEAD)])


@dataclass(frozen=True)
class TableOptions:
    """
    @ivar prefix: what stands before the names of the columns C{seq}, C{subject} and C{time}.
    @ivar areOthersKept: whether messages that no mapping is for become dead letters.
    """

    prefix: str = ""
    areOthersKept: bool = True


class TableDecoder(LogFollower):
    """
    Decodes one log into tables.

    @ivar added: how many rows this decoder has added, by the names of tables.
    @ivar ignored: how many messages it has passed over.
    @ivar dead: how many dead letters it has added.
    @ivar first: the first of these, if there is one: its sequence and reason.
    @ivar clashes: why a table cannot take what its schema decodes, by the names of tables.
    """

    def __init__(
        self,
        origin: Origin,
        root: str,
        mappings: Sequence[PayloadMapping],
        options: TableOptions | None = None,
        run: Runner = inline,
        plan: FilePlan | None = None,
    ) -> None:
        super().__init__(run, plan)
        self.added: dict[str, int] = {}
        self.ignored = self.dead = 0
        self.first: tuple[int, str] | None = None
        self.clashes: dict[str, str] = {}
        self._origin = origin
        self._root = locationOf(root)
        self._options = options or TableOptions()
        self._mappings = tuple(mappings)
        self._columns = [self._columnsOf(each) for each in mappings]
        self._tables: dict[str, DeltaLakeTable] = {}

    def once(self) -> int:
        """
        Decode what there is now.

        @return: where the tables stop then.
        @raise DataLoss: if the log is another one than that of a table.
        """
        self._origin = self._origin.now()
        state = self._origin.state()
        decodePlan = self._prepared(state)
        while True:
            snapshots = {name: table.require() for name, table in self._tables.items()}
            start = min(each.stop for each in snapshots.values())
            if start >= state.stop or self.isOver():
                return start
            stops = [each.stop for each in snapshots.values() if each.stop > start]
            self._advance(decodePlan, snapshots, start, min([*stops, state.stop]))
            self.onProgress(min(each.require().stop for each in self._tables.values()), state.stop)

    def hasBegun(self) -> bool:
        return any(each.latest() is not None for each in self._tables.values())

    def summary(self) -> dict[str, Any]:
        found = [each.latest() for each in self._tables.values()]
        stops = [each.stop for each in found if each is not None]
        summary: dict[str, Any] = {
            "tables": dict(sorted(self.added.items())),
            "stop": min(stops, default=None),
            "dead": self.dead,
            "ignored": self.ignored,
            "lost": [list(each) for each in joined(self.lost)],
        }
        if self.first is not None:
            summary["first"] = {"seq": self.first[0], "reason": self.first[1]}
        if self.clashes:
            summary["clashes"] = self.clashes
        return summary

    def _columnsOf(self, mapping: PayloadMapping) -> Any:
        fields = [pa.field(self._options.prefix + name, _TYPES[name]) for name in COORDINATES]
        names = {each.name.lower() for each in fields}
        columns = codecOf(mapping).columns
        for each in columns:
            if each.name.lower() in names:
                raise OptionError(
                    f"schema: {mapping.text} has a column {each.name}, as each table has: say"
                    " --prefix, for the names of those"
                )
        found = pa.schema([*fields, *columns])
        checkNames(found)
        return found

    def _prepared(self, state: StoredRange) -> DecodePlan:
        columns: list[str] = []
        clashes: list[str] = []
        decodePlan = DecodePlan(self._root, self._mappings, (), (), **vars(self._options))
        for target in decodePlan.targets():
            table = self._tables[target.name] = DeltaLakeTable(self._root / target.name)
            self.added.setdefault(target.name, 0)
            table.make()
            wanted = _DEAD if target.isDead else self._columns[target.place]
            self._follow(table, state, wanted)
            if target.isDead:
                continue
            clash = ""
            try:
                wanted = table.widen(wanted)
            except Clash as error:
                self.clashes[target.name] = clash = str(error)
            columns.append(ddlText(pa.schema(list(wanted)[len(COORDINATES) :])))
            clashes.append(clash)
        return replace(decodePlan, columns=tuple(columns), clashes=tuple(clashes))

    def _follow(self, table: DeltaLakeTable, state: StoredRange, columns: Any) -> None:
        snapshot = table.latest()
        if snapshot is None:
            nullables = [pa.field(each.name, nullable(each.type)) for each in columns]
            table.create(TableSnapshot.first(state.log, state.start), pa.schema(nullables))
            snapshot = table.require()
        checkLog(table, snapshot, state.log)
        if isinstance(self._origin, ArchiveOrigin) and snapshot.stop < state.start:
            raise DataLoss(
                f"{table.root} stops at {snapshot.stop}, and the archive begins at {state.start}"
            )

    def _advance(
        self, decodePlan: DecodePlan, snapshots: dict[str, TableSnapshot], start: int, end: int
    ) -> None:
        targets = tuple(x for x in decodePlan.targets() if snapshots[x.name].stop == start)
        log = snapshots[targets[0].name].log
        ranges = self._plan.ranges(log, start, end)
        work = partial(decodeRange, self._origin, decodePlan, targets)
        done: list[DecodeResult] = self._run(work, ranges)
        lost = [each for decoded in done for each in decoded.lost]
        self.ignored += sum(each.ignored for each in done)
        for target in targets:
            files = [file for each in done for file in each.files[target.name]]
            table, snapshot = self._tables[target.name], snapshots[target.name]
            if not table.append(snapshot, files, lost, ranges[-1].stop):
                continue
            rows = sum(each.rows for each in files)
            self.rows += rows
            self.added[target.name] += rows
            self.bytes += sum(each.bytes for each in files)
            self.dead += rows if target.isDead else 0
            self.lost += lost
        if self.dead and self.first is None:
            self.first = next(filter(None, (each.first for each in done)), None)
