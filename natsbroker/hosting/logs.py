"""
The log in nats-server's format.

Promises: one event is one line of printable ASCII, whatever a peer put into it; nothing that a
peer says is ever used as a format. Tracebacks are a line for each of theirs.
Must never know: who logs.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.config.model import Logging

__all__ = ["LineLog", "printable"]

_LABELS = {
    LogLevel.debug: "DBG",
    LogLevel.info: "INF",
    LogLevel.warn: "WRN",
    LogLevel.error: "ERR",
    LogLevel.critical: "FTL",
}

_UNPRINTABLE = re.compile(r"[^ -~]")


def printable(text: str) -> str:
    """
    Text with everything but printable ASCII escaped as in Python.
    """
    return _UNPRINTABLE.sub(lambda found: ascii(found.group())[1:-1], text)


@implementer(ILogObserver)
class LineLog:
    """
    Turns events into lines.

    @ivar settings: what is logged, and how.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        settings: Logging,
        pid: int | None = None,
        zone: timezone | None = None,
    ) -> None:
        """
        @param write: takes a line with its end.
        @param pid: the process id to show; by default our own, at each line: twistd forks after the
            log has begun.
        @param zone: the local time zone; by default the machine's.
        """
        self._write = write
        self._pid = pid
        self._zone = zone
        self.settings = settings

    def __call__(self, event: LogEvent) -> None:
        label = self._labelOf(event)
        if label:
            for line in _linesOf(event):
                self._write(f"{self._prefix(event)}[{label}] {line}\n")

    def _labelOf(self, event: LogEvent) -> str:
        """
        The level's name; empty for an event that is not shown.
        """
        level = event.get("log_level", LogLevel.info)
        ours = str(event.get("log_namespace", "")).startswith("natsbroker")
        if event.get("trace"):
            return "TRC"
        if level is LogLevel.debug or (level is LogLevel.info and not ours):
            return "DBG" if self.settings.debug else ""
        return _LABELS.get(level, "INF")

    def _prefix(self, event: LogEvent) -> str:
        pid = os.getpid() if self._pid is None else self._pid
        if not self.settings.logtime:
            return f"[{pid}] "
        seconds = float(event.get("log_time", time.time()))
        zone = timezone.utc if self.settings.logtime_utc else self._zone
        when = datetime.fromtimestamp(seconds, zone)
        return f"[{pid}] {when:%Y/%m/%d %H:%M:%S.%f} "


def _linesOf(event: LogEvent) -> list[str]:
    text = formatEvent(event)
    failure: Any = event.get("log_failure")
    lines = [text] if text else []
    if isinstance(failure, Failure):
        lines += failure.getTraceback().rstrip().splitlines()
    return [printable(line) for line in lines]
