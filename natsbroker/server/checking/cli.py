"""
C{natsbroker check}: what is wrong with a store.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from natsbroker.config.goflags import FlagError, FlagType, takeFlags
from natsbroker.interfaces.records import StoreError
from natsbroker.server.checking.store import storeReport

FINE, FOUND, CANNOT_CHECK = 0, 1, 2
"""Exit codes: nothing to report; something is wrong; it cannot be found out."""

HELP = """\
Usage: natsbroker check --store DIR [--json]

Reads the store in DIR completely, without changing it, and verifies each record: prints its
streams and channels, and what is damaged, with sequences. No broker may have the store open. DIR is
the folder that has a file STORE; of JetStream it is the folder "jetstream" in store_dir.

If the structure of the database is damaged, a copy of the store is made in the folder for temporary
files (TMPDIR) and repaired there, to show what the start of a broker would save and lose.

    --store <dir>  the folder of the store
    --json         print one JSON object

The exit code is 0 if nothing is wrong; 1 if something is; 2 if that cannot be found out.
"""

_FLAGS = {
    "store": FlagType.STRING,
    "json": FlagType.BOOLEAN,
    "h": FlagType.BOOLEAN,
    "help": FlagType.BOOLEAN,
}


def main(arguments: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
    try:
        given, others = takeFlags(arguments, _FLAGS)
        if given.get("h") or given.get("help"):
            stdout.write(HELP)
            return FINE
        if others:
            raise FlagError(f"not understood: {' '.join(others)}")
        if not given.get("store"):
            raise FlagError("--store DIR is needed")
        return _checkStore(Path(str(given["store"])), bool(given.get("json")), stdout)
    except (FlagError, StoreError, OSError) as error:
        print(f"natsbroker check: {error}", file=stderr)
        return CANNOT_CHECK


def _checkStore(directory: Path, isJSON: bool, stdout: TextIO) -> int:
    report = storeReport(directory)
    if isJSON:
        print(json.dumps(report.toJSON()), file=stdout)
    else:
        print("\n".join(report.lines()), file=stdout)
    return FINE if report.isFine else FOUND
