"""
A store on a disk that is full, to be run in a small file system of its own.

Run as C{python -m tests.storage.fulldisk DIRECTORY}, where the directory is the root of a file
system of a few megabytes. It prints C{fine}, or fails.

What is demanded is in the assertions below, in the order in which it happens.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from natsbroker.interfaces.records import StoreFull
from natsbroker.storage.jobs import Job
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.history import Recorder

BATCH = [(b"s", b"", b"x" * 4000, 0)] * 20


def fill(path: Path, leave: int = 0) -> None:
    """
    Write a file until the disk is full.
    """
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"b" * 65536)
        except OSError:
            pass
        file.truncate(max(0, file.tell() - leave))


def execute(story: Callable[[Path], None]) -> None:
    """Run a story in the directory that the command line names."""
    try:
        story(Path(sys.argv[1]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def fails(reactor: PumpedReactor, deferred: Any) -> None:
    """Demand that a call fails because the disk is full, without any timer."""
    try:
        reactor.wait(deferred)
    except StoreFull:
        return
    raise AssertionError("it did not fail")


def main(directory: Path) -> None:
    """Fill the disk, and demand what a store does then, step by step."""
    reactor = PumpedReactor()
    ballast = directory / "ballast"
    ballast.write_bytes(b"b" * (2 << 20))
    store = reactor.wait(openLMDB(reactor, directory / "store"))
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
    assert recorder.writing[-1].startswith("stopped"), recorder.writing

    fill(directory / "rest")
    big = {b"k%d" % number: b"v" * 60000 for number in range(200)}
    fails(reactor, log.append(BATCH * 50))
    fails(reactor, store.states("space").change(big))
    assert log.nextSequence == acknowledged + 1
    assert len(readAll(reactor, log)) == acknowledged

    ballast.unlink()
    (directory / "rest").unlink()
    acknowledged = reactor.wait(log.append(BATCH)).stop - 1
    assert recorder.writing[-1] == "resumed", recorder.writing
    reactor.wait(store.states("space").put(b"k", b"v"))
    assert len(readAll(reactor, log)) == acknowledged

    fill(directory / "rest")
    reactor.wait(store.close())
    store = reactor.wait(openLMDB(reactor, directory / "store"))
    log = reactor.wait(store.open("log"))
    assert len(readAll(reactor, log)) == acknowledged
    fails(reactor, log.append(BATCH * 50))
    assert len(readAll(reactor, log)) == acknowledged
    (directory / "rest").unlink()
    reactor.wait(log.append(BATCH))

    reactor.wait(store.states("space").put(b"place", b"1" * 2000))
    fill(directory / "rest")
    changed = store.states("space").put(b"place", b"2" * 2000)
    reactor.wait(log.delete(range(1, 100)))
    reactor.wait(changed)
    fails(reactor, store.states("space").change(big))
    assert len(readAll(reactor, log)) == acknowledged + len(BATCH) - 99

    store = reuse(reactor, store, log, directory)
    reactor.wait(store.close())
    print("fine")


class HeldJob(Job):
    """A job that occupies the thread that writes, until the test releases it."""

    frees = True

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.go = threading.Event()

    def apply(self, transaction: Any) -> None:
        self.begun.set()
        self.go.wait()


def reuse(reactor: PumpedReactor, store: Any, log: Any, directory: Path) -> Any:
    """
    Store again and again what fits into a file on a full disk, and delete it.

    @return: the store, which was opened again.
    """
    other: Any = reactor.wait(store.open("other"))
    for again in range(3):
        first = log.nextSequence
        try:
            while True:
                reactor.wait(log.append(BATCH))
        except StoreFull:
            pass
        fails(reactor, log.append(BATCH * 50))
        assert log.nextSequence > first or not again
        reactor.wait(log.discardBefore(log.nextSequence))
        assert readAll(reactor, log) == []
        reactor.wait(other.append([(b"s", b"", b"x", 0)]))
    reactor.wait(store.close())
    store = reactor.wait(openLMDB(reactor, directory / "store"))
    log, other = reactor.wait(store.open("log")), reactor.wait(store.open("other"))
    assert len(readAll(reactor, other)) == 3
    last = reactor.wait(log.append(BATCH)).stop - 1
    held = HeldJob()
    store.ask(held)
    held.begun.wait()  # What is asked now is one group.
    discarding, appending = log.discardBefore(last), log.append(BATCH * 350)
    held.go.set()
    reactor.wait(discarding)
    fails(reactor, appending)
    assert len(readAll(reactor, log)) == 1
    reactor.wait(store.drop("log"))
    reactor.wait(other.append(BATCH))
    return store


def readAll(reactor: PumpedReactor, log: Any) -> list[Any]:
    """Read all records of a log."""
    stored: list[Any] = []
    while records := reactor.wait(log.read(stored[-1].sequence + 1 if stored else 1)):
        stored += records
    return stored


if __name__ == "__main__":
    os.umask(0o077)
    execute(main)
