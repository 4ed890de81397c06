"""Other broker processes of this machine, and signals to them, without Twisted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from natsbroker.errors import BrokerError

SIGNALS = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
    "upgrade": signal.SIGURG,
}
"""
The signals by their names for C{--signal}. All but C{upgrade} are nats-server's. Only a server of
several workers obeys C{upgrade}.
"""


class SignalError(BrokerError):
    """A signal cannot be sent."""


def runningBrokers(processes: Path = Path("/proc")) -> list[int]:
    if not (processes / "self").exists():
        raise SignalError("unable to resolve pid, try providing one")
    pids = []
    for place in processes.iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            try:
                arguments = (place / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if _isBroker([argument.decode("utf-8", "replace") for argument in arguments]):
                pids.append(int(place.name))
    return sorted(pids)


def _isBroker(arguments: list[str]) -> bool:
    if "-m" in arguments[1:3] and "natsbroker" in arguments[2:4]:
        return True
    names = [os.path.basename(argument) for argument in arguments[:2]]
    return "natsbroker" in names


def sendSignal(
    name: str,
    process: str,
    running: Callable[[], Iterable[int]] = runningBrokers,
    kill: Callable[[int, int], object] = os.kill,
) -> None:
    """
    Send a signal. C{process} is an id; with C{*} at its end a prefix; empty for the only process.
    """
    isPattern = process.endswith("*")
    prefix = process.rstrip("*")
    if prefix and not isPattern:
        chosen = [int(prefix)]
    else:
        chosen = list(running())
        if len(chosen) > 1 and not isPattern:
            listed = "\n".join(str(pid) for pid in chosen)
            raise SignalError(f"multiple natsbroker processes running:\n{listed}")
        if not chosen:
            raise SignalError("no natsbroker processes running")
        chosen = [pid for pid in chosen if str(pid).startswith(prefix)]
    failures = []
    for pid in chosen:
        try:
            kill(pid, SIGNALS[name])
        except OSError as error:
            failures.append(f'\nsignal "{name}" {pid}: {(error.strerror or str(error)).lower()}')
    if failures:
        raise SignalError("".join(failures))
