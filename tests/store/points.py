"""
Killing a process at every system call that touches its store: C{python -m tests.store.points}.

Promises: each point is tried with a store of its own; after it, everything acknowledged is there,
and after another kill while the store is opened again, too.
Must never know: how the store works.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.store.history import History
from tests.store.victims import CALLS, Zygote, whyNot

STEPS = 60
"""How many things are asked of the store at each point."""


@dataclass(frozen=True)
class Point:
    """
    A moment.

    @ivar call: the system call.
    @ivar number: which one of the thread, counted from 1.
    """

    call: str
    number: int

    @property
    def kill(self) -> list[str]:
        """
        For strace.
        """
        return [f"{self.call}:signal=KILL:when={self.number}"]


def openingPoint(zygote: Zygote, directory: Path, kind: str, point: Point) -> bool:
    """
    Kill a process while it opens a store.

    @param kind: C{new} for a store that is not there yet, C{old} for one whose process was killed.
    @return: whether the process came to the point.
    """
    history = History()
    if kind == "old":
        order = {"do": "committing", "directory": str(directory), "seed": "old", "steps": 30}
        history.learn(zygote.run(order, ["fdatasync:signal=KILL:when=25"]).lines)
    run = zygote.run({"do": "opening", "directory": str(directory)}, point.kill)
    history.check(directory)
    return run.killed


def committingPoint(zygote: Zygote, directory: Path, point: Point) -> bool:
    """
    Kill a process while it commits.

    @return: whether the process came to the point.
    """
    history = History()
    seed = f"{point.call}/{point.number}"
    order = {"do": "committing", "directory": str(directory), "seed": seed, "steps": STEPS}
    run = zygote.run(order, point.kill)
    history.learn(run.lines)
    history.check(directory)
    return run.killed


def main() -> None:
    """
    The command.
    """
    why = whyNot()
    if why:
        raise SystemExit(why)
    zygote = Zygote()
    for what in ("new", "old", "committing"):
        total = 0
        for call in CALLS:
            number = 0
            reached = True
            while reached:
                number += 1
                directory = Path(tempfile.mkdtemp(prefix="natsbroker-point-"))
                point = Point(call, number)
                if what == "committing":
                    reached = committingPoint(zygote, directory / "store", point)
                else:
                    reached = openingPoint(zygote, directory / "store", what, point)
                shutil.rmtree(directory)
            total += number - 1
            if number > 1:
                print(f"{what}: killed at {number - 1} calls of {call}, nothing lost", flush=True)
        print(f"{what}: {total} points", flush=True)
    zygote.close()


if __name__ == "__main__":
    main()
