"""
The data source C{natsbroker} on PySpark's Python Data Source API.

Promises: a batch read gives every message that was stored in its ranges when it was planned, once,
or fails; what is not built yet is refused by its name.
Must never know: how a range is read.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from natsbroker.spark.addresses import TLS, readAddresses
from natsbroker.spark.columns import (
    COLUMNS,
    HEADERS,
    METADATA,
    checkedColumns,
    ddlOf,
    toBatch,
)
from natsbroker.spark.connection import Peer, connect
from natsbroker.spark.errors import OptionError
from natsbroker.spark.identity import Identity
from natsbroker.spark.planning import checkedPatterns, planSpans, split
from natsbroker.spark.pushing import Limits
from natsbroker.spark.reading import Manner, RangeReader, Span
from natsbroker.spark.settings import readOptions
from natsbroker.spark.streams import Streams, checkedName

__all__ = ["NatsBrokerSource"]

_NAME = "natsbroker"


class NatsBrokerSource(DataSource):
    """
    JetStream streams as rows.
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
        options = readOptions(self.options)
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
        Refuse.
        """
        raise OptionError("readStream is not supported yet by the data source 'natsbroker'")

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """
        Refuse.
        """
        raise OptionError("write is not supported yet by the data source 'natsbroker'")

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """
        Refuse.
        """
        raise OptionError("writeStream is not supported yet by the data source 'natsbroker'")


class SpanPartition(InputPartition):
    """
    What one task reads.

    @ivar span: the range.
    @ivar patterns: the filters.
    """

    def __init__(self, span: Span, patterns: tuple[str, ...]) -> None:
        super().__init__(span.start)
        self.span = span
        self.patterns = patterns


class BatchReader(DataSourceReader):
    """
    Reads what is stored when the read is planned. It passes to workers as it is, without sockets.
    """

    def __init__(self, columns: tuple[str, ...], options: dict[str, Any]) -> None:
        self._columns = columns
        self._options = options
        self._peer = peerOf(options)
        self._patterns = checkedPatterns(options["subject"])
        self._limits = Limits()
        for name in options["stream"]:
            checkedName(name)

    def partitions(self) -> list[InputPartition]:
        """
        Plan the tasks; at least one, because Spark takes none for one without a range.
        """
        options = self._options
        with connect(self._peer) as connection:
            streams = Streams(connection, options["domain"])
            spans = planSpans(streams, options, _log)
        patterns = self._limits.patterns(self._patterns)
        left = [] if patterns is None else self._limits.spans(spans)
        pieces = split(
            left, options["minPartitions"], options["maxRowsPerPartition"], os.cpu_count() or 1
        )
        empty = Span(spans[0].stream, spans[0].created, 0, 0)
        return [SpanPartition(each, patterns or ()) for each in pieces or [empty]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """
        The rows of one task, as Arrow batches.
        """
        assert isinstance(partition, SpanPartition)
        options, span = self._options, partition.span
        if span.start >= span.stop:
            return
        manner = Manner(
            partition.patterns,
            options["fetchBytes"],
            options["batchRows"],
            options["requestTimeout"],
            options["failOnDataLoss"],
        )
        first = zlib.crc32(f"{span.stream}:{span.start}".encode())
        with connect(self._peer, first) as connection:
            streams = Streams(connection, options["domain"])
            for rows in RangeReader(streams, span, manner, _log).read():
                yield toBatch(rows, span.stream, self._columns)


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


def peerOf(options: dict[str, Any]) -> Peer:
    """
    How to connect.
    """
    kinds = ("user", "token", "nkeySeedFile", "credentialsFile")
    given = [each for each in kinds if options[each]]
    if len(given) > 1:
        raise OptionError(f"{given[0]} and {given[1]} exclude each other")
    if options["tlsKey"] and not options["tlsCert"]:
        raise OptionError("tlsKey needs tlsCert")
    wanted = ("tls", "tlsFirst", "tlsCa", "tlsCert", "tlsServerName")
    return Peer(
        readAddresses(options["servers"]),
        Identity(
            options["user"],
            options["password"],
            options["token"],
            options["nkeySeedFile"],
            options["credentialsFile"],
            "natsbroker.spark",
        ),
        TLS(
            any(options[each] for each in wanted),
            options["tlsFirst"],
            options["tlsCa"],
            options["tlsCert"],
            options["tlsKey"],
            options["tlsServerName"],
        ),
        options["inboxPrefix"],
        options["connectTimeout"],
        options["requestTimeout"],
    )


def _log(text: str) -> None:
    logging.getLogger("natsbroker.spark").warning("%s", text)
