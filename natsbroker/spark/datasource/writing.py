"""Writing rows to a stream, from batches and from streaming queries."""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from natsbroker.spark.codecs.datatypes import readSchema
from natsbroker.spark.datasource.tasks import connected, peerOf
from natsbroker.spark.errors import ApiError, BadMessage, DataSourceError, OptionError
from natsbroker.spark.logs.apis import StreamApi, StreamState, checkedChannel, checkedName
from natsbroker.spark.logs.planning import isPattern, stateNamed
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.spark.nats.originheaders import OWN, ownHeaders
from natsbroker.spark.nats.publishing import AtomicPublisher, Publisher
from natsbroker.spark.tables.locations import locationOf
from natsbroker.spark.tables.snapshots import File
from natsbroker.subjects.grammar import isValidLiteral, matches

try:  # Since PySpark 4.1.
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _ArrowWriter
except ImportError:
    # PySpark 4.0 looks for the first of them in streaming queries too.
    _ArrowWriter = type("_ArrowWriter", (DataSourceArrowWriter, DataSourceStreamWriter), {})

#: The columns that can be written, with the types that they may have.
_COLUMNS = {
    "subject": ("string",),
    "data": ("binary", "string"),
    "headers": ("array<struct<key:string,value:string>>",),
}
_ID, _MSG_ID = "msg_id", "Nats-Msg-Id"

#: The names of the local properties in which Spark tells tasks the query and the micro-batch.
_QUERY, _EPOCH = "sql.streaming.queryId", "streaming.sql.batchId"

#: Refusals that are not of one message: JetStream, a leader or its resources are not there now, the
#: account or the server is full, the message is being stored by another request.
_PASSING = (10002, 10008, 10009, 10023, 10028, 10047, 10158)
_NOBODY = 503
_STORE_FAILED = 10077

#: The one limit of a stream that leaves room for other messages.
_OF_SUBJECT = "maximum messages per subject exceeded"


@dataclass
class Written(WriterCommitMessage):
    """The files with a task's dead rows, and the write, or streaming query, of the task."""

    stored: int
    duplicates: int
    dead: tuple[File, ...] = ()
    write: str = ""


class _Writer:
    """The common part of both writers. It passes to workers as it is: it holds no socket."""

    def __init__(self, schema: Any, options: dict[str, Any]) -> None:
        given = options["msgId"]
        self._id = "" if given == "none" else _ID if given == "auto" else given
        names = _checkedColumns(schema, self._id)
        if given not in ("auto", "none") and given not in names:
            raise OptionError(f"msgId: there is no column {given!r}")
        self._options = options
        peerOf(options)  # Raises errors here, and not in a task.
        self._write = options.get("writeId") or uuid.uuid4().hex
        self._columns = ", ".join(f"{x.name} {x.dataType.simpleString()}" for x in schema.fields)
        self._channel = ""
        if options["channel"]:
            self._channel = _checkedForChannel(names, options)
            return
        subjects = options["subject"]
        if len(options["stream"]) != 1:
            raise OptionError("stream: name the stream to write to")
        if len(subjects) > 1:
            raise OptionError("subject: name one to write to, or have a column")
        if bool(subjects) == ("subject" in names):
            raise OptionError("write needs either a column 'subject' or the option 'subject'")
        if subjects and not isValidLiteral(subjects[0].encode("utf-8")):
            raise OptionError(f"subject: not a subject to publish to: {subjects[0]!r}")
        self._stream = checkedName(options["stream"][0])
        self._subject = subjects[0] if subjects else ""
        self._table()

    def write(self, iterator: Iterator[Any]) -> Written:
        first: Any = next(iterator, None)
        if first is None:
            return Written(0, 0)
        batches = itertools.chain((first,), iterator)
        with connected(self._options, os.getpid()) as connection:
            if self._channel:
                return self._writeToChannel(connection, batches)
            state = stateNamed(StreamApi(connection, self._options["domain"]), self._stream)
            kind: type[Publisher] = AtomicPublisher if self._options["atomic"] else Publisher
            if kind is AtomicPublisher and not state.isAtomic:
                raise DataSourceError(
                    f"stream {self._stream}: atomic: the stream takes no batches: set its"
                    " allow_atomic"
                )
            write, number, task = self._place()
            publisher = kind(connection, self._stream, self._options["window"])
            dead = self._table(task)
            place = f"{write}:{number}:{task}"
            rows = _RowWriter(publisher, place, self._subject, self._id, state, dead)
            try:
                rows.take(batches)
                files = dead.finish() if dead else ()
                return Written(publisher.stored, publisher.duplicates, files, write)
            except BaseException:
                if dead:
                    dead.abandon()
                raise

    def _place(self) -> tuple[str, int, int]:
        context = TaskContext.get()
        return self._write, 0, context.partitionId() if context is not None else 0

    def _table(self, task: int = 0) -> Any:
        where = self._options["deadLetters"]
        if not where:
            return None
        # Only this method needs deltalake.
        from natsbroker.spark.tables.delta import DeadLetterTable

        return DeadLetterTable(locationOf(where), readSchema(self._columns), task)

    def _record(self, messages: Sequence[WriterCommitMessage | None], number: int) -> None:
        written = [message for message in messages if isinstance(message, Written) and message.dead]
        if not written:
            return
        table = self._table()
        files = [file for message in written for file in message.dead]
        if table.record(files, f"natsbroker/{written[0].write}", number):
            count = sum(file.rows for file in files)
            logging.getLogger("natsbroker.spark").warning(
                "stream %s: %d rows were not taken, and are in %s", self._stream, count, table.root
            )

    def _writeToChannel(self, connection: BlockingConnection, batches: Iterator[Any]) -> Written:
        # Only this method needs protobuf, which a package given with --py-files does not include.
        from natsbroker.spark.nats.stan import ChannelPublisher

        options = self._options
        given = (options[option] for option in ("clusterId", "discoverPrefix", "window"))
        publisher = ChannelPublisher(connection, self._channel, *given)
        for batch in batches:
            for data in batch.column("data").to_pylist():
                publisher.publish(_payload(data))
        publisher.finish()
        publisher.close()
        return Written(publisher.stored, 0)


