"""A real broker in a process of its own, on a port of loopback that the kernel chose."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from threading import Event, Thread

from natsbroker.testing.warm import ForkedProcess, WarmProcess

__all__ = ["PATIENCE", "BrokerProcess", "DidNotStart", "startBroker"]

#: The time, in seconds, that a broker has to be ready by default: enough for a machine that is busy
#: with other tests.
PATIENCE = 60.0

_LISTENING = re.compile(r"Listening for client connections on \S+:(\d+)")


class DidNotStart(Exception):
    """The broker ended before it was ready, or was silent for too long. The text is its log."""


class BrokerProcess:
    def __init__(
        self,
        process: subprocess.Popen[str] | ForkedProcess,
        log: Path,
        folder: tempfile.TemporaryDirectory[str],
    ) -> None:
        self._process = process
        self._log = log
        self._folder = folder
        self._ended = ""
        self.port = 0
        self.pid = process.pid

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """Its whole log so far, also after its end."""
        return self._log.read_text("utf-8", "replace") if self._log.exists() else self._ended

    def stop(self, patience: float = 10.0) -> int:
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            if self._log.exists():
                self._ended = self.log
            self._log.unlink(missing_ok=True)
            self._folder.cleanup()

    def __enter__(self) -> BrokerProcess:
        return self

    def __exit__(self, *reason: object) -> None:
        self.stop()


def startBroker(
    *arguments: str | int | PathLike[str],
    environment: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
    warm: WarmProcess | None = None,
    **others: object,
) -> BrokerProcess:
    """
    Start a broker. Its folder for temporary files, where JetStream stores without C{store_dir}, is
    its own and goes with it.

    @param arguments: of the C{natsbroker} command; an option and its value are two arguments.
    @param environment: the changes of the environment.
    @param patience: the seconds that it may take to be ready.
    @param warm: forks the broker, unless the environment changes what a broker imports.
    @raise DidNotStart: if it is not ready within that time.
    @raise TypeError: for an argument that the command does not take.
    @raise ValueError: for several arguments in one text.
    """
    for name in others:
        text = "options are texts, as the natsbroker command takes them"
        raise TypeError(f'there is no argument {name}: {text}, such as "-js" or "--port", "4222"')
    given = list(map(_argument, arguments))
    number, name = tempfile.mkstemp(prefix="natsbroker-", suffix=".log")
    os.close(number)
    log = Path(name)
    folder = tempfile.TemporaryDirectory(prefix="natsbroker-", ignore_cleanup_errors=True)
    variables = {**os.environ, "TMPDIR": folder.name, **(environment or {})}
    process = _run(["-a", "127.0.0.1", "-p", "-1", *given], variables, warm)
    broker = BrokerProcess(process, log, folder)
    decided = Event()
    Thread(target=_copy, args=(broker, process.stderr, decided), daemon=True).start()
    try:
        decided.wait(patience)
    finally:
        # Also of an interrupted wait: nobody else knows the process.
        if not broker.port:
            broker.stop()
    if not broker.port:
        silent = f"no line of the log within {patience:g} s; it must log to its standard error"
        raise DidNotStart(broker.log or silent)
    return broker


def _run(
    arguments: Sequence[str], environment: Mapping[str, str], warm: WarmProcess | None
) -> subprocess.Popen[str] | ForkedProcess:
    if warm is not None and warm.suits(environment):
        return warm.start(arguments, environment)
    return subprocess.Popen(
        [sys.executable, "-m", "natsbroker", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        errors="replace",
    )


def _argument(given: object) -> str:
    """
    @raise TypeError: for a value that cannot be an argument of a command.
    @raise ValueError: for several arguments in one text.
    """
    if isinstance(given, (list, tuple)):
        raise TypeError(f"each argument stands by itself: write *{given!r}, not {given!r}")
    if isinstance(given, bool) or not isinstance(given, (str, int, PathLike)):
        raise TypeError(f'an argument is a text, such as "-js", not {given!r}')
    text = str(given)
    words = text.split()
    if text.startswith("-") and len(words) > 1 and "=" not in words[0]:
        raise ValueError(f"several arguments in one text: write {', '.join(map(repr, words))}")
    return text


def _copy(broker: BrokerProcess, stream: Iterable[str] | None, decided: Event) -> None:
    port = 0
    for line in stream or ():
        if broker._log.exists():
            with broker._log.open("a", encoding="utf-8") as file:
                file.write(line)
        match = _LISTENING.search(line)
        port = int(match.group(1)) if match else port
        if "Server is ready" in line and port:
            broker.port = port
            decided.set()
    decided.set()
