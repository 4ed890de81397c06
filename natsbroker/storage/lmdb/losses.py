"""
Losses of a store that nobody has acknowledged. Damage that is found while the store is open is
added to its reports for the next start. If that fails, it is remembered as long as the store is
open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from natsbroker.interfaces import IStoreWatcher
from natsbroker.storage.lmdb.reports import REPORT, keep, lossOf, unacknowledged, unreported

T = TypeVar("T")

LOOK = 2.0
"""Seconds between two looks at whether what was lost is acknowledged by now."""

_log = Logger(namespace="natsbroker.storage.lmdb")


@implementer(IStoreWatcher)
class Losses:
    def __init__(self, reactor: Any, pool: ThreadPool, directory: Path) -> None:
        self._reactor = reactor
        self._pool = pool
        self._directory = directory
        self._lines: list[str] = []
        self._unwritten: list[str] = []
        self._reports: list[Path] = []
        self._isBusy = False
        self._isStopped = False
        self._call: Any = None

    @property
    def open(self) -> list[str]:
        problems = [f"see {report.name}/{REPORT}" for report in self._reports]
        return problems + self._lines + self._unwritten

    def start(self, reports: Sequence[Path]) -> None:
        self._reports = list(reports)
        self._goOn()

    def stop(self) -> None:
        self._isStopped = True
        if self._call is not None and self._call.active():
            self._call.cancel()

    def recordsDamaged(self, log: str, start: int, stop: int, reason: str) -> None:
        self._add(lossOf(log, start, stop))

    def stateDamaged(self, space: str, key: bytes, reason: str) -> None:
        if space:
            self._add(f"{key.decode('ascii', 'backslashreplace')} of {space} is lost")

    def _noLoss(self, *arguments: object) -> None:
        """Ignore the failed report: no record is lost by it."""

    logQuarantined = writesStopped = writesResumed = logLost = _noLoss

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._write()

    def _write(self) -> None:
        if self._isBusy or self._isStopped or not self._lines:
            return
        self._isBusy = True
        lines, self._lines = self._lines, []
        self._unwritten += lines
        writing = self._inThread(self._writeBlocking, lines)
        writing.addCallbacks(partial(self._written, lines), self._notWritten)

    def _writeBlocking(self, lines: Sequence[str]) -> list[Path]:
        fresh = unreported(self._directory, lines)
        if fresh:
            keep(self._directory / "none", fresh)
        return unacknowledged(self._directory)

    def _written(self, lines: Sequence[str], reports: list[Path]) -> None:
        self._isBusy = False
        self._unwritten = [line for line in self._unwritten if line not in lines]
        self._reports = reports
        self._goOn()
        self._write()

    def _notWritten(self, failure: Failure) -> None:
        self._isBusy = False
        failure.trap(OSError)
        why = failure.getErrorMessage()
        _log.error("Cannot read reports of losses in {path}: {why}", path=self._directory, why=why)

    def _goOn(self) -> None:
        if self._isStopped or not self._reports or (self._call and self._call.active()):
            return
        self._call = self._reactor.callLater(LOOK, self._look)

    def _look(self) -> None:
        self._inThread(unacknowledged, self._directory).addCallbacks(self._looked, self._notWritten)

    def _looked(self, reports: list[Path]) -> None:
        if self._reports and not reports:
            _log.info("What was lost from {path} is acknowledged", path=self._directory)
        self._reports = reports
        self._goOn()

    def _inThread(self, call: Callable[..., T], *args: Any) -> Deferred[T]:
        return deferToThreadPool(self._reactor, self._pool, call, *args)
