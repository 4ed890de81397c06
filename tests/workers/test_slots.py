"""Processes of workers; their slots are tested with the supervisor."""

from __future__ import annotations

import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from natsbroker.workers.messages import (
    Adopt,
)
from natsbroker.workers.slots import WorkerSlot, spawnWorker
from tests.workers.support import World


class Spawner:
    """A reactor that notes what it is to start."""

    def spawnProcess(self, protocol: Any, *arguments: Any, childFDs: Any) -> object:
        self.protocol, self.arguments, self.descriptors = protocol, arguments, childFDs
        return SimpleNamespace(pid=7)


@pytest.fixture
def spawner(monkeypatch: pytest.MonkeyPatch) -> Spawner:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("KEPT", "1")
    return Spawner()


def ended(signal: int | None, code: int | None) -> Failure:
    error: Any = OSError()
    error.signal, error.exitCode = signal, code
    return Failure(error)


def test_spawn(spawner: Spawner) -> None:
    """A worker is the same Python with one socket, and nothing of the service manager."""
    _, ours = spawnWorker(spawner, print, print)
    program, arguments, environment = spawner.arguments
    assert program == sys.executable
    assert arguments == [sys.executable, "-m", "natsbroker.workers.worker"]
    assert environment["KEPT"] == "1"
    assert not {"NOTIFY_SOCKET", "LISTEN_FDS"} & set(environment)
    assert (spawner.descriptors[1], spawner.descriptors[2]) == ("r", "r")
    assert ours.recv(1) == b""
    ours.close()


def test_output(spawner: Spawner) -> None:
    """Whole lines are passed on, and the rest at the end."""
    lines: list[str] = []
    ends: list[str] = []
    _, ours = spawnWorker(spawner, lines.append, ends.append)
    for data in (b"one\ntw", b"o\nthree\xff"):
        spawner.protocol.childDataReceived(2, data)
    assert lines == ["one", "two"]
    spawner.protocol.processEnded(ended(None, 3))
    assert lines[2:] == ["three\N{REPLACEMENT CHARACTER}"]
    spawner.protocol.processEnded(ended(9, None))
    assert ends == ["exit code 3", "signal 9"]
    ours.close()


def test_emptySlot() -> None:
    """A message to an empty slot is lost, and its connection closed."""
    world = World()
    slot = WorkerSlot(1, world.supervisor, MemoryReactorClock(), lambda slot, line: None)
    mine, client = socket.socketpair()
    slot.send(Adopt(1, ("h", 1)), [mine])
    assert client.recv(1) == b""
    assert slot.leave().called
    assert slot.stop().called
    assert not slot.isReady
    client.close()
