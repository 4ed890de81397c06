"""
Decoding a log: from messages to tables with columns, each message exactly once. Each mapping has a
table, and a table of dead letters with the error, the bytes and the place. L{LogFollower} makes the
tables, as it does archives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from natsbroker.spark.codecs.datatypes import TIMESTAMP, Clash, nullable
from natsbroker.spark.codecs.decoding import decodedOr, structsOf
from natsbroker.spark.codecs.mappings import DLQ, OTHERS, PayloadMapping, codecOf, placeOf
from natsbroker.spark.codecs.payloads import BadPayload
from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.archive.archiver import (
    CopyResult,
    FilePlan,
    LogFollower,
    Origin,
    StoredRange,
)
from natsbroker.spark.jobs.common import Runner, inline
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.tables.delta import DeltaLakeTable
from natsbroker.spark.tables.locations import Location, locationOf
from natsbroker.spark.tables.parquet import STORED, FileWriter, withChecksums
from natsbroker.spark.tables.snapshots import Range, TableSnapshot, joined

#: The columns that each row has of its message.
_COORDINATES = {"seq": pa.int64(), "subject": pa.string(), "time": TIMESTAMP}

#: The columns of dead letters, which are archives too.
_DEAD = pa.schema([*STORED, *((name, pa.string()) for name in ("stream", "reason", "schema"))])

#: The most rows and bytes that become columns at a time.
_ROWS, _BYTES = 1024, 1 << 20

#: The most values in columns of the rows decoded at a time, and of one payload.
_CELLS, _MOST_CELLS = 1 << 20, 1 << 23

#: The most characters of a reason.
_REASON = 500

#: The number of subjects that are remembered with their mappings.
_SUBJECTS = 65_536


#: By their names, whose tables they are, by the places of mappings, and whether for dead letters.
Targets = Mapping[str, tuple[int, bool]]


@dataclass(frozen=True)
class TableOptions:
    """
    @ivar prefix: of the columns C{seq}, C{subject} and C{time}.
    @ivar areOthersKept: whether messages without a mapping become dead letters.
    """

    prefix: str = ""
    areOthersKept: bool = True


@dataclass(frozen=True)
class DecodePlan:
    """
    The plan of a job; it passes to workers.

    @ivar columns: of the table of each mapping, without those of its message.
    @ivar clashes: the reasons why tables cannot take decoded values, by their names.
    """

    root: Location
    mappings: tuple[PayloadMapping, ...]
    columns: tuple[Any, ...] = ()
    clashes: Mapping[str, str] = field(default_factory=dict)
    options: TableOptions = TableOptions()

    def targets(self) -> Targets:
        targets = {mapping.table: (place, False) for place, mapping in enumerate(self.mappings)}
        targets |= {name + DLQ: (place, True) for name, (place, _) in targets.items()}
        return targets | ({OTHERS + DLQ: (-1, True)} if self.options.areOthersKept else {})


class TableDecoder(LogFollower):
    """
    @ivar first: the sequence and reason of the first dead letter, if there is one.
    @ivar clashes: the reasons why tables cannot take decoded values, by their names.
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
        self.ignored = 0
        self.first: tuple[int, str] | None = None
        self.clashes: dict[str, str] = {}
        self._decoding = DecodePlan(
            locationOf(root), tuple(mappings), options=options or TableOptions()
        )
        self._columns = [self._columnsOf(mapping) for mapping in mappings]
        self._targets = self._decoding.targets()
        self._delta = {
            target: DeltaLakeTable(self._decoding.root / target) for target in self._targets
        }
        super().__init__(origin, self._delta, run, plan)

    @property
    def dead(self) -> int:
        return sum(self.added[name] for name, (_, isDead) in self._targets.items() if isDead)

    def once(self) -> int:
        return min(snapshot.stop for snapshot in self.follow().values())

    def summary(self) -> dict[str, Any]:
        snapshots = [table.latest(hasFiles=False) for table in self._delta.values()]
        stops = [snapshot.stop for snapshot in snapshots if snapshot is not None]
        summary: dict[str, Any] = {
            "tables": dict(sorted(self.added.items())),
            "stop": min(stops, default=None),
            "dead": self.dead,
            "ignored": self.ignored,
            "lost": [list(stretch) for stretch in joined(self.lost)],
        }
        if self.first is not None:
            summary["first"] = {"seq": self.first[0], "reason": self.first[1]}
        if self.clashes:
            summary["clashes"] = self.clashes
        return summary

    def _columnsOf(self, mapping: PayloadMapping) -> Any:
        prefix = self._decoding.options.prefix
        fields = [pa.field(prefix + name, kind) for name, kind in _COORDINATES.items()]
        names = {field_.name.lower() for field_ in fields}
        for column in codecOf(mapping).columns:
            if column.name.lower() in names:
                raise OptionError(
                    f"schema: {mapping.text} has a column {column.name}, and so has each table:"
                    " rename the table's with --prefix"
                )
            fields.append(pa.field(column.name, nullable(column.type)))
        return pa.schema(fields)

    def _begin(self, state: StoredRange) -> dict[str, TableSnapshot]:
        snapshots = super()._begin(state)
        columns = []
        for mapping, wanted in zip(self._decoding.mappings, self._columns, strict=True):
            try:
                wanted = self._delta[mapping.table].widen(wanted)
            except Clash as error:
                self.clashes[mapping.table] = str(error)
            columns.append(pa.struct(list(wanted)[len(_COORDINATES) :]))
        self._decoding = replace(self._decoding, columns=tuple(columns), clashes=self.clashes)
        return snapshots

    def _create(self, name: str, first: TableSnapshot) -> None:
        place, isDead = self._targets[name]
        self._delta[name].create(first, _DEAD if isDead else self._columns[place])

    def _copier(self, behind: Mapping[str, TableSnapshot]) -> Callable[[SequenceRange], CopyResult]:
        targets = {name: self._targets[name] for name in behind}
        return partial(decodeRange, self.origin, self._decoding, targets)

    def _advance(self, behind: Mapping[str, TableSnapshot], end: int) -> list[CopyResult]:
        done = super()._advance(behind, end)
        self.ignored += sum(result.ignored for result in done)
        if self.dead and self.first is None:
            self.first = next(filter(None, (result.first for result in done)), None)
        return done


