"""
A text file that another program writes. After each change it is read again in a thread, once it has
stayed the same between two checks. If it cannot be read, its last text stays in use, and one error
is logged.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.auth.passwords import RunInThread

#: Bytes that a file may have.
LONGEST = 16 * 1024 * 1024

_log = Logger()

#: The metadata that tell two states of a file apart.
_Stamp = tuple[int, ...]


class Snapshot(NamedTuple):
    stamp: _Stamp
    text: str | None


def _stampOf(path: str) -> _Stamp:
    status = os.stat(path)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def readSnapshot(path: str) -> Snapshot:
    """Read a file; C{ValueError} if it is too long or not UTF-8."""
    stamp = _stampOf(path)
    with open(path, "rb") as file:
        data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise ValueError(f"{path} has more than {LONGEST} bytes")
    try:
        return Snapshot(stamp, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8") from error


def _look(path: str, known: _Stamp, seen: _Stamp) -> Snapshot:
    """Read a file if it differs from the known state, and has not changed since the last check."""
    stamp = _stampOf(path)
    if stamp == known or stamp != seen:
        return Snapshot(stamp, None)
    snapshot = readSnapshot(path)
    return snapshot if snapshot.stamp == _stampOf(path) else Snapshot(snapshot.stamp, None)


class WatchedFile:
    def __init__(self, path: str, runInThread: RunInThread, take: Callable[[str], None]) -> None:
        self.path = path
        self._runInThread = runInThread
        self._take = take
        self._known: _Stamp = ()
        self._seen: _Stamp = ()
        self._looking: Deferred[Any] | None = None
        self._complaint = ""

    def load(self) -> Deferred[None]:
        """Fires after the first reading, or fails with C{OSError} or C{ValueError}."""
        return self._runInThread(readSnapshot, self.path).addCallback(self._loaded)

    def _loaded(self, snapshot: Snapshot) -> None:
        self.use(self.path, snapshot)

    def use(self, path: str, snapshot: Snapshot) -> None:
        self.path = path
        self._known = self._seen = snapshot.stamp
        self._complaint = ""
        self._take(snapshot.text or "")

    def look(self) -> Deferred[None]:
        """Check for a change, unless a check runs; never fails."""
        if self._looking is not None:
            return succeed(None)
        path = self.path
        looking = self._looking = self._runInThread(_look, path, self._known, self._seen)
        return looking.addCallbacks(self._looked, self._failed, (path,)).addBoth(self._rested)

    def _looked(self, snapshot: Snapshot, path: str) -> None:
        if path != self.path:
            return
        self._seen = snapshot.stamp
        if snapshot.text is not None:
            self._known = snapshot.stamp
            self._complaint = ""
            self._take(snapshot.text)

    def _failed(self, failure: Failure) -> None:
        # The file is read again only after it has stopped changing.
        self._seen = ()
        complaint = str(failure.value)
        if complaint != self._complaint:
            self._complaint = complaint
            _log.error(
                "Cannot read {path}, so its earlier content stays in force: {why}",
                path=self.path,
                why=complaint,
            )

    def _rested(self, outcome: Any) -> None:
        self._looking = None
        if isinstance(outcome, Failure):
            _log.failure("{path} could not be used", outcome, path=self.path)
