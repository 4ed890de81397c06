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
from natsbroker.workers.slots import BEAT, PATIENCE, PAUSE, WorkerSlot, spawnWorker
from tests.server.support import logLines
from tests.workers.support import Make, World


class Spawner:
    """A reactor that notes the processes to start."""

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
    """
    A worker runs the same Python with one socket, and without the service manager's variables.
    """
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
    """Whole lines of output are passed on at once, the rest at the end."""
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
    """A message to an empty slot is lost, and its socket closed."""
    world = World()
    slot = WorkerSlot(1, world.supervisor, MemoryReactorClock(), lambda slot, line: None)
    mine, client = socket.socketpair()
    slot.send(Adopt(1, ("h", 1)), [mine])
    assert client.recv(1) == b""
    assert slot.leave().called
    assert slot.stop().called
    assert not slot.isReady
    client.close()


class TestHeartbeat:
    def beat(self, world: World, seconds: float, *answering: int) -> None:
        """Let time pass, in which some processes, by their places, answer."""
        for _ in range(int(seconds / BEAT)):
            world.reactor.advance(BEAT)
            for place in answering:
                world.started[place].read()
            for slot in world.supervisor.slots:
                slot.read()

    def test_hung(self, make: Make) -> None:
        """A worker that does not answer is shown in the log, killed after a while, and replaced."""
        world = make().start()
        first, second = world.supervisor.slots
        with logLines() as lines:
            self.beat(world, 2 * BEAT, 1)
            assert (first.isHung, second.isHung, first.isReady) == (True, False, True)
            assert lines == ["[WRN] Worker 1 (pid 100) does not answer"]
            self.beat(world, PATIENCE, 1)
        assert (world.started[0].signals, world.started[1].signals) == (["KILL"], [])
        assert lines[1:] == [
            "[ERR] Worker 1 (pid 100) has not answered for 30s and is killed",
            "[ERR] Worker 1 (pid 100) ended: signal KILL; the next one starts in 0.1s",
        ]
        world.reactor.advance(PAUSE)
        world.ready(world.started[2])
        assert first.isReady and not first.isHung
        self.beat(world, 2 * PATIENCE, 1, 2)
        assert len(world.started) == 3

    def test_goesOn(self, make: Make) -> None:
        """A worker that answers at last stays."""
        world = make().start()
        with logLines() as lines:
            self.beat(world, PATIENCE - 2 * BEAT, 1)
            self.beat(world, PATIENCE, 0, 1)
        assert not world.supervisor.slots[0].isHung
        assert lines == [
            "[WRN] Worker 1 (pid 100) does not answer",
            "[INF] Worker 1 (pid 100) goes on",
        ]
        assert world.started[0].signals == []
