"""
The data source C{natsbroker} on PySpark's Python Data Source API.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from natsbroker.spark.datasource.pushdown import PushedFilters
from natsbroker.spark.datasource.streaming import StreamReader
from natsbroker.spark.datasource.tasks import RangePartition, logLoss, peerOf, readRange
from natsbroker.spark.datasource.writing import BatchWriter, StreamWriter
from natsbroker.spark.errors import OptionError
from natsbroker.spark.logs.columns import (
    COLUMNS,
    HEADERS,
    METADATA,
    checkedColumns,
    ddlOf,
)
from natsbroker.spark.logs.planning import checkedPatterns, planRanges, split
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.logs.selection import checkedNames, logsOf
from natsbroker.spark.nats.connection import connect
from natsbroker.spark.settings import readOptions

__all__ = ["NatsBrokerSource"]

_NAME = "natsbroker"


class NatsBrokerSource(DataSource):
    """
    JetStream streams, or channels of NATS Streaming, as rows.
    """

    @classmethod
    def name(cls) -> str:
        """
        What C{format()} calls it.
        """
        return _NAME

    def schema(self) -> str:
        """
        The columns where the user gave no schema.
        """
        options = readOptions(self.options, None)
        added = (HEADERS if options["includeHeaders"] else ()) + (
            METADATA if options["includeMetadata"] else ()
        )
        return ddlOf([each for each in COLUMNS if each in added or each not in HEADERS + METADATA])

    def reader(self, schema: Any) -> DataSourceReader:
        """
        What reads a batch.

        @param schema: the columns to read.
        """
        options = readOptions(self.options)
        kind = PushingReader if options["pushdown"] else BatchReader
        return kind(checkedColumns(schema), options)

    def streamReader(self, schema: Any) -> Any:
        """
        What reads a streaming query's micro-batches.
        """
        return StreamReader(checkedColumns(schema), readOptions(self.options, "readStream"))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """
        What writes a batch.
        """
        if overwrite:
            raise OptionError("a stream cannot be overwritten: use mode('append')")
        return BatchWriter(schema, readOptions(self.options, "write"))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """
        What writes a streaming query's micro-batches.
        """
        if overwrite:
            raise OptionError("a stream takes no results anew: use outputMode('append')")
        return StreamWriter(schema, readOptions(self.options, "writeStream"))


class BatchReader(DataSourceReader):
    """
    Reads what is stored when the read is planned. It passes to workers as it is, without sockets.
    """

    def __init__(self, columns: tuple[str, ...], options: dict[str, Any]) -> None:
        self._columns = columns
        self._options = options
        self._peer = peerOf(options)
        self._patterns = checkedPatterns(options["subject"])
        self._limits = PushedFilters()
        checkedNames(options)

    def partitions(self) -> list[InputPartition]:
        """
        Plan the tasks; at least one, because Spark takes none for one without a range.
        """
        options = self._options
        with connect(self._peer) as connection:
            spans = planRanges(logsOf(connection, options), options, logLoss)
        patterns = self._limits.patterns(self._patterns)
        left = [] if patterns is None else self._limits.spans(spans)
        pieces = split(
            left, options["minPartitions"], options["maxRowsPerPartition"], os.cpu_count() or 1
        )
        empty = SequenceRange(spans[0].stream, spans[0].created, 0, 0)
        return [RangePartition(each, patterns or ()) for each in pieces or [empty]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """
        The rows of one task, as Arrow batches.
        """
        return readRange(self._peer, self._options, self._columns, partition)


class PushingReader(BatchReader):
    """
    The same, with conditions that Spark hands down.
    """

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """
        Take what limits the read.

        @return: all of them: Spark tests every row again.
        """
        for each in filters:
            self._limits.take(each)
            yield each
