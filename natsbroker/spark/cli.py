"""C{natsbroker spark ...}: the command line of the jobs on Spark."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TextIO

from natsbroker.config.errors import nearest

#: The jobs, with their purposes.
DESCRIPTIONS = {
    "doctor": "show what Spark would run with, here or at --master, and try it",
    "archive": "copy a log into a Delta or Iceberg table, each message exactly once",
    "compact": "merge the many small files of an archive into few large ones",
    "convert": "copy an archive that an earlier version made into a table",
    "decode": "read payloads in JSON, Avro or Protobuf into tables with columns",
    "export": "write an archive as plain Parquet files",
    "interest": "report what clusters send each other in vain, and advise their gateways",
    "lag": "report how far an archive or a streaming query is behind its logs",
    "migrate": "copy a channel of NATS Streaming, or a stream, to a JetStream stream",
    "replay": "publish stored messages again, each once, to a JetStream stream",
    "restore": "copy an archive to a JetStream stream",
    "tiered": "query an archive, and newer messages of its log, with SQL",
    "traffic": "report who causes how much traffic, from the broker's events",
    "vacuum": "delete old versions of an archive, and files that no version names",
    "verify": "compare an archive with its log",
}

#: The modules of the jobs, and what is called there.
_JOBS = {
    "doctor": ("doctor", "main"),
    "archive": ("jobs.archive.job", "main"),
    "compact": ("jobs.archive.tidying", "compactMain"),
    "convert": ("jobs.archive.converting", "convertMain"),
    "decode": ("jobs.decode.job", "main"),
    "export": ("jobs.archive.converting", "exportMain"),
    "interest": ("jobs.traffic.interestjob", "main"),
    "lag": ("jobs.archive.verify", "lagMain"),
    "migrate": ("jobs.migrate.copying", "migrateMain"),
    "replay": ("jobs.replay.job", "main"),
    "restore": ("jobs.migrate.copying", "restoreMain"),
    "tiered": ("jobs.archive.tiering", "main"),
    "traffic": ("jobs.traffic.job", "main"),
    "vacuum": ("jobs.archive.tidying", "vacuumMain"),
    "verify": ("jobs.archive.verify", "verifyMain"),
}

#: The names of the jobs, for shells that complete them.
NAMES = tuple(DESCRIPTIONS)

_LINES = "\n".join(f"    {job:<9} {text}" for job, text in DESCRIPTIONS.items())
_USAGE = f"""\
Usage: natsbroker spark JOB [OPTION ...]

{_LINES}

'natsbroker spark JOB --help' says more.
"""


def main(arguments: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
    """
    @return: 0, or 1 if something is missing or was found, 2 for a wrong command line, 3 for a
        failed job.
    """
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        stdout.write(_USAGE)
        return 0 if arguments else 2
    job, *rest = arguments
    isFor = job != "doctor" or not rest or (rest[0] == "--master" and len(rest) == 2)
    if job in _JOBS and isFor:
        try:
            module = importlib.import_module(f"natsbroker.spark.{_JOBS[job][0]}")
            return int(getattr(module, _JOBS[job][1])(rest, stdout, stderr))
        except SystemExit:
            return 0  # --help was said.
    wrong = job if job != "doctor" else f"doctor {' '.join(rest)}"
    stderr.write(_USAGE)
    near = nearest(job, [*_JOBS])
    hint = f", did you mean {near!r}?" if near and near != job else ""
    print(f"natsbroker spark: there is no {wrong!r}{hint}", file=stderr)
    return 2
