"""
A broker as a process, here without a new one: its log, its signals and its exit code.

tests/interop/test_process.py does the same with real processes.
"""

from __future__ import annotations

import gc
import io
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.application.service import Service
from twisted.internet.error import CannotListenError
from twisted.internet.task import Clock
from twisted.logger import globalLogBeginner, globalLogPublisher

from natsbroker.config.model import Settings
from natsbroker.daemon import process as module
from natsbroker.daemon.process import (
    DUE,
    IDLE,
    INTERVAL,
    OVERDUE,
    PART,
    FullPasses,
    ServerProcess,
    busySeconds,
)
from tests.server.managers import listeningManager
from tests.server.reactors import Reactor
from tests.server.support import Host, settingsOf


@pytest.fixture(autouse=True)
def logPublisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process log beside the observers of the test run, until the test ends."""
    begun: list[Any] = []

    def begin(observers: Any, redirectStandardIO: bool = True) -> None:
        assert not redirectStandardIO
        for observer in observers:
            begun.append(observer)
            globalLogPublisher.addObserver(observer)

    monkeypatch.setattr(globalLogBeginner, "beginLoggingTo", begin)
    yield
    for observer in begun:
        globalLogPublisher.removeObserver(observer)


class Run:
    """
    One run of a process.

    @ivar text: the content of the configuration file.
    """

    def __init__(
        self,
        text: str,
        *steps: Callable[[], object],
        hasFile: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.text = text
        self.stderr = io.StringIO()
        self.reactor = Reactor(*steps)
        self.process = ServerProcess(
            settingsOf(text),
            self.reactor,
            self.stderr,
            "nats",
            self.read if hasFile else None,
            ["careful"],
            environment=environment or {},
        )

    def read(self) -> Settings:
        """Read the configuration file."""
        return settingsOf(self.text)

    def run(self) -> int:
        """Run the process to its end."""
        return self.process.run()

    def connect(self) -> None:
        """Connect a client."""
        broker = self.process._broker
        assert broker is not None
        Host.around(broker).client()

    @property
    def lines(self) -> list[str]:
        """The log lines, without time and process id."""
        return ["[" + line.split(" [", 1)[1] for line in self.stderr.getvalue().splitlines()]


def send(number: int) -> Callable[[], None]:
    """A step that sends a signal to this process."""
    return lambda: os.kill(os.getpid(), number)


class TestLife:
    """A process from its start to its end."""

    @pytest.mark.parametrize(
        ("number", "name"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupt")]
    )
    def test_stopped(self, number: int, name: str) -> None:
        """TERM and INT stop the process with exit code 0, and the log says so."""
        run = Run("port: 4222", send(number))
        assert run.run() == 0
        assert run.reactor.stopped == 1
        assert "[WRN] careful" in run.lines
        assert run.lines[-5:] == [
            "[INF] Listening for client connections on 0.0.0.0:4222",
            "[INF] Server is ready",
            f'[INF] Trapped "{name}" signal',
            "[INF] Initiating Shutdown...",
            "[INF] Server Exiting..",
        ]

    def test_signalHandlers(self) -> None:
        """The earlier handler of a signal is restored after the run."""
        signals = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
        before = [signal.getsignal(number) for number in signals]
        Run("port: 4222", send(signal.SIGTERM)).run()
        assert [signal.getsignal(number) for number in signals] == before

    def test_files(self, tmp_path: Path) -> None:
        """The pid file and the ports file exist while the process runs."""
        seen: list[list[str]] = []
        run = Run(
            f'pidfile: "{tmp_path}/pid"\nports_file_dir: "{tmp_path}"',
            lambda: seen.append(sorted(path.name for path in tmp_path.iterdir())),
            send(signal.SIGTERM),
        )
        assert run.run() == 0
        assert seen == [[f"nats_{os.getpid()}.ports", "pid"]]
        assert list(tmp_path.iterdir()) == []


class TestCannotStart:
    """Reasons for a failed start."""

    def test_portInUse(self) -> None:
        """A port in use ends the start with one line for the reason, and exit code 1."""
        run = Run("port: 4222")

        def listenTCP(*arguments: Any, **more: Any) -> Any:
            raise CannotListenError("0.0.0.0", 4222, OSError(98, "Address already in use"))

        run.reactor.listenTCP = listenTCP  # type: ignore[method-assign]
        assert run.run() == 1
        assert [line for line in run.lines if "FTL" in line] == [
            "[FTL] Error listening on port: 0.0.0.0:4222, "
            '"listen tcp 0.0.0.0:4222: bind: address already in use"'
        ]
        assert run.reactor.stopped == 1

    def test_plugin(self) -> None:
        """A missing plugin ends the start with the reason."""
        run = Run("authorization { plugin: nobody_has_this }")
        assert run.run() == 1
        reason = "authorization.plugin: there is no IAuthorizerPlugin"
        assert any("[FTL]" in line and reason in line for line in run.lines)

    @pytest.mark.parametrize("error", [RuntimeError("broken"), SystemExit(3)])
    def test_unforeseen(
        self,
        error: BaseException,
        monkeypatch: pytest.MonkeyPatch,
        flushLoggedErrors: Any,
    ) -> None:
        """
        Any other exception of a service ends the start, because a process that listens to nothing
        is useless.
        """

        def startService(listeners: Any) -> None:
            raise error

        monkeypatch.setattr(Service, "startService", startService)
        run = Run("port: 4222")
        assert run.run() == 1
        [line] = [line for line in run.lines if "FTL" in line]
        assert line.startswith(f"[FTL] Cannot start: {type(error).__name__} at {__file__}:")
        assert [failure.value for failure in flushLoggedErrors(type(error))] == [error]
        assert run.reactor.stopped == 1

    def test_pidFile(self, tmp_path: Path) -> None:
        """A pid file that cannot be written ends the start."""
        run = Run(f'pidfile: "{tmp_path}/missing/pid"')
        assert run.run() == 1
        assert any("[FTL] Could not write pidfile: open" in line for line in run.lines)

    def test_logFile(self, tmp_path: Path) -> None:
        """A log file that cannot be opened is an error for the caller."""
        with pytest.raises(OSError):
            Run(f'logfile: "{tmp_path}/missing/log"').run()


class TestLog:
    """The log of a running process."""

    def test_file(self, tmp_path: Path) -> None:
        """The log goes to a file if one is configured. USR1 opens it again."""
        path = tmp_path / "log"

        def move() -> None:
            path.rename(tmp_path / "moved")

        run = Run(f'logfile: "{path}"', move, send(signal.SIGUSR1), send(signal.SIGTERM))
        assert run.run() == 0
        assert run.stderr.getvalue() == ""
        assert "Server is ready" in (tmp_path / "moved").read_text()
        text = path.read_text()
        assert "File log re-opened" in text and "Server Exiting.." in text

    def test_reload(self, tmp_path: Path) -> None:
        """HUP changes the log file and the levels."""
        path = tmp_path / "log"
        run: Run

        def change() -> None:
            run.text = f'debug: true\nlogfile: "{path}"'

        run = Run("port: 4222", change, send(signal.SIGHUP), send(signal.SIGTERM))
        assert run.run() == 0
        assert '[INF] Trapped "hangup" signal' in run.lines
        text = path.read_text()
        assert "[INF] Reloaded: debug = true" in text
        assert "Server Exiting.." in text
        assert "Server Exiting.." not in run.stderr.getvalue()

    def test_reloadFails(self, tmp_path: Path) -> None:
        """A reload with a log file that cannot be opened is refused, and nothing changes."""
        run: Run

        def change() -> None:
            run.text = f'debug: true\nlogfile: "{tmp_path}/missing/log"'

        run = Run("port: 4222", change, send(signal.SIGHUP), send(signal.SIGTERM))
        assert run.run() == 0
        assert any("Failed to reload server configuration: log file" in line for line in run.lines)
        assert not any("[DBG]" in line for line in run.lines)


class TestServiceManager:
    """Notifications to systemd."""

    def test_notifications(self, tmp_path: Path) -> None:
        """systemd is notified when the broker is ready, reloads, and stops."""
        with listeningManager(tmp_path) as manager:
            steps = (signal.SIGHUP, signal.SIGTERM)
            run = Run("port: 4222", *map(send, steps), environment=manager.environment)
            assert run.run() == 0
            notified = [notice.partition("\n")[0] for notice in manager.received()]
        assert notified == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]

    def test_failedStart(self, tmp_path: Path) -> None:
        """systemd is not notified of a broker that cannot start."""
        with listeningManager(tmp_path) as manager:
            text = "authorization { plugin: nobody_has_this }"
            assert Run(text, environment=manager.environment).run() == 1
            assert manager.received() == []


class TestLameDuck:
    """Lame duck mode by USR2."""

    TIMES = 'lame_duck_grace_period: "1s"\nlame_duck_duration: "30s"'

    def test_noClients(self) -> None:
        """Lame duck mode without clients ends at once, with exit code 0."""
        run = Run(self.TIMES, send(signal.SIGUSR2))
        assert run.run() == 0
        assert run.reactor.stopped == 1
        assert "[INF] Entering lame duck mode, stop accepting new clients" in run.lines
        assert run.lines[-1] == "[INF] Server Exiting.."

    def test_client(self) -> None:
        """
        Lame duck mode with a client takes its full duration, and TERM does not shorten it, as with
        nats-server.
        """
        stopped: list[int] = []
        run = Run(
            self.TIMES,
            lambda: run.connect(),
            send(signal.SIGUSR2),
            send(signal.SIGTERM),
            lambda: run.reactor.advance(0.9),
            lambda: stopped.append(run.reactor.stopped),
            lambda: run.reactor.advance(0.2),
            send(signal.SIGUSR2),
        )
        assert run.run() == 0
        assert (stopped, run.reactor.stopped) == ([0], 1)
        assert "[INF] Closing existing clients" in run.lines

    def test_interrupt(self) -> None:
        """INT ends lame duck mode at once."""
        run = Run(self.TIMES, lambda: run.connect(), send(signal.SIGUSR2), send(signal.SIGINT))
        assert run.run() == 0
        assert run.reactor.stopped == 1
        assert "[INF] Closing existing clients" not in run.lines


class Process:
    """
    A process whose garbage collector is simulated.

    @ivar young: the young collections since the last full one.
    @ivar full: the number of full collections.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.worked = 0.0
        self.young = self.full = 0
        self.cost = 0.0
        self.passes = FullPasses(self.clock, lambda: self.worked)

    def collect(self) -> None:
        self.full += 1
        self.young = 0
        self.worked += self.cost

    def second(self, work: float, young: int) -> int:
        """Let a second pass, and return the number of full collections in it."""
        before = self.full
        self.worked += work
        self.young += young
        self.clock.advance(INTERVAL)
        return self.full - before


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    here = Process()
    here.passes.start()
    monkeypatch.setattr(
        module,
        "gc",
        SimpleNamespace(
            collect=here.collect,
            get_count=lambda: (0, 0, here.young),
            set_threshold=gc.set_threshold,
        ),
    )
    yield here
    here.passes.stop()


