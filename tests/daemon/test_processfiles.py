"""
The files of a broker that runs in a process.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from natsbroker.config.errors import ConfigError
from natsbroker.config.model import Settings
from natsbroker.daemon.processfiles import PidFile, PortsFile, ProcessFiles, programName
from natsbroker.runtime.failures import StartError
from natsbroker.server.configuration.build import buildText
from tests.server.support import Host, logLines, settingsOf


class Surrounded:
    """
    A broker with its process files.

    @ivar text: the present content of the configuration file.
    """

    def __init__(self, text: str, pid: int | None = 42, hasFile: bool = True) -> None:
        self.text = text
        self.host = Host(text)
        self.processFiles = ProcessFiles(
            self.host.broker, "nats", self.read if hasFile else None, pid
        )
        self.processFiles.setServiceParent(self.host.broker)  # type: ignore[no-untyped-call]

    def read(self) -> Settings:
        """Read the configuration file."""
        return settingsOf(self.text)

    def reload(self, text: str) -> list[str]:
        """Change the file, reload, and return the log lines."""
        self.text = text
        with logLines() as lines:
            self.processFiles.reload()
        return lines

    def stop(self) -> None:
        """Stop the broker."""
        done: list[Any] = []
        self.host.broker.stopService().addCallback(done.append)
        assert done == [None]


def test_missingFolder(tmp_path: Path) -> None:
    """A missing folder is reported with its key and the position in the configuration file."""
    missing = tmp_path / "missing"
    text = f'pidfile: "{missing}/pid"\nports_file_dir: "{missing}"'
    settings = buildText(text, {}, "x.conf").settings
    host = Host(settings)
    processFiles: Any = ProcessFiles(host.broker, "nats", None, 42)
    processFiles.setServiceParent(host.broker)
    with pytest.raises(StartError, match=r"^x\.conf:1:1: pidfile: Could not write pidfile: "):
        host.start()
    host = Host(replace(settings, pidfile=""))
    processFiles = ProcessFiles(host.broker, "nats", None, 42)
    processFiles.setServiceParent(host.broker)
    with logLines() as lines:
        host.start()
    wrong = "[ERR] x.conf:2:1: ports_file_dir: Error writing ports file"
    assert any(line.startswith(wrong) for line in lines)


class TestPidFileOfBroker:
    """The pid file of a broker."""

    def test_life(self, tmp_path: Path) -> None:
        """The pid file exists while the broker runs."""
        path = tmp_path / "pid"
        made = Surrounded(f'pidfile: "{path}"')
        assert not path.exists()
        made.host.start()
        assert path.read_text() == "42"
        made.stop()
        assert not path.exists()

    def test_ownPid(self, tmp_path: Path) -> None:
        """
        The pid file has the id of the process that starts the service, because twistd forks before
        that.
        """
        path = tmp_path / "pid"
        made = Surrounded(f'pidfile: "{path}"', None)
        assert made.processFiles._pid == 0
        made.host.start()
        assert path.read_text() == str(os.getpid())
        made.stop()

    def test_cannotWrite(self, tmp_path: Path) -> None:
        """
        A broker whose pid file cannot be written does not start, and the error is that of
        nats-server.
        """
        path = tmp_path / "missing" / "pid"
        with pytest.raises(StartError) as error:
            Surrounded(f'pidfile: "{path}"').host.start()
        text = f"Could not write pidfile: open {path}: no such file or directory"
        assert str(error.value) == text

    def test_moves(self, tmp_path: Path) -> None:
        """A reload may move the pid file."""
        made = Surrounded(f'pidfile: "{tmp_path}/a"')
        made.host.start()
        lines = made.reload(f'pidfile: "{tmp_path}/b"')
        assert f"[INF] Reloaded: pid_file = {tmp_path}/b" in lines
        assert [path.name for path in tmp_path.iterdir()] == ["b"]
        made.reload("port: 4222")
        assert list(tmp_path.iterdir()) == []

    def test_cannotMove(self, tmp_path: Path) -> None:
        """A reload that cannot write the new pid file logs that."""
        made = Surrounded("port: 4222")
        made.host.start()
        lines = made.reload(f'pidfile: "{tmp_path}/missing/b"')
        assert any(line.startswith("[ERR] Failed to write pidfile: open") for line in lines)


class TestPortsFileOfBroker:
    """The ports file of a broker."""

    def test_life(self, tmp_path: Path) -> None:
        """The ports file exists while the broker listens, and has its addresses."""
        made = Surrounded(f'ports_file_dir: "{tmp_path}"\nport: 4001\nhttp_port: 4002')
        made.host.start()
        path = tmp_path / "nats_42.ports"
        assert json.loads(path.read_text()) == {
            "nats": ["nats://127.0.0.1:4001"],
            "monitoring": ["http://127.0.0.1:4002"],
        }
        made.stop()
        assert list(tmp_path.iterdir()) == []

    def test_moves(self, tmp_path: Path) -> None:
        """A reload may move the ports file."""
        for name in "ab":
            (tmp_path / name).mkdir()
        made = Surrounded(f'ports_file_dir: "{tmp_path}/a"\nport: 4001')
        made.host.start()
        made.reload(f'ports_file_dir: "{tmp_path}/b"\nport: 4001')
        assert list((tmp_path / "a").iterdir()) == []
        assert (tmp_path / "b" / "nats_42.ports").exists()

    def test_cannotWrite(self, tmp_path: Path) -> None:
        """A broker whose ports file cannot be written logs that and runs."""
        made = Surrounded(f'ports_file_dir: "{tmp_path}/missing"')
        with logLines() as lines:
            made.host.start()
        assert any(line.startswith("[ERR] Error writing ports file") for line in lines)
        assert made.host.broker.running


class TestReload:
    """Reloads of the configuration file."""

    def test_taken(self) -> None:
        """A reload applies the new content of the file."""
        made = Surrounded("max_payload: 5")
        made.host.start()
        lines = made.reload("max_payload: 6")
        assert made.host.broker.settings.max_payload == 6
        assert "[INF] Reloaded: max_payload = 6" in lines

    def test_refusedSettings(self) -> None:
        """A refused reload logs every reason in a line, and nothing changes."""
        made = Surrounded("port: 4001\nmax_payload: 5")
        made.host.start()
        lines = made.reload("port: 4002\nserver_name: x\nmax_payload: 6")
        assert lines == [
            "[ERR] Failed to reload server configuration: "
            "config reload not supported for ServerName: old=, new=x",
            "[ERR] Failed to reload server configuration: "
            "config reload not supported for Port: old=4001, new=4002",
        ]
        assert made.host.broker.settings.max_payload == 5

    def test_mistakesInTheFile(self) -> None:
        """Every mistake in the file is logged at a reload, in one line each."""
        made = Surrounded("port: 4001")
        made.host.start()
        lines = made.reload("bogus: 1\nbad: 2")
        prefix = "[ERR] Failed to reload server configuration: "
        assert [line.removeprefix(prefix) for line in lines] == [
            ':1:1: unknown field "bogus"',
            ':2:1: unknown field "bad"',
        ]

    def test_unreadable(self) -> None:
        """A file that is gone is logged at a reload."""
        made = Surrounded("port: 4001")
        made.host.start()

        def read() -> Settings:
            raise ConfigError("open x.conf: no such file or directory")

        made.processFiles._read = read
        assert made.reload("") == [
            "[ERR] Failed to reload server configuration: open x.conf: no such file or directory"
        ]

    def test_noFile(self) -> None:
        """A reload without a configuration file does nothing."""
        made = Surrounded("port: 4001", hasFile=False)
        made.host.start()
        assert made.reload("") == [
            "[ERR] Failed to reload server configuration: "
            "can only reload config when a file is provided using -c or --config"
        ]


class TestPidFile:
    """A pid file."""

    def test_written(self, tmp_path: Path) -> None:
        """The pid file contains only the id, and no other file is left."""
        PidFile(str(tmp_path / "pid"), 42).write()
        assert [path.name for path in tmp_path.iterdir()] == ["pid"]
        assert (tmp_path / "pid").read_text() == "42"

    def test_replaced(self, tmp_path: Path) -> None:
        """A pid file of a crashed process is replaced."""
        (tmp_path / "pid").write_text("123456")
        PidFile(str(tmp_path / "pid"), 42).write()
        assert (tmp_path / "pid").read_text() == "42"

    def test_missingFolder(self, tmp_path: Path) -> None:
        """The error for a missing folder names the pid file."""
        path = tmp_path / "missing" / "pid"
        with pytest.raises(FileNotFoundError) as error:
            PidFile(str(path), 42).write()
        assert error.value.filename == str(path)

    def test_removed(self, tmp_path: Path) -> None:
        """The pid file is removed. Removing it twice does nothing."""
        file = PidFile(str(tmp_path / "pid"), 42)
        file.write()
        file.remove()
        file.remove()
        assert list(tmp_path.iterdir()) == []

    def test_notOurs(self, tmp_path: Path) -> None:
        """A pid file that another process has overwritten is not removed."""
        file = PidFile(str(tmp_path / "pid"), 42)
        file.write()
        PidFile(str(tmp_path / "pid"), 43).write()
        file.remove()
        assert (tmp_path / "pid").read_text() == "43"

    def test_device(self) -> None:
        """A path that is not a regular file is written to and not replaced."""
        PidFile("/dev/null", 42).write()
        assert Path("/dev/null").is_char_device()


class TestPortsFile:
    """A ports file."""

    def test_name(self, tmp_path: Path) -> None:
        """The ports file is named after the program and its process."""
        assert PortsFile(str(tmp_path), "nats", 42).path == tmp_path / "nats_42.ports"

    def test_written(self, tmp_path: Path) -> None:
        """The ports file lists URLs by service as JSON, without services that do not listen."""
        file = PortsFile(str(tmp_path), "nats", 42)
        file.write({"nats": ["nats://127.0.0.1:1"], "monitoring": []})
        assert file.path.read_text() == '{"nats":["nats://127.0.0.1:1"]}'
        assert json.loads(file.path.read_text())

    def test_removed(self, tmp_path: Path) -> None:
        """The ports file is removed. Removing it twice does nothing."""
        file = PortsFile(str(tmp_path), "nats", 42)
        file.write({})
        file.remove()
        file.remove()
        assert list(tmp_path.iterdir()) == []

    def test_cannotRemove(self, tmp_path: Path) -> None:
        """A file that cannot be removed is logged."""
        file = PortsFile(str(tmp_path), "nats", 42)
        file.path.mkdir()
        with logLines() as lines:
            file.remove()
        assert lines[0].startswith("[ERR] Error cleaning up ports file")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/bin/natsbroker", "natsbroker"),
        ("nats-server", "nats-server"),
        ("/lib/python/natsbroker/__main__.py", "natsbroker"),
        ("", "natsbroker"),
    ],
)
def test_programName(path: str, name: str) -> None:
    """The name of the program is that of the script. For a module it is that of its package."""
    assert programName(path) == name
