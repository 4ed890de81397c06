"""
Processes that work a store while the disk fails, or until they are killed at a chosen call.

A zygote loads everything once and forks a process for each run; so hundreds of runs take a minute.

What becomes of a run is in its L{Run}; nothing of it is left.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from tests.storage import shim
from tests.storage.shim import Event, Orders, Plan

ROOT = Path(__file__).resolve().parents[2]

FINE = Plan()

SAID = 1
"""The descriptor to which a process says what happens; the library puts it into the trace."""


@dataclass(frozen=True)
class Run:
    """
    The result of a run.

    @ivar events: what was done, and what was said, in order.
    @ivar killed: whether it was killed.
    @ivar hits: at how many calls something was done.
    """

    events: list[Event]
    killed: bool
    hits: int

    @property
    def lines(self) -> list[bytes]:
        """The lines of its output."""
        return [event.data for event in self.events if event.what == "a"]

    @property
    def said(self) -> list[dict[str, Any]]:
        """The decoded output."""
        return [json.loads(line) for line in self.lines]


class Zygote:
    """
    A process that forks others which have everything loaded.
    """

    def __init__(self, module: str = "tests.storage.faults") -> None:
        """Start the zygote."""
        self._place = TemporaryDirectory(prefix="natsbroker-zygote-")
        self._orders = Orders(Path(self._place.name) / "orders")
        self._trace = Path(self._place.name) / "trace"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.storage.victims", module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=shim.environment(),
        )

    def run(
        self, what: str, directory: Path, plan: Plan = FINE, later: Plan = FINE, **more: Any
    ) -> Run:
        """
        Have one process work.

        @param what: a function of the module.
        @param directory: of its store; the disk is everything in the directory around it.
        @param plan: what the disk does from the beginning.
        @param later: what it does from when the store is open; then C{plan} is over.
        @param more: for the function.
        """
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        self._trace.unlink(missing_ok=True)
        self._orders.give(plan)
        order: dict[str, Any] = {
            "do": what,
            "directory": str(directory),
            "control": str(self._orders.path),
        }
        order |= {"trace": str(self._trace), "later": asdict(later), **more}
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        status = json.loads(process.stdout.readline())["status"]
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9
        if status and not killed:
            raise AssertionError(f"{what} ended by itself, with {status}")
        return Run(list(shim.readTrace(self._trace)), killed, self._orders.hits)

    def close(self) -> None:
        """End the zygote."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._orders.close()
        self._place.cleanup()


def _victim(functions: ModuleType, order: dict[str, Any]) -> None:
    """Run one of the functions of the module in a forked process."""
    watched = str(Path(order["directory"]).parent)
    texts = [text.encode() for text in (watched, order["control"], order["trace"])]
    ctypes.CDLL(None).shimBegin(*texts, SAID)
    getattr(functions, order["do"])(order)


def _main() -> None:
    """Fork processes, wait for them, and report how they ended."""
    functions = importlib.import_module(sys.argv[1])
    for line in sys.stdin.buffer:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                _victim(functions, order)
                os._exit(0)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
        _, status = os.waitpid(child, 0)
        os.write(1, json.dumps({"status": status}).encode() + b"\n")


if __name__ == "__main__":
    _main()
