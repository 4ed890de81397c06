"""
Killing a process at every call that changes its store's files: C{python -m tests.storage.points}.

Each of these calls is tried three times: killed before it, after it, and, if it writes, in the
middle.

Each point is tried with a store of its own; after it, everything acknowledged is there,
and after another kill while the store is opened again, too.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from tests.storage.history import History
from tests.storage.shim import Act, Call, Plan, whyNot
from tests.storage.victims import Zygote

STEPS = 60
"""The number of calls to the store at each point."""

MOMENTS = {
    "before": (Act.KILL_BEFORE, Call.CHANGE),
    "after": (Act.KILL_AFTER, Call.CHANGE),
    "halfway through": (Act.KILL_HALFWAY, Call.WRITE),
}

PHASES = ("new", "old", "damaged", "work")
"""While a store is made, opened after a crash, repaired, and worked."""


def tryPoint(zygote: Zygote, directory: Path, phase: str, moment: str, number: int) -> bool:
    """
    Kill a process at one call.

    @param number: which call, counted from 1.
    @return: whether the process came to it.
    @raise tests.storage.history.Lost: when something is missing afterwards.
    """
    act, calls = MOMENTS[moment]
    plan = Plan(act, calls, number, number)
    history = History()
    if phase == "work":
        run = zygote.run("commit", directory, plan, seed=f"{moment}/{number}", steps=STEPS)
        history.learn(run.lines)
    else:
        if phase != "new":
            killed = Plan(Act.KILL_BEFORE, Call.SYNC, 25, 25)
            history.learn(zygote.run("commit", directory, killed, seed="old", steps=30).lines)
        if phase == "damaged":
            _spoil(directory / "data.mdb")
        run = zygote.run("open", directory, plan)
    history.check(directory, mayLose=phase == "damaged", mayReturn=phase == "damaged")
    return run.killed


def _spoil(database: Path) -> None:
    """Damage a database so that it has to be repaired, but only its tree is lost."""
    data = bytearray(database.read_bytes())
    for page in (0, 1):
        data[page * 4096 + 16 : page * 4096 + 24] = bytes(8)
    database.write_bytes(data)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="only each so manieth call")
    options = parser.parse_args()
    if why := whyNot():
        raise SystemExit(why)
    zygote = Zygote()
    total = 0
    for phase in PHASES:
        for moment in MOMENTS:
            number = 1
            directory = Path(tempfile.mkdtemp(prefix="natsbroker-point-"))
            while tryPoint(zygote, directory / str(number), phase, moment, number):
                shutil.rmtree(directory / str(number))
                number += options.every
            shutil.rmtree(directory)
            tried = (number - 1) // options.every
            total += tried
            print(f"{phase}: killed {moment} {tried} calls, nothing lost", flush=True)
    print(f"{total} points")
    zygote.close()


if __name__ == "__main__":
    main()
