"""Tests for L{natsbroker.testing.warm}."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from natsbroker.testing.process import DidNotStart, startBroker
from natsbroker.testing.warm import WarmProcess


@pytest.fixture
def warm(natsbrokerWarm: WarmProcess | None) -> WarmProcess:
    """The process of this session that forks brokers."""
    if natsbrokerWarm is None:
        pytest.skip("processes are not forked here")
    return natsbrokerWarm


def parentOf(pid: int) -> int:
    """The parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_forks(warm: WarmProcess) -> None:
    """
    A broker is forked from the warm process, with its own arguments, and reports its exit status.
    """
    with (
        startBroker("-n", "one", warm=warm) as one,
        startBroker("-n", "other", warm=warm) as other,
    ):
        parents = {parentOf(one.pid), parentOf(other.pid)}
        assert len(parents) == 1 and os.getpid() not in parents
        assert "Name:     one" in one.log and "Name:     other" in other.log
        assert one.port != other.port
        os.kill(other.pid, 9)
        assert other.stop() == -9
    assert one.stop() == 0


def test_folder(warm: WarmProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is relative to the test's directory, and variables are the test's."""
    (tmp_path / "mine.conf").write_text("server_name: $NAME")
    monkeypatch.chdir(tmp_path)
    with startBroker("-c", "mine.conf", environment={"NAME": "mine"}, warm=warm) as broker:
        assert "Name:     mine" in broker.log


def test_doesNotStart(warm: WarmProcess) -> None:
    """A broker that cannot start reports the reason."""
    with pytest.raises(DidNotStart, match="no-such-file"):
        startBroker("-c", "no-such-file.conf", warm=warm)


def test_otherImports(warm: WarmProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that affect imports start a separate process, even if they are inherited."""
    started: list[list[str]] = []

    def noted(command: list[str], **options: object) -> None:
        started.append(command)
        raise DidNotStart

    monkeypatch.setattr(subprocess, "Popen", noted)
    with pytest.raises(DidNotStart):
        startBroker(environment={"PYTHONPATH": str(tmp_path)}, warm=warm)
    monkeypatch.setenv("NATSBROKER_PURE", "" if os.environ.get("NATSBROKER_PURE") else "1")
    with pytest.raises(DidNotStart):
        startBroker(warm=warm)
    assert [command[0] for command in started] == [sys.executable] * 2
