"""Tests for L{natsbroker.daemon.syslog}, with daemons on sockets."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from natsbroker.config.model import LOCAL_SYSLOG
from natsbroker.daemon import syslog
from natsbroker.daemon.syslog import SyslogError, SyslogOutput

MOMENT = 1_795_190_400.0


@pytest.fixture
def udp() -> Iterator[socket.socket]:
    """A syslog daemon on UDP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(5)
        yield daemon


@pytest.fixture
def tcp() -> Iterator[socket.socket]:
    """A syslog daemon that listens on TCP."""
    with socket.create_server(("127.0.0.1", 0)) as daemon:
        daemon.settimeout(5)
        yield daemon


def urlOf(daemon: socket.socket) -> str:
    """The URL of a daemon."""
    scheme = "udp" if daemon.type == socket.SOCK_DGRAM else "tcp"
    return f"{scheme}://127.0.0.1:{daemon.getsockname()[1]}"


def accepted(daemon: socket.socket) -> socket.socket:
    """The next connection to a daemon."""
    connection = daemon.accept()[0]
    connection.settimeout(5)
    return connection


class TestRemote:
    """A syslog daemon on another machine."""

    def test_line(self, udp: socket.socket) -> None:
        """A line has priority, time, host, program and process id, in Go's format."""
        output = SyslogOutput(urlOf(udp), lambda: MOMENT)
        output.write("ERR", "it failed")
        text = udp.recv(1000).decode()
        host = re.escape(socket.gethostname())
        moment = r"2026-11-2\dT\d\d:\d\d:00(Z|[+-]\d\d:\d\d)"
        assert re.fullmatch(rf"<3>{moment} {host} \S+\[{os.getpid()}\]: it failed\n", text)
        output.close()

    @pytest.mark.parametrize(
        ("label", "priority"), [("FTL", 2), ("WRN", 4), ("INF", 5), ("TRC", 5), ("DBG", 7)]
    )
    def test_priorities(self, udp: socket.socket, label: str, priority: int) -> None:
        """The severities are nats-server's."""
        output = SyslogOutput(urlOf(udp))
        output.write(label, "x")
        assert udp.recv(1000).startswith(b"<%d>" % priority)
        output.close()

    def test_tcp(self, tcp: socket.socket) -> None:
        """Over TCP a line ends with a line feed, and waiting lines are sent at the end."""
        output = SyslogOutput(urlOf(tcp))
        connection = accepted(tcp)
        for number in range(100):
            output.write("INF", f"line {number}")
        output.close()
        lines = connection.makefile("rb").read().splitlines()
        assert [line.rpartition(b" ")[2] for line in lines] == [b"%d" % n for n in range(100)]
        connection.close()

    def test_reconnects(self, tcp: socket.socket) -> None:
        """A lost connection to the daemon is opened again."""
        output = SyslogOutput(urlOf(tcp))
        accepted(tcp).close()
        connection = None
        tcp.settimeout(0.05)
        for _ in range(100):
            output.write("INF", "x")
            try:
                connection = accepted(tcp)
                break
            except TimeoutError:
                continue
        assert connection is not None
        assert connection.recv(1000).endswith(b"]: x\n")
        connection.close()
        output.close()

    def test_tooMany(self, tcp: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Lines that a slow daemon does not read are dropped and counted. The broker does not wait.
        """
        monkeypatch.setattr(syslog, "_MOST", 2)
        monkeypatch.setattr(syslog, "_TIMEOUT", 0.5)
        output = SyslogOutput(urlOf(tcp))
        connection = accepted(tcp)
        for _ in range(1000):
            output.write("INF", "x" * 100_000)
        assert output._dropped > 0
        connection.close()
        output.close()

    @pytest.mark.parametrize("url", ["tcp://127.0.0.1:%d", "unix:///nowhere/%d"])
    def test_unreachableDaemon(self, url: str) -> None:
        """A daemon that cannot be reached is an error."""
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            with pytest.raises(SyslogError, match="error connecting to syslog"):
                SyslogOutput(url % bound.getsockname()[1])


class TestLocal:
    """The syslog daemon of this machine."""

    def test_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A line for the local daemon has the facility "daemon" and no host."""
        path = str(tmp_path / "log")
        monkeypatch.setattr(syslog, "_PLACES", ("/nowhere", path))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
            daemon.bind(path)
            daemon.settimeout(5)
            output = SyslogOutput(LOCAL_SYSLOG, lambda: MOMENT)
            output.write("INF", "caf\u00e9")
            text = daemon.recv(1000).decode("ascii")
            output.close()
        assert re.fullmatch(r"<29>Nov 2\d \d\d:\d\d:00 \S+\[\d+\]: caf\\xe9\n", text)

    def test_noSyslog(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A machine without syslog is an error."""
        monkeypatch.setattr(syslog, "_PLACES", ("/nowhere",))
        with pytest.raises(SyslogError, match="no syslog daemon on this machine"):
            SyslogOutput(LOCAL_SYSLOG)