def test_idle(process: Process) -> None:
    """A full collection is delayed while there is work, and runs when there is little."""
    assert [process.second(0.5, DUE) for _ in range(4)] == [0, 0, 0, 0]
    assert process.second(IDLE / 2, 0) == 1
    assert process.second(IDLE / 2, DUE - 1) == 0


def test_overdue(process: Process) -> None:
    """A full collection is not delayed without limit."""
    assert process.second(0.5, OVERDUE - 1) == 0
    assert process.second(0.5, 1) == 1


def test_part(process: Process) -> None:
    """Long full collections are rare, so that they take a small part of the time."""
    process.cost = 0.5
    assert process.second(0.0, DUE) == 1
    assert [process.second(0.0, DUE), process.second(0.9, OVERDUE)] == [0, 0]
    process.worked += PART * process.cost
    assert process.second(0.0, 0) == 1


def test_automatic(process: Process) -> None:
    """
    The collector makes no full collections by itself while the process runs, and does again
    afterwards.
    """
    during = gc.get_threshold()
    process.passes.stop()
    after = gc.get_threshold()
    assert during[:2] == after[:2]
    assert during[2] > 1_000_000 > after[2]


def test_busySeconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits for a processor counts as busy."""
    monkeypatch.setattr(module, "threadTimes", lambda: (1.5, 0.25))
    assert busySeconds() == 1.75
