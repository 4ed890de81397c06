"""
The log in nats-server's format.
"""

from __future__ import annotations

import io
import json
import os
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import Logger, LogLevel, LogPublisher
from twisted.python.failure import Failure

from natsbroker.config.model import Logging
from natsbroker.daemon.logs import LineLog, ProcessLog
from natsbroker.runtime.debugging import debugging
from tests.server.support import settingsOf

MOMENT = 1_795_192_302.469933


@pytest.fixture(autouse=True)
def afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore debug events for other tests."""
    monkeypatch.setattr(debugging, "isShown", True)


class Log:
    """A logger and its lines."""

    def __init__(self, settings: Logging | None = None, namespace: str = "natsbroker") -> None:
        self.lines: list[str] = []
        self.observer = LineLog(
            lambda label, line: self.lines.append(line),
            settings or Logging(logtime=False),
            42,
            timezone(timedelta(hours=1)),
        )
        publisher = LogPublisher(self.observer)
        self.logger = Logger(namespace=namespace, observer=publisher)

    def emit(self, level: LogLevel = LogLevel.info, form: str = "hi", **values: Any) -> list[str]:
        """Log an event, and return all lines so far."""
        self.logger.emit(level, form, **values)
        return self.lines


class TestFormat:
    """The format of a line."""

    @pytest.mark.parametrize(
        ("level", "label"),
        [
            (LogLevel.debug, "DBG"),
            (LogLevel.info, "INF"),
            (LogLevel.warn, "WRN"),
            (LogLevel.error, "ERR"),
            (LogLevel.critical, "FTL"),
        ],
    )
    def test_labels(self, level: LogLevel, label: str) -> None:
        """Each level has nats-server's label."""
        log = Log(Logging(logtime=False, debug=True))
        assert log.emit(level) == [f"[42] [{label}] hi\n"]

    def test_trace(self) -> None:
        """A traced line has its own label, and is shown without debugging."""
        assert Log().emit(LogLevel.debug, trace=True) == ["[42] [TRC] hi\n"]

    def test_localTime(self) -> None:
        """The time is the local one, with microseconds."""
        log = Log(Logging())
        log.observer({"log_namespace": "natsbroker", "log_time": MOMENT, "log_format": "hi"})
        assert log.lines == ["[42] 2026/11/20 17:31:42.469933 [INF] hi\n"]

    def test_utc(self) -> None:
        """The time of log lines may be UTC."""
        log = Log(Logging(logtime_utc=True))
        log.observer({"log_namespace": "natsbroker", "log_time": MOMENT, "log_format": "hi"})
        assert log.lines == ["[42] 2026/11/20 16:31:42.469933 [INF] hi\n"]

    def test_ownPid(self) -> None:
        """The default process id is that of this process."""
        lines: list[str] = []
        LineLog(lambda label, line: lines.append(line), Logging(logtime=False))(
            {"log_format": "x", "log_level": LogLevel.warn}
        )
        assert lines == [f"[{os.getpid()}] [WRN] x\n"]


class TestJson:
    """Lines of JSON."""

    def test_members(self) -> None:
        """A line is an object with time, level, process id and text."""
        log = Log(Logging(log_format="json", logtime_utc=True))
        text = 'say "{word}"\n\u2028'
        log.observer(
            {
                "log_namespace": "natsbroker",
                "log_time": MOMENT,
                "log_level": LogLevel.warn,
                "log_format": text,
                "word": "hi",
            }
        )
        assert log.lines[0].count("\n") == 1
        assert json.loads(log.lines[0]) == {
            "time": "2026-11-20T16:31:42.469933+00:00",
            "level": "warning",
            "pid": 42,
            "logger": "natsbroker",
            "message": 'say "hi"\n\u2028',
        }

    def test_failure(self) -> None:
        """A failure is one line that has the traceback as a member."""
        log = Log(Logging(log_format="json", logtime=False))
        try:
            raise ValueError("broken")
        except ValueError:
            log.logger.failure("It failed")
        (line,) = log.lines
        document = json.loads(line)
        assert (document["level"], document["message"]) == ("fatal", "It failed")
        assert document["traceback"].endswith("builtins.ValueError: broken")
        assert "time" not in document

    def test_trace(self) -> None:
        """Traced lines are marked as such."""
        log = Log(Logging(log_format="json", logtime=False))
        log.emit(LogLevel.debug, "PING", trace=True)
        assert json.loads(log.lines[0])["level"] == "trace"


class TestSyslog:
    """The lines for a syslog daemon."""

    def test_text(self) -> None:
        """A line for syslog has only the text, because the daemon adds the rest."""
        log = Log(Logging(remote_syslog="udp://127.0.0.1:514"))
        assert log.emit(LogLevel.info, "a\nb") == ["a\\nb"]

    def test_json(self) -> None:
        """A line for syslog is JSON if that is the format."""
        log = Log(Logging(remote_syslog="udp://127.0.0.1:514", log_format="json"))
        assert json.loads(log.emit(LogLevel.info, "a")[0])["message"] == "a"


