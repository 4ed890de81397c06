"""
The log of a whole process.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from twisted.logger import Logger

from natsbroker.config.model import Logging
from natsbroker.server.processlog import ProcessLog
from tests.server.support import settingsOf


def say(log: ProcessLog, text: str) -> None:
    """Log a line."""
    Logger(namespace="natsbroker", observer=log.observer).info(text)


def test_fileWins(tmp_path: Path) -> None:
    """Lines go to the file of the settings, else to the default file, else to the stream."""
    stream = io.StringIO()
    first, second = tmp_path / "first", tmp_path / "second"
    for named, default in ((str(first), str(second)), ("", str(second)), ("", "")):
        log = ProcessLog(stream, Logging(logfile=named, logtime=False), default)
        log.open()
        say(log, "x")
    assert [path.read_text().count("[INF] x") for path in (first, second)] == [1, 1]
    assert stream.getvalue().count("[INF] x") == 1


def test_reload(tmp_path: Path) -> None:
    """A reload moves the log, and back to the default file; a file must be one that opens."""
    default, other = tmp_path / "default", tmp_path / "other"
    log = ProcessLog(io.StringIO(), Logging(), str(default))
    log.open()
    with pytest.raises(ValueError, match=r"log file .*: No such file"):
        log.plan(settingsOf(f'log_file: "{tmp_path}/missing/log"'), ())
    log.plan(settingsOf(f'log_file: "{other}"'), ())()
    say(log, "moved")
    log.plan(settingsOf("debug: true"), ())()
    say(log, "back")
    assert "moved" in other.read_text() and "back" not in other.read_text()
    assert "back" in default.read_text() and log.observer.settings.debug


def test_reopen(tmp_path: Path) -> None:
    """The file is opened again after it was moved."""
    path = tmp_path / "log"
    log = ProcessLog(io.StringIO(), Logging(), str(path))
    log.open()
    path.rename(tmp_path / "old")
    log.reopen()
    say(log, "new")
    assert "new" in path.read_text()
