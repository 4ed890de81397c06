"""
A database on a disk that is full, to be run in a small file system of its own.

Run as C{python -m tests.storage.postgres.fulldisk DIRECTORY}, by root, where the directory is the
root of a file system of some ten megabytes more than an empty database has. It prints C{fine}, or
fails.

What is demanded is in the assertions below, in the order in which it happens.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from natsbroker.interfaces.records import StoreFull
from natsbroker.storage.postgres.connecting import Database
from natsbroker.storage.postgres.store import openPostgres
from natsbroker.testing.pumped import PumpedReactor
from tests.postgresql import PostgresServer
from tests.storage.fulldisk import fails, fill, readAll
from tests.storage.history import Recorder

BATCH = [(b"s", b"", os.urandom(4000), 0)] * 20


def story(directory: Path, server: PostgresServer) -> None:
    """Fill the disk, and demand what a store does then, step by step."""
    reactor = PumpedReactor()
    ballast = directory / "ballast"
    ballast.write_bytes(b"b" * (4 << 20))
    store = reactor.wait(openPostgres(reactor, Database(server.source)))
    recorder = Recorder()
    store.watch(recorder)
    log: Any = reactor.wait(store.open("log"))
    acknowledged = 0
    try:
        while True:
            acknowledged = reactor.wait(log.append(BATCH)).stop - 1
    except StoreFull:
        pass
    assert acknowledged > 100, acknowledged
    assert recorder.writing == ["stopped: the database has no space left"], recorder.writing

    fill(directory / "rest")
    fails(reactor, log.append(BATCH * 50))
    assert log.nextSequence == acknowledged + 1
    assert len(readAll(reactor, log)) == acknowledged

    ballast.unlink()
    (directory / "rest").unlink()
    assert reactor.wait(log.append(BATCH)).start == acknowledged + 1
    assert recorder.writing[-1] == "resumed", recorder.writing
    assert len(readAll(reactor, log)) == acknowledged + 20
    reactor.wait(store.close())


def main(directory: Path) -> None:
    """Start a server, and run the story on it."""
    data = directory / "data"
    data.mkdir(mode=0o700)
    server = PostgresServer(data)
    try:
        story(directory, server.start())
    finally:
        server.remove()
    print("fine")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
