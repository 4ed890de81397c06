"""
The time to open an archive and to add to it, by its number of commits: C{python -m
tests.spark.commits --commits 50000}.

Commits are made at once, with one file each, until a number is reached; after every hundred the
archive is tidied as C{archive --every} does. An archive makes one a minute, so what a table of
Delta keeps for a day is kept for L{RETENTION} here. Reading and committing is timed at some of
them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

from natsbroker.spark.jobs.archive.tidying import AGE, compact
from natsbroker.spark.tables import delta
from natsbroker.spark.tables.snapshots import TableSnapshot
from natsbroker.spark.tables.table import FORMATS, ArchiveTable, tableAt
from tests.spark.tablecontract import LOG, grow

__all__ = ["measured"]

#: After how many commits the archive is tidied.
_TIDIED = 100

_TIMED = 10

RETENTION = "interval 5 seconds"


def measured(directory: Path, form: str, counts: Sequence[int]) -> dict[int, dict[str, float]]:
    """
    @param counts: of commits after which it is timed, ascending.
    @return: for each the median milliseconds of reading the snapshot with its files, and of a
        commit.
    """
    table = tableAt(directory, form)
    table.make()
    table.create(TableSnapshot.first(LOG, 1))
    results: dict[int, dict[str, float]] = {}
    stop = done = 1
    for number in counts:
        while done < number:
            stop += 1
            done += grow(table, stop)
            if done % _TIDIED == 0:
                compact(table)
                table.vacuum(AGE, False)
        results[number] = {
            "read": _median(table.require),
            "commit": _median(lambda: _commit(table)),
        }
        stop = table.require().stop
        done += _TIMED
    return results


def _commit(table: ArchiveTable) -> None:
    grow(table, table.require(hasFiles=False).stop + 1)


def _median(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(_TIMED):
        begun = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - begun))
    return round(statistics.median(taken), 1)


def main() -> int:
    """
    The command.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.spark.commits")
    parser.add_argument("--commits", type=int, default=50_000)
    parser.add_argument("--format", choices=FORMATS, default="delta")
    given = parser.parse_args()
    counts = [given.commits // index for index in (50, 10, 2, 1)]
    kept = mock.patch.object(delta, "_RETENTION", RETENTION)
    with kept, tempfile.TemporaryDirectory() as directory:
        seconds = measured(Path(directory) / "lake", given.format, counts)
    for number, times in seconds.items():
        print(f"{number}: {json.dumps(times)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
