"""
Signals of the operating system: to this process, and to another one.

Promises: what a signal asks for runs in the reactor, not in the signal handler.
Must never know: what it is that runs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from twisted.logger import Logger

from natsbroker.errors import BrokerError

__all__ = ["SIGNALS", "SignalError", "Signals", "runningBrokers", "sendSignal"]

_log = Logger(namespace="natsbroker")

#: What C{--signal} calls them, as with nats-server.
SIGNALS = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
}

#: What the log calls them, as with nats-server.
_WORDS = {
    signal.SIGINT: "interrupt",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hangup",
    signal.SIGUSR1: "user defined signal 1",
    signal.SIGUSR2: "user defined signal 2",
}


class SignalError(BrokerError):
    """
    A signal cannot be sent.
    """


class Signals:
    """
    The signals that a process answers.
    """

    def __init__(
        self, reactor: Any, answers: Mapping[signal.Signals, Callable[[], object]]
    ) -> None:
        """
        @param reactor: runs the answers.
        @param answers: what to call, by signal.
        """
        self._reactor = reactor
        self._answers = dict(answers)
        self._before: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """
        Answer from now on. Must be called in the main thread.
        """
        for each in self._answers:
            self._before[each] = signal.signal(each, self._trapped)

    def uninstall(self) -> None:
        """
        Answer no more.
        """
        before, self._before = self._before, {}
        for each, handler in before.items():
            signal.signal(each, handler)

    def _trapped(self, number: int, frame: object) -> None:
        self._reactor.callFromThread(self._answer, signal.Signals(number))

    def _answer(self, which: signal.Signals) -> None:
        _log.info('Trapped "{name}" signal', name=_WORDS.get(which, which.name))
        answer = self._answers.get(which)
        if answer is not None:
            answer()


def runningBrokers(processes: Path = Path("/proc")) -> list[int]:
    """
    The ids of all other processes that run the console script or the module.

    @param processes: the folder in which the kernel describes processes.
    @raise SignalError: if that is not there.
    """
    if not (processes / "self").exists():
        raise SignalError("unable to resolve pid, try providing one")
    found = []
    for place in processes.iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            try:
                arguments = (place / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if _isBroker([each.decode("utf-8", "replace") for each in arguments]):
                found.append(int(place.name))
    return sorted(found)


def _isBroker(arguments: list[str]) -> bool:
    if "-m" in arguments[1:3] and "natsbroker" in arguments[2:4]:
        return True
    names = [os.path.basename(each) for each in arguments[:2]]
    return "natsbroker" in names


def sendSignal(
    name: str,
    process: str,
    running: Callable[[], Iterable[int]] = runningBrokers,
    kill: Callable[[int, int], object] = os.kill,
) -> None:
    """
    Send a signal to one broker or several.

    @param name: one of L{SIGNALS}.
    @param process: a process id; with C{*} at its end every id that begins so; empty for the only
        one that runs.
    @raise SignalError: if there is none, more than one, or one cannot be reached.
    """
    isPattern = process.endswith("*")
    prefix = process.rstrip("*")
    if prefix and not isPattern:
        chosen = [int(prefix)]
    else:
        chosen = list(running())
        if len(chosen) > 1 and not isPattern:
            listed = "\n".join(str(each) for each in chosen)
            raise SignalError(f"multiple natsbroker processes running:\n{listed}")
        if not chosen:
            raise SignalError("no natsbroker processes running")
        chosen = [each for each in chosen if str(each).startswith(prefix)]
    failures = []
    for each in chosen:
        try:
            kill(each, SIGNALS[name])
        except OSError as error:
            failures.append(f'\nsignal "{name}" {each}: {(error.strerror or str(error)).lower()}')
    if failures:
        raise SignalError("".join(failures))