class BatchWriter(_Writer, DataSourceArrowWriter):
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._record(messages, 0)


class StreamWriter(_Writer, _ArrowWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._record(messages, batchId)

    def _place(self) -> tuple[str, int, int]:
        context: Any = TaskContext.get()
        query, epoch = (context.getLocalProperty(property_) for property_ in (_QUERY, _EPOCH))
        if query is None or epoch is None:
            raise DataSourceError("Spark does not say of which micro-batch a task is")
        return query, int(epoch), context.partitionId()


@dataclass
class _RowWriter:
    """
    Writes rows. C{dead} takes rows that the stream refuses. Without it, each of these is an error.
    """

    publisher: Publisher
    place: str
    subject: str
    idColumn: str
    state: StreamState
    dead: Any

    def take(self, batches: Iterable[Any]) -> None:
        count = itertools.count()
        for batch in batches:
            names = batch.schema.names
            columns = [column.to_pylist() for column in batch.columns]
            for values in zip(*columns, strict=True):
                self._take(dict(zip(names, values, strict=True)), next(count))
        self.publisher.finish()

    def _take(self, row: dict[str, Any], number: int) -> None:
        subject = row.get("subject", self.subject)
        data, headers = _payload(row["data"]), row.get("headers")
        pairs = ownHeaders(headers)
        onRefused = partial(self._refused, row, subject) if self.dead is not None else None
        try:
            if subject is None:
                raise BadMessage(f"stream {self.state.name}: a row has no subject")
            msgId = row.get(self.idColumn)
            if self.idColumn and not msgId and (msgId := _ownId(headers)):
                pairs.remove((f"{OWN}{_MSG_ID}", msgId))
            msgId = msgId or self._idOf(number, subject, data, pairs)
            self.publisher.publish(subject, data, pairs, msgId, onRefused=onRefused)
        except BadMessage as error:
            if self.dead is None:
                raise
            self.dead.add(row, 0, str(error))

    def _idOf(
        self, number: int, subject: str, data: bytes, pairs: list[tuple[str, str]]
    ) -> str | None:
        """
        The id of a row without one: its place and a digest. If the rows of a repeated task come in
        another order, a row is stored twice, but none is lost.
        """
        if not self.idColumn:
            return None
        digest = hashlib.blake2b(subject.encode("utf-8", "replace"), digest_size=8)
        digest.update(b"\0" + data)
        if pairs:
            digest.update(repr(pairs).encode("utf-8", "replace"))
        return f"{self.place}:{number}:{digest.hexdigest()}"

    def _refused(self, row: dict[str, Any], subject: str, error: ApiError) -> None:
        """
        Keep a refused row. Raise an error that is not the row's fault, such as that of a full
        store.
        """
        isOurs = any(matches(x.encode(), subject.encode()) for x in self.state.subjects)
        isPassing = error.code in _PASSING or (error.code == _NOBODY and isOurs)
        if isPassing or (error.code == _STORE_FAILED and _OF_SUBJECT not in str(error)):
            raise error
        self.dead.add(row, error.code, str(error))


def _checkedColumns(schema: Any, idColumn: str) -> set[str]:
    columns = {**_COLUMNS, idColumn: ("string",)} if idColumn else _COLUMNS
    known = ", ".join(columns)
    for field in schema.fields:
        if field.name not in columns:
            raise OptionError(f"the column {field.name!r} cannot be written; there are {known}")
        wanted, given = columns[field.name], field.dataType.simpleString()
        if given not in wanted:
            raise OptionError(f"the column {field.name} is {' or '.join(wanted)}, not {given}")
    names = {field.name for field in schema.fields}
    if "data" not in names:
        raise OptionError("write needs a column 'data'")
    if names & {"code", "error"}:
        raise OptionError("msgId: the columns of dead letters are called code and error")
    return names


def _checkedForChannel(names: set[str], options: dict[str, Any]) -> str:
    if options["stream"]:
        raise OptionError("stream and channel exclude each other")
    if len(options["channel"]) != 1 or isPattern(options["channel"][0]):
        raise OptionError("channel: name the channel to write to")
    if options["subject"]:
        raise OptionError(
            "subject and channel exclude each other: a channel is written to by its name"
        )
    for name in ("atomic", "deadLetters"):
        if options[name]:
            raise OptionError(f"{name} and channel exclude each other: only streams have that")
    others = sorted(names - {"data"})
    if others:
        raise OptionError(
            f"the column {others[0]!r} cannot be written to a channel: messages of NATS Streaming"
            " have data and nothing else"
        )
    return checkedChannel(options["channel"][0])


def _payload(data: Any) -> bytes:
    return data.encode("utf-8") if isinstance(data, str) else data or b""


def _ownId(headers: Any) -> str:
    values = (header["value"] for header in headers or () if header and header["key"] == _MSG_ID)
    return next(values, None) or ""