def decodeRange(
    origin: Origin, plan: DecodePlan, targets: Targets, bounds: SequenceRange
) -> CopyResult:
    lost: list[Range] = []
    ignored = 0
    placed = lru_cache(_SUBJECTS)(partial(placeOf, plan.mappings))
    tasks = {place: _MappingTask(plan, place, bounds.stream) for place, _ in targets.values()}
    writers = {}
    for name, (place, isDead) in targets.items():
        seq = "seq" if isDead else f"{plan.options.prefix}seq"
        writers[name] = FileWriter(plan.root / name, bounds.start, seq=seq)
        tasks[place].writers[isDead] = writers[name]
    try:
        for batch in origin.batches(bounds, lost.append):
            for piece in _pieces(batch):
                columns = [piece.column(name).to_pylist() for name in ("subject", "data")]
                for number, (subject, data) in enumerate(zip(*columns, strict=True)):
                    place = placed(subject)
                    if place in tasks:
                        tasks[place].decode(piece, number, data)
                    else:
                        ignored += place < 0 and not plan.options.areOthersKept
                for task in tasks.values():
                    task.write(piece)
        files = {name: writer.finish() for name, writer in writers.items()}
    except BaseException:
        for writer in writers.values():
            writer.abandon()
        raise
    firsts = (task.first for task in tasks.values())
    return CopyResult(files, lost, ignored, min(filter(None, firsts), default=None))


