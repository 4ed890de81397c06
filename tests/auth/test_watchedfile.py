"""
Tests of L{natsbroker.auth.watchedfile}.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred

from natsbroker.auth import watchedfile as restingfile
from natsbroker.auth.watchedfile import WatchedFile, readSnapshot
from tests.server.support import logLines


class World:
    """
    A watched file, and threads that the test runs.

    @ivar taken: the texts that were read.
    @ivar jobs: the calls that wait for a thread.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.taken: list[str] = []
        self.jobs: list[Any] = []
        self.file = WatchedFile(str(path), self.thread, self.taken.append)
        self._time = 1_000_000_000

    def thread(self, call: Any, *arguments: Any) -> Deferred[Any]:
        """Queue a call for a thread."""
        result: Deferred[Any] = Deferred()
        self.jobs.append(lambda: maybeDeferred(call, *arguments).chainDeferred(result))
        return result

    def run(self) -> None:
        """Let the threads run the queued calls."""
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job()

    def write(self, text: str | bytes) -> None:
        """Write the file, with a new modification time."""
        self.path.write_bytes(text.encode() if isinstance(text, str) else text)
        self._time += 1
        os.utime(self.path, (self._time, self._time))

    def load(self) -> list[Any]:
        """Read the file for the first time."""
        outcome: list[Any] = []
        self.file.load().addCallbacks(outcome.append, lambda why: outcome.append(why.value))
        self.run()
        return outcome

    def look(self, times: int = 1) -> list[str]:
        """Look at the file, and return the texts that were taken since the last time."""
        for _ in range(times):
            self.file.look()
            self.run()
        taken = self.taken[:]
        self.taken.clear()
        return taken


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A watched file that was read once."""
    world = World(tmp_path / "file")
    world.write("one")
    assert world.load() == [None]
    assert world.look(2) == ["one"]
    return world


def test_fileChanges(world: World) -> None:
    """A change is taken at the second look that sees the same file, and only once."""
    world.write("two")
    assert world.look() == []
    assert world.look() == ["two"]
    assert world.look(3) == []


def test_sameSizeAndPlace(world: World) -> None:
    """A replaced file counts as changed, although name, size and time are the same."""
    other = world.path.with_name("other")
    other.write_text("eno")
    times = world.path.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(world.path)
    assert world.look(2) == ["eno"]


def test_unrest(world: World) -> None:
    """A file is not read while it is being written."""
    for text in ("t", "tw", "two", "two\n"):
        world.write(text)
        assert world.look() == []
    assert world.look() == ["two\n"]


def test_changedWhileRead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes while it is read is read again, later."""
    world.write("two")
    world.look()
    read = restingfile.readSnapshot

    def slowly(path: str) -> Any:
        snapshot = read(path)
        world.write("three")
        return snapshot

    with monkeypatch.context() as patch:
        patch.setattr(restingfile, "readSnapshot", slowly)
        assert world.look() == []
    assert world.look(2) == ["three"]


def test_fileIsRemoved(world: World) -> None:
    """The content of a removed file stays in use. A new file of this name is read."""
    world.path.unlink()
    assert world.look(3) == []
    world.write("two")
    assert world.look(2) == ["two"]


def test_complaint(world: World) -> None:
    """An unreadable file is logged once, and again if the error changes."""
    with logLines() as lines:
        world.write(b"\xff")
        assert world.look(4) == []
        world.path.unlink()
        assert world.look(2) == []
    told = [line for line in lines if "its earlier content stays in force" in line]
    assert ["UTF-8" in line for line in told] == [True, False]


@pytest.mark.parametrize("text", [None, b"\xff", b"x" * 20])
def test_load(tmp_path: Path, text: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read the first time is an error with the reason."""
    monkeypatch.setattr(restingfile, "LONGEST", 19)
    world = World(tmp_path / "file")
    if text is not None:
        world.path.write_bytes(text)
    [error] = world.load()
    assert isinstance(error, (OSError, ValueError))
    assert "file" in str(error)


def test_readInThreads(world: World) -> None:
    """The file is read in threads only, and one look at a time."""
    world.write("two")
    for _ in range(5):
        world.file.look()
    assert len(world.jobs) == 1
    world.run()
    assert world.look() == ["two"]


def test_newPath(world: World) -> None:
    """A new path takes effect, also while the file of the old path is being read."""
    other = world.path.with_name("other")
    other.write_text("other")
    world.write("two")
    world.look()
    world.file.look()
    world.file.use(str(other), readSnapshot(str(other)))
    world.run()
    assert world.look(3) == ["other"]
    other.write_text("another")
    assert world.look(2) == ["another"]
