"""
Lines of the log that a worker sends to its parent. The worker formats each line and puts its label
first, because the parent may need that for a journal or syslog.
"""

from __future__ import annotations

from typing import TextIO

from twisted.logger import ILogObserver, LogEvent, Logger, LogLevel
from zope.interface import implementer

from natsbroker.config.model import Logging
from natsbroker.daemon.logs import LineLog
from natsbroker.runtime.reload import LIFE

_log = Logger(namespace="natsbroker")

_LEVELS = {
    "TRC": LogLevel.debug,
    "DBG": LogLevel.debug,
    "INF": LogLevel.info,
    "WRN": LogLevel.warn,
    "ERR": LogLevel.error,
    "FTL": LogLevel.critical,
}


@implementer(ILogObserver)
class WorkerLog:
    """The log of a worker, which omits the lines about the server as a whole."""

    def __init__(self, stream: TextIO, settings: Logging) -> None:
        self._stream = stream
        self._lines = LineLog(self._write, settings)

    def use(self, settings: Logging) -> None:
        self._lines.settings = settings

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_namespace") != LIFE:
            self._lines(event)

    def _write(self, label: str, line: str) -> None:
        self._stream.write(f"{label} {line}")
        self._stream.flush()


def relay(line: str, number: int) -> None:
    """Log a line of a worker. A line without a label was printed by Python itself."""
    label, _, text = line.partition(" ")
    level = _LEVELS.get(label)
    if level is None:
        _log.error("Worker {number}: {line}", number=number, line=line)
    else:
        _log.emit(level, "{worker_line}", worker_label=label, worker_line=f"{text}\n")
