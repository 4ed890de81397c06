"""The job C{decode}: payloads into tables with columns, once or again and again."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from natsbroker.spark.codecs.datatypes import ddlText
from natsbroker.spark.codecs.mappings import readMappings
from natsbroker.spark.codecs.registry import RegistryAccess
from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.archive.archiver import ArchiveOrigin, FilePlan, LogOrigin, Origin
from natsbroker.spark.jobs.archive.job import follow, readPace
from natsbroker.spark.jobs.common import (
    FOUND,
    JobRun,
    command,
    optionTexts,
    readInTasks,
    runnerOf,
    sessionFor,
    stopping,
)
from natsbroker.spark.jobs.decode.decoder import TableDecoder, TableOptions
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.delta import DeltaLakeTable
from natsbroker.spark.tables.locations import Location, ObjectPath, locationOf, parquetFile


def decode(
    spark: Any,
    source: Mapping[str, str] | str,
    to: str,
    schemas: Sequence[str],
    tables: Mapping[str, str] | None = None,
    layout: TableOptions | None = None,
    isUnknownBad: bool = True,
    plan: FilePlan | None = None,
    registry: RegistryAccess | None = None,
) -> dict[str, Any]:
    """
    Decode a log or an archive as far as it goes now.

    @param spark: a session whose workers decode; C{None} to do it here.
    @param source: options of the data source (C{servers}, and C{stream} or C{channel}), or the
        directory of an archive.
    @param to: the directory of the tables.
    @param schemas: as the option C{--schema} takes them.
    @param tables: the names of tables, by the patterns of their schemas.
    @param isUnknownBad: whether fields unknown to a schema make a payload a dead letter.
    @param registry: where schemas of the kind C{registry} are.
    @return: the job's line of JSON.
    """
    mappings = readMappings(schemas, tables or {}, isUnknownBad, registry)
    decoder = TableDecoder(_originOf(source), to, mappings, layout, runnerOf(spark), plan)
    decoder.once()
    return decoder.summary()


def _originOf(source: Mapping[str, str] | str) -> Origin:
    if isinstance(source, str):
        return ArchiveOrigin.of(source)
    return LogOrigin(readOptions(source))


def decoded(spark: Any, directory: str, table: str) -> Any:
    """The current version of a table in a directory; that of dead letters ends with C{__dlq}."""
    source = DeltaLakeTable(locationOf(directory) / table)
    columns = source.columns()
    if columns is None:
        raise DataSourceError(f"{source.root}: there is no table")
    paths = [source.root / file.path for file in source.require().files]
    if not paths:
        return spark.createDataFrame([], ddlText(columns))
    if isinstance(source.root, ObjectPath):
        return readInTasks(spark, ddlText(columns), partial(_rowsIn, columns), paths)
    return spark.read.schema(ddlText(columns)).parquet(*(str(path) for path in paths))


def _rowsIn(columns: Any, path: Location) -> Iterator[Any]:
    file = parquetFile(path)
    for batch in file.iter_batches():
        for column in columns:
            # A column that the table got later is not in its older files.
            if column.name not in batch.schema.names:
                batch = batch.append_column(column, pa.nulls(batch.num_rows, column.type))
        yield batch.select(columns.names).cast(columns)


@command("decode")
def main(job: JobRun) -> int:
    given = _read(job)
    named = [getattr(given, f"registry_{part}") for part in ("auth", "ca", "cert", "key")]
    registry = RegistryAccess(given.registry, *named)
    isUnknownBad = given.unknown == "refuse"
    mappings = readMappings(given.schema, dict(given.table), isUnknownBad, registry)
    origin = _originOf(given.archive or optionTexts(given))
    layout = TableOptions(given.prefix, given.others == "keep")
    plan = FilePlan(given.rows_per_file, given.files_per_version)
    with stopping(job) as stop, sessionFor(given.master) as spark:
        decoder = TableDecoder(origin, given.to, mappings, layout, runnerOf(spark), plan)
        try:
            follow(job, given, decoder, decoder.once, stop)
        finally:
            job.summary.update(decoder.summary())
    return FOUND if decoder.dead or decoder.lost or decoder.clashes else 0


def _nameOf(text: str) -> tuple[str, str]:
    pattern, equals, name = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"takes PATTERN=NAME, not {text!r}")
    return pattern, name


def _read(job: JobRun) -> argparse.Namespace:
    job.addSource(isRequired=False)
    job.addMaster()
    job.option("--archive", None, "the directory of an archive, in place of servers")
    job.add_argument("--to", required=True, help="the directory of the tables")
    job.add_argument(
        "--schema",
        action="append",
        required=True,
        metavar="PATTERN=KIND:WHAT",
        help="the decoder of a pattern: json, avro, avro-single, avro-confluent, protobuf,"
        " registry",
    )
    job.option("--registry", "", "the URL of a schema registry")
    job.option("--registry-auth", "", "a file with USER:PASSWORD for it")
    job.option("--registry-ca", "", "a file of certificates to trust there")
    job.option("--registry-cert", "", "a file with our certificate for it")
    job.option("--registry-key", "", "a file with the key of that")
    job.option("--table", [], "names a table", type=_nameOf, metavar="PATTERN=NAME")
    text = "whether messages without a schema are dead letters"
    job.option("--others", "keep", text, choices=("keep", "ignore"))
    text = "whether fields unknown to a schema make a payload a dead letter"
    job.option("--unknown", "refuse", text, choices=("refuse", "ignore"))
    job.option("--prefix", "", "put before the names of the columns seq, subject and time")
    given = readPace(job)
    if bool(given.archive) == bool(given.servers):
        job.error("either --servers or --archive")
    return given
