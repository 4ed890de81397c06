"""
The destinations of log lines.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, SOCK_STREAM, socket
from typing import TextIO

import pytest
from twisted.logger import globalLogPublisher

from natsbroker.config.model import Logging
from natsbroker.daemon.logfile import LogFile, LogOutput, isJournal
from natsbroker.daemon.logs import LineLog
from natsbroker.daemon.syslog import SyslogError
from tests.server.support import logLines


def clock() -> Callable[[], datetime]:
    """A clock that advances by a second at each call."""
    moments = iter(datetime(2026, 11, 20, 16, 31, second) for second in range(60))
    return lambda: next(moments)


class TestFile:
    """One log file."""

    def test_appends(self, tmp_path: Path) -> None:
        """Lines are appended to an existing file, and are in it at once."""
        path = tmp_path / "log"
        path.write_text("old\n")
        file = LogFile(str(path))
        file.write("new\n")
        assert path.read_text() == "old\nnew\n"
        file.close()

    def test_mode(self, tmp_path: Path) -> None:
        """Only the owner and the group can read a new log file."""
        before = os.umask(0)
        try:
            LogFile(str(tmp_path / "log")).close()
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o640

    def test_missingFolder(self, tmp_path: Path) -> None:
        """A log in a missing folder cannot be opened."""
        with pytest.raises(FileNotFoundError):
            LogFile(str(tmp_path / "missing" / "log"))

    def test_reopen(self, tmp_path: Path) -> None:
        """After the file is moved, a new one begins under the old name."""
        path = tmp_path / "log"
        file = LogFile(str(path))
        file.write("a\n")
        path.rename(tmp_path / "moved")
        file.write("b\n")
        file.reopen()
        file.write("c\n")
        assert (tmp_path / "moved").read_text() == "a\nb\n"
        assert path.read_text() == "c\n"
        file.close()

    def test_reopenFails(self, tmp_path: Path) -> None:
        """If the file cannot be opened again, lines are written to the old one."""
        folder = tmp_path / "folder"
        folder.mkdir()
        file = LogFile(str(folder / "log"))
        folder.rename(tmp_path / "moved")
        with pytest.raises(OSError):
            file.reopen()
        file.write("a\n")
        assert (tmp_path / "moved" / "log").read_text() == "a\n"
        file.close()


class TestRotation:
    """Size limits of a log file."""

    def test_putAside(self, tmp_path: Path) -> None:
        """A file beyond the limit is renamed with the time, and that is logged."""
        path = tmp_path / "log"
        file = LogFile(str(path), limit=10, now=clock())
        with logLines() as lines:
            file.write("x" * 9 + "\n")
            assert lines == []
            file.write("y\n")
        aside = f"{path}.2026.11.20.16.31.00.000000000"
        assert Path(aside).read_text() == "xxxxxxxxx\ny\n"
        assert path.read_text() == ""
        assert lines == [f'[INF] Rotated log, backup saved as "{aside}"']
        file.close()

    def test_lineAboutIt(self, tmp_path: Path) -> None:
        """The line about a rotation does not rotate, however small the limit is."""
        path = tmp_path / "log"
        output = LogOutput(io.StringIO())
        settings = Logging(logfile=str(path), logfile_size_limit=5, logfile_max_num=2)
        output.prepare(settings)()
        observer = LineLog(output.write, settings, pid=1)
        globalLogPublisher.addObserver(observer)
        try:
            output.write("INF", "x" * 6)
        finally:
            globalLogPublisher.removeObserver(observer)
        (aside,) = (file for file in tmp_path.iterdir() if file != path)
        assert aside.read_text() == "x" * 6
        assert path.read_text().count("Rotated log") == 1

    def test_noFile(self, tmp_path: Path) -> None:
        """A pipe stays where it is."""
        path = tmp_path / "log"
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        file = LogFile(str(path), limit=1, now=clock())
        with logLines() as lines:
            file.write("ab\n")
        assert os.read(reader, 9) == b"ab\n"
        assert ([entry.name for entry in tmp_path.iterdir()], lines) == (["log"], [])
        file.close()
        os.close(reader)

    def test_descriptor(self, tmp_path: Path) -> None:
        """The name of a descriptor is not moved, although it leads to a file."""
        with (tmp_path / "log").open("ab") as target:
            path = f"/proc/self/fd/{target.fileno()}"
            file = LogFile(path, limit=1, now=clock())
            with logLines() as lines:
                file.write("ab\n")
            file.close()
        assert (tmp_path / "log").read_text() == "ab\n" and lines == []

    def test_sizeOfBefore(self, tmp_path: Path) -> None:
        """The size that the file already has counts towards the limit."""
        path = tmp_path / "log"
        path.write_text("x" * 20)
        file = LogFile(str(path), limit=10, now=clock())
        file.write("y\n")
        assert path.read_text() == ""
        file.close()

    def test_keep(self, tmp_path: Path) -> None:
        """
        The configured number of the newest files is kept, and files of other programs are never
        removed.
        """
        path = tmp_path / "log"
        strange = tmp_path / "log.old"
        strange.write_text("mine")
        file = LogFile(str(path), limit=1, keep=3, now=clock())
        with logLines() as lines:
            for letter in "abcd":
                file.write(letter * 2)
        kept = sorted(log.name for log in tmp_path.iterdir())
        assert kept == [
            "log",
            "log.2026.11.20.16.31.02.000000000",
            "log.2026.11.20.16.31.03.000000000",
            "log.old",
        ]
        assert '[INF] Purged log file "log.2026.11.20.16.31.00.000000000"' in lines
        file.close()

    def test_cannotRemove(self, tmp_path: Path) -> None:
        """A backup that cannot be removed does not prevent the removal of others."""
        path = tmp_path / "log"
        stuck = tmp_path / "log.2025.11.20.16.31.00.000000000"
        stuck.mkdir()
        file = LogFile(str(path), limit=1, keep=2, now=clock())
        with logLines() as lines:
            for letter in "abcd":
                file.write(letter * 2)
        kept = sorted(log.name for log in tmp_path.iterdir())
        assert kept == ["log", stuck.name, "log.2026.11.20.16.31.03.000000000"]
        assert any(line.startswith("[ERR] Unable to remove backup log file") for line in lines)
        file.close()

    def test_cannotRename(self, tmp_path: Path) -> None:
        """
        A file that cannot be renamed grows further, and the next attempt is made at twice its size.
        """
        folder = tmp_path / "folder"
        folder.mkdir()
        path = folder / "log"
        file = LogFile(str(path), limit=4, now=lambda: datetime.max - timedelta(days=1))
        folder.rename(tmp_path / "moved")
        with logLines() as lines:
            file.write("12345")
        assert file.limit == 8
        assert (tmp_path / "moved" / "log").read_text() == "12345"
        assert lines[0].startswith("[ERR] Unable to rotate the logfile")
        file.close()


class TestOutput:
    """The choice between standard error and a file."""

    def test_stream(self) -> None:
        """Without a log file, lines are written to the stream."""
        stream = io.StringIO()
        LogOutput(stream).write("INF", "a\n")
        assert stream.getvalue() == "a\n"

    def test_file(self, tmp_path: Path) -> None:
        """
        Lines are written to the configured file, and to standard error again when the settings
        remove it.
        """
        stream, path = io.StringIO(), tmp_path / "log"
        output = LogOutput(stream)
        output.prepare(Logging(logfile=str(path)))()
        output.write("INF", "a\n")
        output.prepare(Logging())()
        output.write("INF", "b\n")
        assert (path.read_text(), stream.getvalue()) == ("a\n", "b\n")

    def test_preparedIsNotUsed(self, tmp_path: Path) -> None:
        """A prepared destination is not used before it is applied."""
        stream = io.StringIO()
        output = LogOutput(stream)
        output.prepare(Logging(logfile=str(tmp_path / "log")))
        output.write("INF", "a\n")
        assert stream.getvalue() == "a\n"

    def test_limits(self, tmp_path: Path) -> None:
        """New limits for the same file apply at once."""
        path = tmp_path / "log"
        output = LogOutput(io.StringIO())
        output.prepare(Logging(logfile=str(path)))()
        output.write("INF", "aaaa\n")
        output.prepare(Logging(logfile=str(path), logfile_size_limit=3))()
        output.write("INF", "b\n")
        assert path.read_text() == ""
        assert len(list(tmp_path.iterdir())) == 2

    def test_cannotOpen(self, tmp_path: Path) -> None:
        """A file that cannot be opened is refused."""
        with pytest.raises(OSError):
            LogOutput(io.StringIO()).prepare(Logging(logfile=str(tmp_path / "x" / "log")))

    def test_reopen(self, tmp_path: Path) -> None:
        """The file is opened again, and that is logged."""
        path = tmp_path / "log"
        output = LogOutput(io.StringIO())
        output.prepare(Logging(logfile=str(path)))()
        path.unlink()
        with logLines() as lines:
            output.reopen()
        output.write("INF", "a\n")
        assert path.read_text() == "a\n"
        assert lines == ["[INF] File log re-opened"]

    def test_reopenStream(self) -> None:
        """Reopening without a log file does nothing."""
        with logLines() as lines:
            LogOutput(io.StringIO()).reopen()
        assert lines == ["[INF] File log re-open ignored, not a file logger"]

    def test_reopenFails(self, tmp_path: Path) -> None:
        """A file that cannot be opened again is reported."""
        folder = tmp_path / "folder"
        folder.mkdir()
        output = LogOutput(io.StringIO())
        output.prepare(Logging(logfile=str(folder / "log")))()
        folder.rename(tmp_path / "moved")
        with logLines() as lines:
            output.reopen()
        assert lines[0].startswith("[ERR] File log not re-opened")


def fileStream(path: Path) -> TextIO:
    """A stream that writes to a file."""
    return path.open("w")


class TestJournal:
    """Standard error that is read by systemd's journal."""

    def test_priorities(self, tmp_path: Path) -> None:
        """Lines for the journal begin with their priority."""
        with fileStream(tmp_path / "journal") as stream:
            status = os.fstat(stream.fileno())
            place = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
            output = LogOutput(stream, place)
            output.write("INF", "a\n")
            output.write("FTL", "b\n")
            output.write("DBG", "c\n")
        assert (tmp_path / "journal").read_text() == "<5>a\n<2>b\n<7>c\n"

    def test_redirected(self, tmp_path: Path) -> None:
        """Lines to a stream that is not the journal have no priority."""
        with fileStream(tmp_path / "log") as stream:
            LogOutput(stream, {"JOURNAL_STREAM": "1:2"}).write("INF", "a\n")
        assert (tmp_path / "log").read_text() == "a\n"

    def test_noDescriptor(self) -> None:
        """A stream in memory is not the journal."""
        assert not isJournal(io.StringIO(), {"JOURNAL_STREAM": "1:2"})

    def test_file(self, tmp_path: Path) -> None:
        """Lines in a log file have no priority, even if standard error is the journal."""
        path = tmp_path / "log"
        with fileStream(tmp_path / "journal") as stream:
            status = os.fstat(stream.fileno())
            output = LogOutput(stream, {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
            output.prepare(Logging(logfile=str(path)))()
            output.write("INF", "a\n")
        assert path.read_text() == "a\n"


class TestSyslog:
    """A syslog daemon as the destination."""

    def test_reload(self, tmp_path: Path) -> None:
        """
        A reload that configures a file ends the use of the daemon. With the same URL its socket
        stays open.
        """
        with socket(AF_INET, SOCK_DGRAM) as daemon:
            daemon.bind(("127.0.0.1", 0))
            daemon.settimeout(5)
            url = f"udp://127.0.0.1:{daemon.getsockname()[1]}"
            output = LogOutput(io.StringIO())
            output.prepare(Logging(remote_syslog=url))()
            output.write("WRN", "a")
            assert daemon.recv(1000).endswith(b"]: a\n")
            output.prepare(Logging(remote_syslog=url, debug=True))()
            output.write("WRN", "b")
            assert daemon.recv(1000).endswith(b"]: b\n")
            output.prepare(Logging(remote_syslog=url, logfile=str(tmp_path / "log")))()
            output.write("WRN", "c\n")
        assert (tmp_path / "log").read_text() == "c\n"

    def test_unreachableDaemon(self) -> None:
        """A daemon that cannot be reached is an error, and the log stays where it is."""
        with socket(AF_INET, SOCK_STREAM) as closed:
            closed.bind(("127.0.0.1", 0))
            url = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
            stream = io.StringIO()
            output = LogOutput(stream)
            with pytest.raises(SyslogError, match="error connecting to syslog: connection refused"):
                output.prepare(Logging(remote_syslog=url))
            output.write("INF", "a\n")
        assert stream.getvalue() == "a\n"
