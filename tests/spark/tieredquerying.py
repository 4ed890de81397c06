"""
C{tiered} beside a running archiver, one query after the other:
C{python -m tests.spark.tieredquerying --queries 1000}.

Messages come in, and the archiver goes on, compacts and begins at any moment of a query. Each query
must have every sequence once, from the first to at least the last that was stored before it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from natsbroker.spark import session
from natsbroker.spark.jobs.archive.tiering import tiered
from natsbroker.spark.tables.table import FORMATS, tableAt
from tests.interop.servers import OURS_FAST, Server
from tests.spark.archivekilling import start
from tests.spark.support import STREAMING, BrokerStation

__all__ = ["queried"]

#: What the archiver does: to tidy often, because it replaces the files that are read.
_GOES_ON = ("--every", "100ms", "--compact-after", "5")


#: How many messages may come in for each query, so that a slow machine reads no more than others.
_EACH = 40


class _Publisher(threading.Thread):
    """
    Publishes messages whose payload is their sequence.

    @ivar last: the last that is acknowledged.
    @ivar allowed: how many there may be by now.
    """

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.station = BrokerStation(server)
        self.isOver = threading.Event()
        self.last = 0
        self.allowed = _EACH
        self._more()

    def _more(self) -> None:
        self.station.fill("LOG", [b"%d" % n for n in range(self.last + 1, self.last + 21)])
        self.last += 20

    def run(self) -> None:
        while not self.isOver.wait(0.1):
            if self.last < self.allowed:
                self._more()
        self.station.connection.close()


def _found(frame: Any) -> Any:
    """The number of rows of a DataFrame, and of those with a wrong sequence."""
    return frame.selectExpr(
        "count(*) AS rows",
        "count(DISTINCT seq) AS different",
        "max(seq) AS most",
        "count_if(seq < 1 OR string(data) IS DISTINCT FROM string(seq)) AS wrong",
    ).first()


def queried(spark: Any, directory: Path, queries: int, form: str = "delta") -> dict[str, int]:
    """
    @return: the number of queries, of queries with missing, doubled or wrong sequences, of
    sequences in the last one, and of versions of the archive.
    """
    (directory / "server").mkdir()
    server = Server(OURS_FAST, directory / "server", STREAMING).start()
    publisher = _Publisher(server)
    root = directory / "archive"
    publisher.start()
    archiver = start(server.url, "channel", root, *_GOES_ON, form=form)
    counts = Counter({"queries": 0, "missing": 0, "twice": 0, "wrong": 0})
    versions = set()
    try:
        while tableAt(root).latest() is None:
            if archiver.poll() is not None:
                raise RuntimeError(str(archiver.communicate()))
            time.sleep(0.05)
        for _ in range(queries):
            versions.add(tableAt(root).require(hasFiles=False).version)
            least = publisher.last
            publisher.allowed += _EACH
            rows = _found(tiered(spark, str(root), {"servers": server.url}))
            counts["queries"] += 1
            counts["missing"] += rows.different != max(least, rows.most)
            counts["twice"] += rows.different < rows.rows
            counts["wrong"] += rows.wrong > 0
            if counts["queries"] % 100 == 0:
                print(dict(counts), file=sys.stderr, flush=True)
        return {**counts, "last": rows.most, "versions": len(versions)}
    finally:
        publisher.isOver.set()
        publisher.join()
        archiver.send_signal(signal.SIGTERM)
        archiver.communicate()
        server.stop()


def main() -> int:
    """
    The command.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.spark.tieredquerying")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--format", choices=FORMATS, default="delta")
    given = parser.parse_args()
    conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    spark = session("local[2]", conf)
    with tempfile.TemporaryDirectory() as directory:
        counts = queried(spark, Path(directory), given.queries, given.format)
    spark.stop()
    print(json.dumps(counts))
    return 1 if counts["missing"] or counts["twice"] or counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
