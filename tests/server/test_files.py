"""
The files that tell other programs about a running broker.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from natsbroker.server.files import PidFile, PortsFile, programName
from tests.server.support import logLines


class TestPidFile:
    """The process id."""

    def test_written(self, tmp_path: Path) -> None:
        """The file holds the id and nothing else, and no other file is left."""
        PidFile(str(tmp_path / "pid"), 42).write()
        assert [each.name for each in tmp_path.iterdir()] == ["pid"]
        assert (tmp_path / "pid").read_text() == "42"

    def test_replaced(self, tmp_path: Path) -> None:
        """One that a crashed process left is replaced."""
        (tmp_path / "pid").write_text("123456")
        PidFile(str(tmp_path / "pid"), 42).write()
        assert (tmp_path / "pid").read_text() == "42"

    def test_missingFolder(self, tmp_path: Path) -> None:
        """An error names the file that was asked for."""
        path = tmp_path / "missing" / "pid"
        with pytest.raises(FileNotFoundError) as error:
            PidFile(str(path), 42).write()
        assert error.value.filename == str(path)

    def test_removed(self, tmp_path: Path) -> None:
        """It is removed; removing it twice does nothing."""
        file = PidFile(str(tmp_path / "pid"), 42)
        file.write()
        file.remove()
        file.remove()
        assert list(tmp_path.iterdir()) == []

    def test_notOurs(self, tmp_path: Path) -> None:
        """If another process has written it since, it stays."""
        file = PidFile(str(tmp_path / "pid"), 42)
        file.write()
        PidFile(str(tmp_path / "pid"), 43).write()
        file.remove()
        assert (tmp_path / "pid").read_text() == "43"

    def test_device(self) -> None:
        """What is no ordinary file is written to and not replaced."""
        PidFile("/dev/null", 42).write()
        assert Path("/dev/null").is_char_device()


class TestPortsFile:
    """The ports."""

    def test_name(self, tmp_path: Path) -> None:
        """It is named after the program and its process."""
        assert PortsFile(str(tmp_path), "nats", 42).path == tmp_path / "nats_42.ports"

    def test_written(self, tmp_path: Path) -> None:
        """It lists URLs by service as JSON; services that are not there are left out."""
        file = PortsFile(str(tmp_path), "nats", 42)
        file.write({"nats": ["nats://127.0.0.1:1"], "monitoring": []})
        assert file.path.read_text() == '{"nats":["nats://127.0.0.1:1"]}'
        assert json.loads(file.path.read_text())

    def test_removed(self, tmp_path: Path) -> None:
        """It is removed; removing it twice does nothing."""
        file = PortsFile(str(tmp_path), "nats", 42)
        file.write({})
        file.remove()
        file.remove()
        assert list(tmp_path.iterdir()) == []

    def test_cannotRemove(self, tmp_path: Path) -> None:
        """What cannot be removed is logged."""
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
    """The program is named as it was started; a module by its package."""
    assert programName(path) == name
