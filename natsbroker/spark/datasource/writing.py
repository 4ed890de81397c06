"""
Writing rows to a stream, from batches and from streaming queries.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from natsbroker.spark.datasource.tasks import peerOf
from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.logs.channels import checkedChannel
from natsbroker.spark.logs.selection import isPattern
from natsbroker.spark.logs.streams import StreamApi, checkedName
from natsbroker.spark.nats.connection import BlockingConnection, connect
from natsbroker.spark.nats.publishing import Publisher
from natsbroker.subjects.grammar import isValidLiteral

#: The columns that can be written, with the types that they may have.
_COLUMNS = {
    "subject": ("string",),
    "data": ("binary", "string"),
    "headers": ("array<struct<key:string,value:string>>",),
    "msg_id": ("string",),
}


@dataclass
class Written(WriterCommitMessage):
    """
    @ivar stored: how many rows the stream has.
    @ivar duplicates: how many of them it had already.
    """

    stored: int
    duplicates: int


class _Writer:
    """
    What both writers do. It passes to workers as it is: it holds no socket.
    """

    def __init__(self, schema: Any, options: dict[str, Any]) -> None:
        names = _checkedColumns(schema)
        subjects = options["subject"]
        if options["channel"]:
            self._channel = _checkedForChannel(names, options)
            self._options = options
            self._peer = peerOf(options)
            return
        if len(options["stream"]) != 1:
            raise OptionError("stream: name the one to write to")
        if len(subjects) > 1:
            raise OptionError("subject: name one to write to, or have a column")
        if bool(subjects) == ("subject" in names):
            raise OptionError("write needs a column 'subject' or the option, and not both")
        if subjects and not isValidLiteral(subjects[0].encode("utf-8")):
            raise OptionError(f"subject: not a subject to publish to: {subjects[0]!r}")
        self._channel = ""
        self._stream = checkedName(options["stream"][0])
        self._subject = subjects[0] if subjects else ""
        self._options = options
        self._peer = peerOf(options)

    def write(self, iterator: Iterator[Any]) -> Written:
        first: Any = next(iterator, None)
        if first is None:
            return Written(0, 0)
        with connect(self._peer, os.getpid()) as connection:
            if self._channel:
                return self._writeToChannel(connection, itertools.chain((first,), iterator))
            StreamApi(connection, self._options["domain"]).state(self._stream)
            publisher = Publisher(connection, self._stream, self._options["window"])
            self._publish(publisher, first)
            for batch in iterator:
                self._publish(publisher, batch)
            publisher.finish()
            return Written(publisher.stored, publisher.duplicates)

    def _writeToChannel(self, connection: BlockingConnection, batches: Iterator[Any]) -> Written:
        # Only here is protobuf needed, which a package given with --py-files does not bring.
        from natsbroker.spark.nats.stan import ChannelPublisher

        options = self._options
        publisher = ChannelPublisher(
            connection,
            self._channel,
            options["clusterId"],
            options["discoverPrefix"],
            options["window"],
        )
        for batch in batches:
            for data in batch.column("data").to_pylist():
                publisher.publish(_payload(data))
        publisher.finish()
        publisher.close()
        return Written(publisher.stored, 0)

    def _publish(self, publisher: Publisher, batch: Any) -> None:
        count = batch.num_rows
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        nothing = [None] * count
        rows = zip(
            columns.get("subject", [self._subject] * count),
            columns["data"],
            columns.get("headers", nothing),
            columns.get("msg_id", nothing),
            strict=True,
        )
        for subject, data, headers, msgId in rows:
            if subject is None:
                raise DataSourceError(f"stream {self._stream}: a row has no subject")
            publisher.publish(subject, _payload(data), _pairs(headers), msgId)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """
    Writes a batch.
    """


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """
    Writes the micro-batches of a streaming query.
    """


def _checkedColumns(schema: Any) -> set[str]:
    known = ", ".join(_COLUMNS)
    for field in schema.fields:
        if field.name not in _COLUMNS:
            raise OptionError(f"the column {field.name!r} cannot be written; there are {known}")
        wanted, given = _COLUMNS[field.name], field.dataType.simpleString()
        if given not in wanted:
            raise OptionError(f"the column {field.name} is {' or '.join(wanted)}, not {given}")
    names = {field.name for field in schema.fields}
    if "data" not in names:
        raise OptionError("write needs a column 'data'")
    return names


def _checkedForChannel(names: set[str], options: dict[str, Any]) -> str:
    if options["stream"]:
        raise OptionError("stream and channel exclude each other")
    if len(options["channel"]) != 1 or isPattern(options["channel"][0]):
        raise OptionError("channel: name the one to write to")
    if options["subject"]:
        raise OptionError("subject does not go with channel: a channel is written to by its name")
    others = sorted(names - {"data"})
    if others:
        raise OptionError(
            f"the column {others[0]!r} cannot be written to a channel: messages of NATS Streaming"
            " have data and nothing else"
        )
    return checkedChannel(options["channel"][0])


def _payload(data: Any) -> bytes:
    return data.encode("utf-8") if isinstance(data, str) else data or b""


def _pairs(headers: Any) -> list[tuple[str, str]]:
    return [(each["key"] or "", each["value"] or "") for each in headers or () if each is not None]