class TestSelection:
    """The choice of log lines."""

    def test_debug(self) -> None:
        """Debug lines are omitted unless debugging is enabled."""
        assert Log().emit(LogLevel.debug) == []
        assert Log(Logging(logtime=False, debug=True)).emit(LogLevel.debug) != []

    def test_otherLibraries(self) -> None:
        """
        An informational event of another library is logged as debug, and its warnings as warnings.
        """
        log = Log(namespace="twisted.internet")
        assert log.emit(LogLevel.info) == []
        assert log.emit(LogLevel.warn) == ["[42] [WRN] hi\n"]

    def test_settingsChange(self) -> None:
        """Changed settings apply to the next line."""
        log = Log()
        log.observer.settings = Logging(logtime=False, debug=True)
        assert log.emit(LogLevel.debug) == ["[42] [DBG] hi\n"]

    def test_empty(self) -> None:
        """An event without a text has no line."""
        log = Log()
        log.observer({"log_namespace": "natsbroker", "log_level": LogLevel.info})
        assert log.lines == []


class TestSafety:
    """Texts of peers in the log."""

    def test_oneLine(self) -> None:
        """Line ends and escape sequences in a text are escaped."""
        text = "a\r\n[auth] admin ok\x1b[31m\u2028"
        assert Log().emit(form="{text}", text=text) == [
            "[42] [INF] a\\r\\n[auth] admin ok\\x1b[31m\\u2028\n"
        ]

    def test_notAFormat(self) -> None:
        """Braces in a text are shown unchanged."""
        text = "{log_system} {x.boom()} {0} {"
        assert Log().emit(form="{text}", text=text) == [f"[42] [INF] {text}\n"]

    @given(st.text())
    def test_anyText(self, text: str) -> None:
        """Any text becomes one line of printable ASCII."""
        [line] = Log().emit(form="{text}x", text=text)
        assert line.endswith("x\n")
        assert all(" " <= character <= "~" for character in line[:-1])


class TestFailures:
    """Exceptions."""

    def test_repeated(self) -> None:
        """
        A few failures of the same kind at the same place are logged, and the rest are counted.
        """
        log = Log()

        def fail(place: int, error: Exception, when: float) -> list[str]:
            try:
                if place:
                    raise error
                raise error
            except Exception:
                failure = Failure()
            before = len(log.lines)
            log.observer(
                {
                    "log_level": LogLevel.critical,
                    "log_format": "{peer} failed",
                    "log_failure": failure,
                    "log_time": when,
                    "peer": when,
                }
            )
            return [line.rstrip("\n")[11:] for line in log.lines[before:]]

        told = [fail(0, MemoryError(), 100 + place / 1000) for place in range(4000)]
        assert [bool(report) for report in told] == [True] * 3 + [False] * 3997
        assert told[0][0] == "100.0 failed" and told[0][-1] == "builtins.MemoryError:"
        assert fail(1, MemoryError(), 104) and fail(0, ValueError(), 104)
        assert fail(0, MemoryError(), 109.9) == []
        assert fail(0, MemoryError(), 110)[:2] == [
            "110 failed",
            "3998 failures like the following were left out",
        ]
        assert len(fail(0, MemoryError(), 110.5)) == len(told[0])

    def test_manyKinds(self) -> None:
        """A limited number of kinds of failures is remembered."""
        log = Log()
        for number in range(1000):
            log.logger.failure(f"{number}", Failure(ValueError()))
        assert len(log.observer._repeated._kinds) == 256

    def test_traceback(self) -> None:
        """Each line of a traceback is a line of the log."""
        log = Log()
        try:
            raise ZeroDivisionError("a\nb")
        except ZeroDivisionError:
            log.logger.failure("It failed", Failure())
        assert log.lines[0] == "[42] [FTL] It failed\n"
        assert len(log.lines) > 3
        assert all(line.startswith("[42] [FTL] ") for line in log.lines)
        assert any("ZeroDivisionError: a" in line for line in log.lines)


def say(log: ProcessLog, text: str) -> None:
    """Log an event."""
    Logger(namespace="natsbroker", observer=log.observer).info(text)


def test_fileWins(tmp_path: Path) -> None:
    """
    Lines are written to the configured file, or else to the default file, or else to the stream.
    """
    stream = io.StringIO()
    first, second = tmp_path / "first", tmp_path / "second"
    for named, default in ((str(first), str(second)), ("", str(second)), ("", "")):
        log = ProcessLog(stream, Logging(logfile=named, logtime=False), default)
        log.open()
        say(log, "x")
    assert [path.read_text().count("[INF] x") for path in (first, second)] == [1, 1]
    assert stream.getvalue().count("[INF] x") == 1


def test_reload(tmp_path: Path) -> None:
    """
    A reload changes the log file, also back to the default one, and is refused if the file cannot
    be opened.
    """
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


def test_debugging(tmp_path: Path) -> None:
    """Frequent debug events are made only while the log shows them, or while no log is open."""
    log = ProcessLog(io.StringIO(), Logging())
    log.open()
    shown = [debugging.isShown]
    for text in ("debug: true", "debug: false"):
        log.plan(settingsOf(text), ())()
        shown.append(debugging.isShown)
    log.close()
    assert [*shown, debugging.isShown] == [False, True, False, True]


def test_reopen(tmp_path: Path) -> None:
    """A log file that was moved is opened again under its name."""
    path = tmp_path / "log"
    log = ProcessLog(io.StringIO(), Logging(), str(path))
    log.open()
    path.rename(tmp_path / "old")
    log.reopen()
    say(log, "new")
    assert "new" in path.read_text()
