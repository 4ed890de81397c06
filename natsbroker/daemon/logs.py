"""
The log in nats-server's format: one event is one line of printable ASCII, and text of a peer is
never used as a format.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, TextIO

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.config.diff import Change
from natsbroker.config.model import Logging, Settings
from natsbroker.daemon.logfile import LogOutput
from natsbroker.daemon.syslog import SyslogError
from natsbroker.errors import printableASCII
from natsbroker.runtime.debugging import debugging
from natsbroker.runtime.reload import Step

_LABELS = {
    LogLevel.debug: "DBG",
    LogLevel.info: "INF",
    LogLevel.warn: "WRN",
    LogLevel.error: "ERR",
    LogLevel.critical: "FTL",
}

_LEVELS = {
    "TRC": "trace",
    "DBG": "debug",
    "INF": "info",
    "WRN": "warning",
    "ERR": "error",
    "FTL": "fatal",
}
"""The label of a line -> the level in JSON."""


@implementer(ILogObserver)
@dataclass(eq=False)
class LineLog:
    """The log. C{pid} is looked up for each line, because twistd forks after the log has begun."""

    write: Callable[[str, str], object]
    settings: Logging
    pid: int | None = None
    zone: timezone | None = None

    def __post_init__(self) -> None:
        self._repeated = _Repeated()

    def __call__(self, event: LogEvent) -> None:
        if "worker_line" in event:
            # A worker has formatted the line with the same settings.
            self.write(event["worker_label"], event["worker_line"])
            return
        label = self._labelOf(event)
        left = self._repeated.leftOut(event) if label else 0
        if label and left is not None:
            for line in self._formatted(event, label, _linesOf(event, left)):
                self.write(label, line)

    def _formatted(self, event: LogEvent, label: str, lines: list[str]) -> list[str]:
        if self.settings.log_format == "json":
            return [self._document(event, label, lines)]
        lines = [printableASCII(line) for line in lines]
        if self.settings.collector:
            # The collector adds the time and the process.
            return lines
        return [f"{self._prefix(event)}[{label}] {line}\n" for line in lines]

    def _document(self, event: LogEvent, label: str, lines: list[str]) -> str:
        """One line of JSON in ASCII. A failure's traceback is a member of its own."""
        document: dict[str, object] = {}
        if self.settings.logtime:
            zone = timezone.utc if self.settings.logtime_utc else self.zone
            when = datetime.fromtimestamp(_secondsOf(event), zone).astimezone(zone)
            document["time"] = when.isoformat(timespec="microseconds")
        document["level"] = _LEVELS[label]
        document["pid"] = os.getpid() if self.pid is None else self.pid
        document["logger"] = str(event.get("log_namespace", ""))
        traceback = len(lines) - len(_traceback(event))
        document["message"] = "\n".join(lines[:traceback])
        if lines[traceback:]:
            document["traceback"] = "\n".join(lines[traceback:])
        return json.dumps(document, separators=(",", ":")) + "\n"

    def _labelOf(self, event: LogEvent) -> str:
        level = event.get("log_level", LogLevel.info)
        ours = str(event.get("log_namespace", "")).startswith("natsbroker")
        if event.get("trace"):
            return "TRC"
        if level is LogLevel.debug or (level is LogLevel.info and not ours):
            return "DBG" if self.settings.debug else ""
        return _LABELS.get(level, "INF")

    def _prefix(self, event: LogEvent) -> str:
        pid = os.getpid() if self.pid is None else self.pid
        if not self.settings.logtime:
            return f"[{pid}] "
        seconds = _secondsOf(event)
        zone = timezone.utc if self.settings.logtime_utc else self.zone
        when = datetime.fromtimestamp(seconds, zone)
        return f"[{pid}] {when:%Y/%m/%d %H:%M:%S.%f} "


def _secondsOf(event: LogEvent) -> float:
    return float(event.get("log_time", time.time()))


class _Repeated:
    """
    The failures that were logged lately, by kind: the same type at the same place. Where memory or
    file descriptors are short, one place may fail thousands of times in a second.

    @cvar MOST: failures of a kind that are logged in an interval; the others are left out.
    @cvar INTERVAL: in seconds.
    @cvar KINDS: the most kinds to remember.
    """

    MOST = 3
    INTERVAL = 10.0
    KINDS = 256

    def __init__(self) -> None:
        # By kind: the start of its interval, the failures since then, and the events that were left
        # out.
        self._kinds: dict[object, tuple[float, int, int]] = {}

    def leftOut(self, event: LogEvent) -> int | None:
        """The number left out before an event; C{None} if it is left out too."""
        failure: Any = event.get("log_failure")
        if not isinstance(failure, Failure):
            return 0
        kind = (event.get("log_format"), failure.type, *(failure.frames or [()])[-1][:3])
        now = _secondsOf(event)
        since, count, left = self._kinds.pop(kind, (now, 0, 0))
        if not since <= now < since + self.INTERVAL:
            since, count = now, 0
        isLeftOut = count >= self.MOST
        self._kinds[kind] = (since, count + 1, left + 1 if isLeftOut else 0)
        if len(self._kinds) > self.KINDS:
            del self._kinds[next(iter(self._kinds))]
        return None if isLeftOut else left


def _linesOf(event: LogEvent, left: int) -> list[str]:
    text = formatEvent(event)
    lines = [text] if text else []
    if left:
        lines.append(f"{left} failures like the following were left out")
    return lines + _traceback(event)


def _traceback(event: LogEvent) -> list[str]:
    failure: Any = event.get("log_failure")
    if not isinstance(failure, Failure):
        return []
    return failure.getTraceback().rstrip().splitlines()


class ProcessLog:
    def __init__(self, stream: TextIO, logging: Logging, default: str = "") -> None:
        self._default = default
        self._output = LogOutput(stream)
        self._logging = self._complete(logging)
        self.observer = LineLog(self._output.write, self._logging)

    def _complete(self, logging: Logging) -> Logging:
        default = "" if logging.collector else self._default
        return replace(logging, logfile=logging.logfile or default)

    def open(self) -> None:
        self._output.prepare(self._logging)()
        debugging.isShown = self._logging.debug

    def reopen(self) -> None:
        self._output.reopen()

    def close(self) -> None:
        debugging.isShown = True
        self._output.close()

    def plan(self, new: Settings, changes: Sequence[Change]) -> Step:
        logging = self._complete(new.logging)
        try:
            redirect = self._output.prepare(logging)
        except OSError as error:
            raise ValueError(f"log file {logging.logfile}: {error.strerror}") from error
        except SyslogError as error:
            raise ValueError(str(error)) from error

        def apply() -> None:
            self.observer.settings = logging
            debugging.isShown = logging.debug
            redirect()

        return apply
