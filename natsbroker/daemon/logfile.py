"""
The destination of log lines: syslog, standard error, or a file that is rotated by its size and can
be opened again after another program moved it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TextIO

from twisted.logger import Logger

from natsbroker.config.model import Logging
from natsbroker.daemon.syslog import PRIORITIES, SyslogOutput

_log = Logger(namespace="natsbroker")

_MODE = 0o640
#: Folders whose entries are no files of their own: renaming one would take it from all programs.
_DEVICES = ("/dev/", "/proc/")

_STAMP = re.compile(r"\d{4}(\.\d{2}){5}\.\d{9}")


class LogFile:
    def __init__(
        self, path: str, limit: int = 0, keep: int = 0, now: Callable[[], datetime] = datetime.now
    ) -> None:
        """
        @param limit: bytes after which it is rotated; 0 for never.
        @param keep: the most files to keep, this one included; 0 for any number.
        """
        self.path = path
        self.limit = limit
        self.keep = keep
        self._now = now
        self._isRotating = False
        self._open()

    def _open(self) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _MODE)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        status = os.fstat(descriptor)
        self._size = status.st_size
        self._isFile = stat.S_ISREG(status.st_mode) and not self.path.startswith(_DEVICES)

    def write(self, line: str) -> None:
        data = line.encode("ascii", "backslashreplace")
        self._file.write(data)
        self._size += len(data)
        # The lines about a rotation, which are written meanwhile, may be longer than the limit.
        if 0 < self.limit < self._size and self._isFile and not self._isRotating:
            self._isRotating = True
            try:
                self._rotate()
            finally:
                self._isRotating = False

    def reopen(self) -> None:
        """Raise C{OSError} if it cannot be opened; the old file stays in use."""
        old = self._file
        self._open()
        old.close()

    def close(self) -> None:
        self._file.close()

    def _rotate(self) -> None:
        aside = f"{self.path}.{self._now():%Y.%m.%d.%H.%M.%S.%f}000"
        try:
            os.rename(self.path, aside)
            self.reopen()
        except OSError as error:
            self.limit *= 2
            _log.error(
                "Unable to rotate the logfile ({error}), will attempt next rotation at size {size}",
                error=error,
                size=self.limit,
            )
            return
        _log.info('Rotated log, backup saved as "{path}"', path=aside)
        if self.keep:
            self._purge()

    def _purge(self) -> None:
        path = Path(self.path)
        prefix = path.name + "."
        backups = sorted(
            file
            for file in path.parent.iterdir()
            if file.name.startswith(prefix) and _STAMP.fullmatch(file.name[len(prefix) :])
        )
        for old in backups[: max(len(backups) - (self.keep - 1), 0)]:
            try:
                old.unlink()
            except OSError as error:
                _log.error("Unable to remove backup log file {path} ({e})", path=old, e=error)
                continue
            _log.info('Purged log file "{path}"', path=old.name)


class LogOutput:
    def __init__(self, stream: TextIO, environment: Mapping[str, str] = os.environ) -> None:
        self._stream = stream
        self._isJournal = isJournal(stream, environment)
        self._file: LogFile | None = None
        self._syslog: SyslogOutput | None = None

    def prepare(self, logging: Logging) -> Callable[[], None]:
        current = self._file
        if current is not None and current.path == logging.logfile:
            file: LogFile | None = current
        elif logging.logfile:
            file = LogFile(logging.logfile)
        else:
            file = None
        daemon, url = self._syslog, logging.collector
        syslog = daemon if daemon is not None and daemon.url == url else None
        if url and syslog is None:
            syslog = SyslogOutput(url)

        def apply() -> None:
            self._syslog = syslog
            if daemon is not None and daemon is not syslog:
                daemon.close()
            if file is not None:
                file.limit, file.keep = logging.logfile_size_limit, logging.logfile_max_num
            self._file = file
            if current is not None and current is not file:
                current.close()

        return apply

    def write(self, label: str, line: str) -> None:
        if self._file is not None:
            self._file.write(line)
        elif self._syslog is not None:
            self._syslog.write(label, line.rstrip("\n"))
        else:
            self._stream.write(f"<{PRIORITIES[label]}>{line}" if self._isJournal else line)
            self._stream.flush()

    def close(self) -> None:
        if self._syslog is not None:
            self._syslog.close()

    def reopen(self) -> None:
        if self._file is None:
            _log.info("File log re-open ignored, not a file logger")
            return
        try:
            self._file.reopen()
        except OSError as error:
            _log.error("File log not re-opened: {error}", error=error)
        else:
            _log.info("File log re-opened")


def isJournal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether a stream is still C{JOURNAL_STREAM}, which accepts a priority as C{<N>}."""
    named = environment.get("JOURNAL_STREAM")
    if not named:
        return False
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # also of a stream in memory
        return False
    return named == f"{status.st_dev}:{status.st_ino}"
