"""The work of one task: connect, read its range, and give Arrow batches; without PySpark."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from natsbroker.spark.errors import OptionError
from natsbroker.spark.logs.apis import ChannelApi, StreamApi, StreamExports, StreamState
from natsbroker.spark.logs.columns import toBatch
from natsbroker.spark.logs.exports import ExportReader
from natsbroker.spark.logs.planning import logsOf
from natsbroker.spark.logs.wholeranges import (
    OnLoss,
    RangeReader,
    ReadOptions,
    SequenceRange,
    checkGaps,
    checkStream,
    logLoss,
)
from natsbroker.spark.nats.addresses import ServerAccess, readAddresses
from natsbroker.spark.nats.connection import BlockingConnection, connect


def batchesOf(
    options: dict[str, Any],
    columns: tuple[str, ...],
    bounds: SequenceRange,
    patterns: tuple[str, ...] = (),
    onLoss: OnLoss | None = logLoss,
) -> Iterator[Any]:
    if bounds.start >= bounds.stop:
        return
    sizes = options["fetchBytes"], options["batchRows"]
    reading = ReadOptions(patterns, *sizes, options["requestTimeout"])
    onLoss = None if options["failOnDataLoss"] else onLoss
    first = zlib.crc32(f"{bounds.stream}:{bounds.start}".encode())
    with connected(options, first) as connection:
        logs = logsOf(connection, options)
        if isinstance(logs, ChannelApi):
            yield from ExportReader(logs, bounds, reading, columns, onLoss).read()
        elif isinstance(logs, StreamApi):
            exports = StreamExports(connection, options["domain"])
            identity = exports.identity(bounds.stream)
            if identity is None:
                for rows in RangeReader(logs, bounds, reading, onLoss).read():
                    yield toBatch(rows, bounds.stream, columns)
                return
            # Only after this is it known that the identity is of the stream that was planned.
            state = checkStream(logs, bounds.stream, bounds.created)
            same = replace(bounds, created=identity)
            yield from ExportReader(exports, same, reading, columns, onLoss, state=state).read()
            if not patterns:
                checkGaps(logs, bounds, onLoss)


def connected(options: dict[str, Any], first: int = 0) -> BlockingConnection:
    return connect(peerOf(options), first)


def stateOf(options: dict[str, Any], name: str) -> StreamState:
    with connected(options) as connection:
        return logsOf(connection, options).state(name)


def peerOf(options: dict[str, Any]) -> ServerAccess:
    kinds = ("user", "token", "nkeySeedFile", "credentialsFile")
    given = [kind for kind in kinds if options[kind]]
    if len(given) > 1:
        raise OptionError(f"{given[0]} and {given[1]} exclude each other")
    if options["tlsKey"] and not options["tlsCert"]:
        raise OptionError("tlsKey needs tlsCert")
    names = [field.name for field in fields(ServerAccess) if field.name in options]
    return ServerAccess(
        readAddresses(options["servers"]),
        name="natsbroker.spark",
        **{name: options[name] for name in names},
    )
