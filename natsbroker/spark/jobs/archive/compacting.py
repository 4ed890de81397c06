"""
Few large files instead of the many small ones of an archive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, TextIO

from natsbroker.spark.jobs.common import (
    Parser,
    Runner,
    addMaster,
    command,
    inline,
    runnerFor,
)
from natsbroker.spark.tables.checking import ArchiveDamaged, damageOf
from natsbroker.spark.tables.table import ArchiveTable, tableAt

#: How large files become. Who reads a file that was compacted sorts it, in memory.
TARGET = 128 << 20

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def compact(table: ArchiveTable, run: Runner = inline, target: int = TARGET) -> int:
    """
    Make few large files of many small ones; the small ones stay until they are vacuumed.

    @return: how many files gave way to others.
    @raise ArchiveDamaged: if one has not what was written.
    """
    # The new files will say how many rows they have, so what is missing must be found before. Files
    # of decoded tables have no sequences, and no checksums.
    found = run(
        partial(damageOf, table.root),
        [
            x.files
            for x in table.require().tiles
            if any(y.last and y.bytes < target for y in x.files)
        ],
    )
    if findings := [each for damage in found for each in damage]:
        raise ArchiveDamaged(table.root, findings)
    return table.compact(target)


def bytesOf(text: str) -> int:
    """
    A size: C{1000}, C{64K}, C{512M}, C{2G}, with or without C{B} behind it.
    """
    found = re.fullmatch(r"(\d+)([KMG]?)B?", text)
    if found is None or not int(found[1]):
        raise ValueError(f"not a size: {text!r}")
    return int(found[1]) * _UNITS[found[2]]


@command("compact")
def compactMain(
    arguments: Sequence[str], summary: dict[str, Any], stdout: TextIO, stderr: TextIO
) -> int:
    parser = Parser("compact", "Make few large files of the many small ones of an archive.")
    parser.add_argument("--archive", required=True, help="the directory of the archive")
    parser.add_argument("--target", type=bytesOf, default=TARGET, help="how large: 128M")
    addMaster(parser)
    given = parser.parse_args(list(arguments))
    table = tableAt(given.archive)
    before = table.require()
    with runnerFor(given.master) as run:
        summary["replaced"] = compact(table, run, given.target)
    after = table.require()
    summary.update(version=after.version, before=len(before.files), files=len(after.files))
    return 0
