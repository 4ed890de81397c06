"""
Decoding a log: from messages to tables with columns, each message exactly once.

Each mapping has a table, and a table of dead letters with what is wrong with a payload, its bytes
and its place. A table is made as an archive is: files for ranges of sequences, and a log that is
the checkpoint. So any number of jobs may run, and die.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from natsbroker.spark.codecs.datatypes import readSchema
from natsbroker.spark.codecs.decoding import decodedOr, structsOf
from natsbroker.spark.codecs.mappings import DLQ, OTHERS, PayloadMapping, codecOf, placeOf
from natsbroker.spark.codecs.payloads import BadPayload
from natsbroker.spark.jobs.archive.origins import Origin
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.tables.checking import withChecksums
from natsbroker.spark.tables.filing import FileWriter
from natsbroker.spark.tables.locations import Location
from natsbroker.spark.tables.snapshots import File, Range

#: What each row has of its message, and what dead letters have beside the columns of archives.
COORDINATES = ("seq", "subject", "time")
DEAD = ("stream", "reason", "schema")

#: How many rows and bytes become columns at a time.
_ROWS, _BYTES = 1024, 1 << 20

#: What decoded rows may take as columns at a time, and what one payload may, in values.
_CELLS, _MOST_CELLS = 1 << 20, 1 << 23

#: How long a reason is at most.
_REASON = 500

#: How many subjects are remembered with their mappings.
_SUBJECTS = 65_536


@dataclass(frozen=True)
class DecodedTable:
    name: str
    place: int
    isDead: bool


@dataclass(frozen=True)
class DecodePlan:
    """
    What a job does; it passes to workers.

    @ivar columns: of the table of each mapping, in Spark's language, without the coordinates.
    @ivar clashes: for each mapping, why its table cannot take what it decodes; empty if it can.
    @ivar prefix: what stands before the names of the coordinates.
    @ivar areOthersKept: whether messages without a mapping become dead letters.
    """

    root: Location
    mappings: tuple[PayloadMapping, ...]
    columns: tuple[str, ...]
    clashes: tuple[str, ...]
    prefix: str = ""
    areOthersKept: bool = True

    def targets(self) -> tuple[DecodedTable, ...]:
        found = []
        for place, each in enumerate(self.mappings):
            found.append(DecodedTable(each.table, place, False))
            found.append(DecodedTable(each.table + DLQ, place, True))
        if self.areOthersKept:
            found.append(DecodedTable(OTHERS + DLQ, -1, True))
        return tuple(found)


@dataclass(frozen=True)
class DecodeResult:
    """
    @ivar files: the range in files, by the names of the tables.
    @ivar lost: what was not stored any more.
    @ivar ignored: how many messages had no mapping and no table.
    @ivar first: the first dead letter, if there is one: its sequence and reason.
    """

    files: dict[str, list[File]]
    lost: tuple[Range, ...]
    ignored: int
    first: tuple[int, str] | None


def decodeRange(
    origin: Origin, plan: DecodePlan, targets: tuple[DecodedTable, ...], bounds: SequenceRange
) -> DecodeResult:
    lost: list[Range] = []
    task = _Task(plan, targets, bounds)
    try:
        for batch in origin.batches(bounds, lost.append):
            for piece in _pieces(batch):
                task.decode(piece)
        files = {each.name: task.writers[each.place, each.isDead].finish() for each in targets}
        return DecodeResult(files, tuple(lost), task.ignored, task.first)
    except BaseException:
        for each in task.writers.values():
            each.abandon()
        raise


@dataclass
class _Rows:
    """
    @ivar good: the places in the batch, and what was decoded.
    @ivar dead: the places, and the reasons.
    @ivar cells: how many values the former are, beneath arrays.
    """

    good: list[tuple[int, Any]] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    cells: int = 0


class _Task:
    """
    @ivar writers: by the place of the mapping, and whether they are for dead letters.
    """

    def __init__(
        self, plan: DecodePlan, targets: tuple[DecodedTable, ...], bounds: SequenceRange
    ) -> None:
        self.ignored = 0
        self.first: tuple[int, str] | None = None
        self.writers: dict[tuple[int, bool], FileWriter] = {}
        for each in targets:
            seq = "seq" if each.isDead else f"{plan.prefix}seq"
            writer = FileWriter(plan.root / each.name, bounds.start, seq=seq)
            self.writers[each.place, each.isDead] = writer
        self._plan = plan
        self._stream = bounds.stream
        self._codecs = [codecOf(each) for each in plan.mappings]
        self._types = [pa.struct(list(readSchema(x)) if x else []) for x in plan.columns]
        self._cells = [cellsOf(each) for each in self._types]
        self._place = lru_cache(_SUBJECTS)(lambda subject: placeOf(plan.mappings, subject))
        self._wanted = {each.place for each in targets}

    def decode(self, batch: Any) -> None:
        found: dict[int, _Rows] = {}
        columns = [batch.column(each).to_pylist() for each in ("subject", "data")]
        for number, (subject, data) in enumerate(zip(*columns, strict=True)):
            place = self._place(subject)
            if place not in self._wanted:
                self.ignored += place < 0 and not self._plan.areOthersKept
                continue
            rows = found.setdefault(place, _Rows())
            decoded, reason = decodedOr(partial(self._row, place), data)
            if reason is None:
                row, cells = decoded
                rows.cells += cells
                rows.good.append((number, row))
            else:
                rows.dead.append((number, reason))
            if rows.cells >= _CELLS:
                self._write(batch, place, found.pop(place))
        for place, rows in found.items():
            self._write(batch, place, rows)

    def _row(self, place: int, data: bytes) -> tuple[Any, int]:
        """
        @return: what a payload is, and how many values that is beneath arrays.
        """
        if place < 0:
            raise BadPayload("no schema is for its subject")
        clash = self._plan.clashes[place]
        if clash:
            raise BadPayload(f"the schema does not go with the table: {clash}")
        row = self._codecs[place].decode(data)
        count = self._cells[place]
        cells = 0 if count is None else count(row)
        if cells > _MOST_CELLS:
            raise BadPayload(f"its arrays take {cells} values in columns: {_MOST_CELLS} at most")
        return row, cells

    def _write(self, batch: Any, place: int, rows: _Rows) -> None:
        if rows.good:
            structs, untaken = structsOf([row for _, row in rows.good], self._types[place])
            if untaken:
                structs = structs.filter(structs.is_valid())
                rows.dead += [(rows.good[x][0], reason) for x, reason in untaken.items()]
                rows.good = [each for x, each in enumerate(rows.good) if x not in untaken]
            writer = self.writers.get((place, False))
            if writer is not None and rows.good:
                numbers = pa.array([number for number, _ in rows.good], pa.int64())
                arrays = [batch.column(each).take(numbers) for each in COORDINATES]
                names = [self._plan.prefix + each for each in COORDINATES]
                names += [each.name for each in structs.type]
                writer.add(pa.record_batch([*arrays, *structs.flatten()], names))
        writer = self.writers.get((place, True))
        if writer is not None and rows.dead:
            writer.add(self._letters(batch, place, sorted(rows.dead)))

    def _letters(self, batch: Any, place: int, dead: list[tuple[int, str]]) -> Any:
        schema = self._plan.mappings[place].text if place >= 0 else None
        reasons = [each[:_REASON] for _, each in dead]
        rows = withChecksums(batch.take(pa.array([number for number, _ in dead], pa.int64())))
        if self.first is None:
            self.first = rows.column("seq")[0].as_py(), reasons[0]
        more = ([self._stream] * len(dead), reasons, [schema] * len(dead))
        texts = [pa.array(each, pa.string()) for each in more]
        return pa.record_batch([*rows.columns, *texts], [*rows.schema.names, *DEAD])


def _pieces(batch: Any) -> Iterator[Any]:
    start = size = 0
    for number, each in enumerate(pc.binary_length(batch.column("data")).to_pylist()):
        if number > start and (number - start >= _ROWS or size + each > _BYTES):
            yield batch.slice(start, number - start)
            start, size = number, 0
        size += each
    if start < batch.num_rows:
        yield batch.slice(start)


#: The most columns of items that count as in proportion.
_FEW = 8

Count = Callable[[Any], int]


def cellsOf(kind: Any) -> Count | None:
    """
    What counts the places that a value takes in the columns beneath arrays and maps.

    @param kind: its Arrow type.
    @return: C{None} if that is in proportion to its payload.
    """
    if pa.types.is_struct(kind):
        needed = [(each.name, count) for each in kind if (count := cellsOf(each.type)) is not None]

        def beneathFields(found: Any) -> int:
            return sum(count(found[x]) for x, count in needed if found.get(x) is not None)

        return beneathFields if needed else None
    isMap = pa.types.is_map(kind)
    if not isMap and not pa.types.is_list(kind):
        return None
    item = kind.item_type if isMap else kind.value_type
    width, inner = _width(item), cellsOf(item)
    if inner is None:
        return None if width <= _FEW else lambda found: width * len(found)
    count = inner

    def beneathItems(found: Any) -> int:
        items = dict(found).values() if isMap else found
        return width * len(found) + sum(count(x) for x in items if x is not None)

    return beneathItems


def _width(kind: Any) -> int:
    """
    How many columns there are beneath an item, without those of arrays in it.
    """
    if pa.types.is_struct(kind):
        return 1 + sum(_width(each.type) for each in kind)
    return 1