class _MappingTask:
    """Writes the messages of one mapping, or of none. C{writers[True]} is for dead letters."""

    def __init__(self, plan: DecodePlan, place: int, stream: str) -> None:
        self.writers: dict[bool, FileWriter] = {}
        self.first: tuple[int, str] | None = None
        self._prefix = plan.options.prefix
        self._stream = stream
        self._why = "there is no schema for its subject"
        self._schema = None
        if place >= 0:
            mapping, self._type = plan.mappings[place], plan.columns[place]
            clash = plan.clashes.get(mapping.table)
            self._why = f"the schema does not fit the table: {clash}" if clash else ""
            self._schema = mapping.text
            self._codec = codecOf(mapping)
            self._shape = shapeOf(self._type)
        # Places in the batch, and what was decoded, or the reasons.
        self._good: list[tuple[int, Any]] = []
        self._dead: list[tuple[int, str]] = []
        self._cells = 0

    def decode(self, batch: Any, number: int, data: bytes) -> None:
        decoded, reason = decodedOr(self._row, data)
        if reason is None:
            row, cells = decoded
            self._cells += cells
            self._good.append((number, row))
        else:
            self._dead.append((number, reason))
        if self._cells >= _CELLS:
            self.write(batch)

    def _row(self, data: bytes) -> tuple[Any, int]:
        """The value of a payload, and the number of values that its arrays take in columns."""
        if self._why:
            raise BadPayload(self._why)
        row = self._codec.decode(data)
        cells = cellsIn(row, self._shape) if self._shape else 0
        if cells > _MOST_CELLS:
            raise BadPayload(f"its arrays take {cells} values in columns: {_MOST_CELLS} at most")
        return row, cells

    def write(self, batch: Any) -> None:
        good, dead = self._good, self._dead
        self._good, self._dead, self._cells = [], [], 0
        if good:
            structs, untaken = structsOf([row for _, row in good], self._type)
            if untaken:
                structs = structs.filter(structs.is_valid())
                dead += [(good[x][0], reason) for x, reason in untaken.items()]
                good = [row for x, row in enumerate(good) if x not in untaken]
        if good and False in self.writers:
            numbers = pa.array([number for number, _ in good], pa.int64())
            arrays = [batch.column(column).take(numbers) for column in _COORDINATES]
            names = [self._prefix + column for column in _COORDINATES]
            names += [member.name for member in structs.type]
            self.writers[False].add(pa.record_batch([*arrays, *structs.flatten()], names))
        if dead and True in self.writers:
            self.writers[True].add(self._letters(batch, sorted(dead)))

    def _letters(self, batch: Any, dead: list[tuple[int, str]]) -> Any:
        reasons = [reason[:_REASON] for _, reason in dead]
        rows = withChecksums(batch.take(pa.array([number for number, _ in dead], pa.int64())))
        if self.first is None:
            self.first = rows.column("seq")[0].as_py(), reasons[0]
        more = ([self._stream] * len(dead), reasons, [self._schema] * len(dead))
        texts = [pa.array(column, pa.string()) for column in more]
        return pa.record_batch([*rows.columns, *texts], _DEAD.names)


def _pieces(batch: Any) -> Iterator[Any]:
    start = size = 0
    for number, length in enumerate(pc.binary_length(batch.column("data")).to_pylist()):
        if number > start and (number - start >= _ROWS or size + length > _BYTES):
            yield batch.slice(start, number - start)
            start, size = number, 0
        size += length
    if start < batch.num_rows:
        yield batch.slice(start)


#: The most columns of items that count as in proportion.
_FEW = 8


def shapeOf(kind: Any) -> Any:
    """
    The parts of a type that may have many more values in columns than its payload has bytes.

    @return: for a struct, the shapes of such fields; for an array or a map, the number of columns
        of an item, the item's shape, and whether it is a map; C{None} if there are no such parts.
    """
    if pa.types.is_struct(kind):
        return {member.name: shape for member in kind if (shape := shapeOf(member.type))} or None
    isMap = pa.types.is_map(kind)
    if not isMap and not pa.types.is_list(kind):
        return None
    item = kind.item_type if isMap else kind.value_type
    width, inner = _width(item), shapeOf(item)
    return (width, inner, isMap) if inner or width > _FEW else None


def cellsIn(value: Any, shape: Any) -> int:
    if value is None:
        return 0
    if type(shape) is dict:
        return sum([cellsIn(value.get(name), part) for name, part in shape.items()])
    width, inner, isMap = shape
    count: int = width * len(value)
    if inner is not None:
        count += sum(cellsIn(item, inner) for item in (dict(value).values() if isMap else value))
    return count


def _width(kind: Any) -> int:
    """The number of columns beneath an item, without those of arrays in it."""
    return 1 + sum(_width(member.type) for member in kind) if pa.types.is_struct(kind) else 1
