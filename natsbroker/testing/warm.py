"""
A process that has imported the broker, and forks brokers, because imports are most of the cost of a
start.

C{python -m natsbroker.testing.warm FD} is that process. Each message to its socket is a JSON object
with two descriptors, and requests one broker. Its log is written to the first descriptor; its
process id and exit status to the second. It ends when the socket is closed.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TextIO

import natsbroker

__all__ = ["CAN_FORK", "ForkedProcess", "WarmProcess"]

CAN_FORK = sys.platform == "linux"
"""
On other systems, libraries fail after a fork, or sockets between processes do not separate
messages.
"""

_MAXIMUM = 1 << 17
"""Bytes of a request: the environment and the arguments."""

_REPORT = struct.Struct("=i")
"""The process id, and later the exit status as C{waitpid} gives it."""

_AT_IMPORT = ("PYTHON", "NATSBROKER_", "LD_", "OPENSSL_", "SSL_")
"""The beginnings of variables that are read before or while the broker is imported."""

_UNUSED = ("natsbroker.spark", "natsbroker.testing", "natsbroker.monitoring.top")
"""Packages that no broker imports."""


class ForkedProcess:
    """
    A broker of a L{WarmProcess}, with the used part of the interface of C{subprocess.Popen}.

    @ivar stderr: what it logs.
    @ivar returncode: its exit status, negative for a signal, or C{None} while nobody has seen its
        end.
    """

    def __init__(self, reports: int, stderr: TextIO) -> None:
        self._reports = reports
        # Not closed as soon as the report was read, because another thread may wait for it too.
        weakref.finalize(self, os.close, reports)
        self._lock = threading.Lock()
        self.pid = self._read()
        self.stderr = stderr
        self.returncode: int | None = None

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            # Not select, which takes no descriptor above 1,023: a run of tests may have as many.
            poll = select.poll()
            poll.register(self._reports, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("natsbroker", timeout or 0)
            with self._lock:
                if self.returncode is None:
                    self.returncode = os.waitstatus_to_exitcode(self._read())
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # The process may have ended already, although its end is not reported yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read(self) -> int:
        report = os.read(self._reports, _REPORT.size)
        if not report:
            raise RuntimeError("the process that forks brokers has ended")
        number: int = _REPORT.unpack(report)[0]
        return number


class WarmProcess:
    """The process that forks brokers, which ends with the one that made it."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """
        @param environment: its variables, by default those of this process.
        """
        environment = os.environ if environment is None else environment
        self._fixed = _fixedIn(environment)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether its imports are those that a broker with these variables would make."""
        return _fixedIn(environment) == self._fixed

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: str | os.PathLike[str] | None = None,
    ) -> ForkedProcess:
        """
        @param arguments: as for C{natsbroker}.
        @param folder: the working directory of the broker; by default that of this process.
        """
        ours, log = os.pipe()
        reports, reported = os.pipe()
        request = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": os.getcwd() if folder is None else os.fspath(folder),
        }
        rights = array.array("i", [log, reported])
        try:
            self._channel.sendmsg(
                [json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
            )
        finally:
            os.close(log)
            os.close(reported)
        return ForkedProcess(reports, open(ours, errors="backslashreplace"))

    def stop(self) -> None:
        """End the process; brokers that it started live on."""
        self._channel.close()
        self._process.terminate()
        self._process.wait()

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *reason: object) -> None:
        self.stop()


def _fixedIn(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(_AT_IMPORT)}


class _Server:
    """Forks brokers and reports their ends."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._reports: dict[int, int] = {}
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def serve(self) -> None:
        """Fork requested brokers until nobody can make requests any more."""
        channel = self._channel.fileno()
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if channel in ready:
                request, descriptors, _, _ = socket.recv_fds(self._channel, _MAXIMUM, 2)
                if not request:
                    return
                self._fork(request, *descriptors)

    def _reap(self) -> None:
        while self._reports:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            report = self._reports.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # The object is gone.
                os.write(report, _REPORT.pack(status))
            os.close(report)

    def _fork(self, request: bytes, log: int, report: int) -> None:
        pid = os.fork()
        if not pid:
            self._become(log, **json.loads(request))
        self._reports[pid] = report
        os.write(report, _REPORT.pack(pid))
        os.close(log)

    def _become(
        self, log: int, arguments: list[str], environment: dict[str, str], folder: str
    ) -> None:
        """Become a broker that was just started."""
        from natsbroker.main import run

        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(log, sys.stderr.fileno())
        os.closerange(3, 1 + max(log, self._woken, *self._reports.values(), 64))
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        # As for C{python -m}: plugins may be in the folder.
        sys.path[0] = folder
        sys.argv = [os.path.join(natsbroker.__path__[0], "__main__.py"), *arguments]
        run()


def _importAll(package: str) -> None:
    """Import each module that a broker may import."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if module.name.startswith(_UNUSED) or module.name.endswith("__main__"):
            continue
        if module.ispkg:
            _importAll(module.name)
        else:
            # A module that needs an extra is not used if the extra is not installed.
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def _prepare() -> None:
    _importAll("natsbroker")
    # Forked processes cannot share one, and each looks for its own plugins.
    if "twisted.internet.reactor" in sys.modules or "twisted.plugins" in sys.modules:
        raise RuntimeError("a module of the broker makes the reactor, or looks for plugins")
    # Collections in the forked processes leave the shared objects alone.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _prepare()
    _Server(socket.socket(fileno=int(sys.argv[1]))).serve()
