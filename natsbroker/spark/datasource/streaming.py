"""Reading of streams or channels in a streaming query: ranges of sequences, by micro-batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from natsbroker.spark.datasource.offsets import (
    advance,
    offsetOf,
    present,
    rangesBetween,
    readOffset,
)
from natsbroker.spark.datasource.tasks import batchesOf, connected, peerOf
from natsbroker.spark.datasource.workers import freezeModules
from natsbroker.spark.errors import ApiError, ConnectionFailed, LogGone, OptionError, TimedOut
from natsbroker.spark.logs import planning
from natsbroker.spark.logs.apis import StreamState
from natsbroker.spark.logs.planning import checkedPatterns, checkReadable, planStarts, split
from natsbroker.spark.logs.wholeranges import Loss, SequenceRange, logLoss, planned
from natsbroker.spark.nats.connection import BlockingConnection

try:  # Since PySpark 4.2.
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ModuleNotFoundError:
    SupportsTriggerAvailableNow = object

_Result = TypeVar("_Result")

#: Spark passes the place of a query to C{latestOffset} since 4.2.
PASSES_START = hasattr(DataSourceStreamReader, "getDefaultReadLimit")

#: Codes while JetStream or the channels are not there yet, and the seconds until the next request.
_NOT_YET, _PAUSE = (503, 10008), 0.25


class RangePartition(InputPartition):
    def __init__(self, bounds: SequenceRange, patterns: tuple[str, ...]) -> None:
        super().__init__(bounds.start)
        self.bounds = bounds
        self.patterns = patterns


class RangedReader:
    """The common part of batches and streaming queries. It passes to workers as it is."""

    def __init__(self, columns: tuple[str, ...], options: dict[str, Any]) -> None:
        self._columns = columns
        self._options = options
        self._names = planning.checkedNames(options)
        peerOf(options)  # Raises errors here, and not in a task.
        self._patterns = checkedPatterns(options["subject"])

    def _pieces(self, ranges: Sequence[SequenceRange]) -> list[SequenceRange]:
        sizes = ("minPartitions", "maxRowsPerPartition", "parallelism")
        return split(ranges, *(self._options[size] for size in sizes))

    def read(self, partition: Any) -> Iterator[Any]:
        freezeModules()
        yield from batchesOf(self._options, self._columns, partition.bounds, partition.patterns)


class StreamReader(RangedReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """
    Plans micro-batches in one process, with one connection as long as the query runs. Workers get a
    copy without the connection, and read the ranges.
    """

    def __init__(self, columns: tuple[str, ...], options: dict[str, Any]) -> None:
        if options["maxOffsetsPerTrigger"] and options["maxBytesPerTrigger"]:
            raise OptionError("maxOffsetsPerTrigger and maxBytesPerTrigger exclude each other")
        if 0 < options["maxOffsetsPerTrigger"] < options["minOffsetsPerTrigger"]:
            raise OptionError("minOffsetsPerTrigger is more than maxOffsetsPerTrigger")
        super().__init__(columns, options)
        self._word = "channel" if options["channel"] else "stream"
        names = [options["streamPattern"]] if options["streamPattern"] else sorted(self._names)
        self._reads = {self._word: names, "subject": sorted(self._patterns)}
        self._hasPatterns = planning.hasPatterns(options)
        # A stream that was named is the query; one that a pattern matched is one of many.
        self._mayLeave = self._hasPatterns and not options["failOnDataLoss"]
        self._connection: BlockingConnection | None = None
        self._states: dict[str, StreamState] = {}
        self._asked = float("-inf")
        self._target: dict[str, StreamState] | None = None
        self._triggered = float("-inf")
        self._planned: Mapping[str, tuple[str, int]] = {}
        self._bytes = self._reconnects = 0
        self._wasConnected = False

    def _offset(self, places: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
        return {**offsetOf(places), "reads": self._reads}

    def _placesIn(self, offset: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
        mayChange = self._options["allowCheckpointChange"]
        names = None if self._hasPatterns or mayChange else self._names
        places = readOffset(offset, names, self._word)
        if mayChange:
            return {x: place for x, place in places.items() if planning.selects(self._options, x)}
        # Earlier versions did not store it.
        for kind, given in offset.get("reads", self._reads).items():
            if given != self._reads.get(kind):
                raise OptionError(
                    f"{kind}: the checkpoint is of {', '.join(given) or 'all'}, and the query reads"
                    f" {', '.join(self._reads.get(kind) or ()) or 'all'}: earlier messages would"
                    " be missing; allowCheckpointChange=true continues without them"
                )
        return places

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None, "_states": {}, "_target": None}

    def initialOffset(self) -> dict[str, Any]:
        ranges = self._patiently(lambda logs: planStarts(logs, self._options))
        target = self._target
        if target is not None and any(
            x.stream not in target or target[x.stream].stop < x.start for x in ranges
        ):
            # The newest messages, or streams, came after the end of the query was set.
            self._asked = float("-inf")
            self._target = self._current()
        return self._offset(
            {stretch.stream: (stretch.created, stretch.start) for stretch in ranges}
        )

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

        if self._options["maxOffsetsPerTrigger"]:
            return ReadMaxRows(self._options["maxOffsetsPerTrigger"])
        size = self._options["maxBytesPerTrigger"]
        return ReadMaxBytes(size) if size else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        kind = type(limit).__name__
        if kind not in ("ReadMaxRows", "ReadMaxBytes", "ReadAllAvailable"):
            raise OptionError(f"{kind} is not supported yet")
        return self._next(start, getattr(limit, "max_rows", 0), getattr(limit, "max_bytes", 0))

    def _next(self, start: dict[str, Any], rows: int, size: int) -> dict[str, Any]:
        states = self._target if self._target is not None else self._current()
        onGone = logLoss if self._mayLeave else None
        places = present(self._placesIn(start), states, onGone, self._word)
        reached = advance(places, states, rows, size, self._word)
        lag = sum(states[name].stop - seq for name, (_, seq) in places.items())
        if self._waits(lag):
            return self._offset(places)
        if reached != self._planned:
            self._bytes += sum(
                (reached[name][1] - seq) * states[name].size // max(states[name].messages, 1)
                for name, (_, seq) in places.items()
            )
            self._planned = reached
        return self._offset(reached)

    def _waits(self, lag: int) -> bool:
        now = time.monotonic()
        isLittle = 0 < lag < self._options["minOffsetsPerTrigger"] and self._target is None
        if isLittle and now - self._triggered < self._options["maxTriggerDelay"]:
            return True
        if lag:
            self._triggered = now
        return False

    def reportLatestOffset(self) -> dict[str, Any]:
        """The ends of the streams, with numbers for operators: for display, not to read from."""
        states = self._current().values()
        ends = self._offset({x.name: (x.created, x.stop) for x in states})
        lags = {x.name: x.stop - self._planned.get(x.name, ("", x.first))[1] for x in states}
        return {**ends, "lag": lags, "bytes": self._bytes, "reconnects": self._reconnects}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._current()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        places = self._placesIn(start), self._placesIn(end)
        states = self._current()
        ranges = []
        for stretch in rangesBetween(*places, self._word, self._mayLeave):
            state = states.get(stretch.stream)
            if state is not None and state.created == stretch.created:
                stretch = planned(state, stretch.start, stretch.stop)
            ranges.append(stretch)
        return [RangePartition(piece, self._patterns) for piece in self._pieces(ranges)]

    def read(self, partition: Any) -> Iterator[Any]:
        try:
            yield from super().read(partition)
        except LogGone as gone:
            if not self._mayLeave:
                raise
            logLoss(Loss(str(gone)))

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _current(self) -> dict[str, StreamState]:
        """
        The present streams, or those of a moment ago: an idle query asks more than a hundred times
        a second.
        """
        if time.monotonic() - self._asked >= self._options["pollInterval"]:
            self._states = self._patiently(self._ask)
            self._asked = time.monotonic()
        return self._states

    def _ask(self, logs: planning.Logs) -> dict[str, StreamState]:
        states = {}
        for name in logs.names(self._names):
            try:
                states[name] = logs.state(name)
                if self._hasPatterns and name not in self._states:
                    checkReadable(logs, states[name], self._options)
            except ApiError as error:
                if not planning.isMissing(error):
                    raise
                if name in self._names:
                    raise LogGone(f"{error}: it was there when the query began") from None
        return states

    def _patiently(self, ask: Callable[[planning.Logs], _Result]) -> _Result:
        """Ask over the connection, or a new one, for as long as C{reconnectTimeout}."""
        deadline = time.monotonic() + self._options["reconnectTimeout"]
        while True:
            try:
                if self._connection is None:
                    self._connection = connected(self._options)
                    self._reconnects += self._wasConnected
                    self._wasConnected = True
                return ask(planning.logsOf(self._connection, self._options))
            except (ConnectionFailed, TimedOut, ApiError) as error:
                if isinstance(error, ApiError) and error.code not in _NOT_YET:
                    raise
                self.stop()
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)


class EarlierStreamReader(StreamReader):
    """
    The reader for Spark 4.0 and 4.1, which do not tell the present offset of a query. It is the
    last offset that this reader returned. The first offset has no limit unless Spark asked for the
    initial one before. Spark does not ask for it if a query continues from a checkpoint, nor with
    the trigger C{availableNow}, which takes the first offset for the last.
    """

    def __init__(self, columns: tuple[str, ...], options: dict[str, Any]) -> None:
        super().__init__(columns, options)
        self._place: dict[str, Any] | None = None
        if self._hasPatterns or options["allowCheckpointChange"]:
            name = "allowCheckpointChange" if options["allowCheckpointChange"] else "patterns"
            raise OptionError(
                f"{name}: streaming queries have that with PySpark 4.2 or later, and this is"
                f" {pyspark.__version__}"
            )

    def initialOffset(self) -> dict[str, Any]:
        self._place = super().initialOffset()
        return self._place

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:
        if self._place is None:
            states = self._current()
            self._place = self._offset({x.name: (x.created, x.stop) for x in states.values()})
        else:
            options = self._options
            rows, size = options["maxOffsetsPerTrigger"], options["maxBytesPerTrigger"]
            self._place = self._next(self._place, rows, size)
        return self._place

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        partitions = super().partitions(start, end)
        if self._place is not None:
            self._place = end
        return partitions
