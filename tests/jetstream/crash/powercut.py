"""
Cutting the power of a JetStream: C{python -m tests.jetstream.crash.powercut --histories N}.

It goes as in L{tests.storage.powercut}: the calls of a process are traced, and what a disk may
have after a cut at some moment is made up from the trace.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from natsbroker.testing.pumped import StillWaiting
from tests.jetstream.crash.place import Place
from tests.jetstream.crash.worked import Known, work
from tests.storage.faults import CARELESS
from tests.storage.history import Lost
from tests.storage.powercut import CUTS, finds
from tests.storage.shim import whyNot
from tests.storage.victims import Zygote
from tests.storage.workload import say

STEPS = 30
"""The number of steps between two cuts."""

LATER = 1_000_000
"""By how much the numbers, and the clock, of each part are after those of the part before."""


def commit(order: dict[str, Any]) -> None:
    """Do the work of clients in a process that is cut off, possibly one that forgets to sync."""
    CARELESS[order.get("careless", "")]()
    work(Path(order["directory"]), order["seed"], order["number"], order["steps"], say)


def verify(directory: Path, age: float, known: Known, isLast: bool) -> None:
    """
    Open the store that a power cut left, and check it.

    @param isLast: whether nothing goes on with it, so that it may be changed.
    @raise Lost: if something is not as it must be.
    """
    place = Place(directory, age)
    try:
        watcher = place.watcher
        if watcher.damaged or watcher.states or watcher.quarantined:
            raise Lost(f"damage is reported: {watcher.damaged} {watcher.states}")
        known.check(place)
        if isLast:
            known.checkDeliveries(place)
            known.checkSources(place)
            known.check(place)
    finally:
        place.close()


def cutPower(zygote: Zygote, where: Path, seed: str, more: int = 3, careless: str = "") -> int:
    """
    Run one history of work and power cuts.

    @param more: how many further cuts to try each time.
    @param careless: how the process works; see L{tests.storage.faults.CARELESS}.
    @return: how many times the power was cut.
    @raise Lost: if something is not as it must be.
    """
    random = Random(seed)
    promises = Known(True)
    disk, before, remains, kept = (where / name for name in ("disk", "before", "found", "kept"))
    disk.mkdir()
    cuts = 0
    for part in range(CUTS):
        shutil.copytree(disk, before)
        number = LATER * (part + 1)
        how: dict[str, Any] = {"seed": f"{seed}/{part}", "steps": STEPS, "number": number}
        events = zygote.run("commit", disk / "store", careless=careless, **how).events
        goesOn = random.randrange(more + 1)
        for cut, lines in enumerate(finds(before, events, random, remains, more + 1)):
            known = copy.deepcopy(promises)
            try:
                known.learn(lines)
                verify(remains / "store", number + LATER / 2, known, isLast=cut != goesOn)
            except (Lost, StillWaiting) as failure:
                raise Lost(f"history {seed}, cut {cuts}: {failure}") from failure
            cuts += 1
            if cut == goesOn:
                remains.rename(kept)
                following = known
            else:
                shutil.rmtree(remains)
        shutil.rmtree(disk)
        kept.rename(disk)
        promises = following
        shutil.rmtree(before)
    shutil.rmtree(disk)
    return cuts


def main() -> None:
    """
    The command.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first one's number")
    parser.add_argument("--more", type=int, default=3, help="further cuts to try, each time")
    options = parser.parse_args()
    if why := whyNot():
        raise SystemExit(why)
    zygote = Zygote("tests.jetstream.crash.powercut")
    where = Path(tempfile.mkdtemp(prefix="natsbroker-powercut-"))
    began, cuts = time.monotonic(), 0
    for number in range(options.first, options.first + options.histories):
        cuts += cutPower(zygote, where, str(number), options.more)
        if number % 20 == 19:
            print(f"{number + 1}: {cuts} cuts, {time.monotonic() - began:.0f} s", flush=True)
    shutil.rmtree(where)
    zygote.close()
    print(f"{options.histories} histories, {cuts} cuts: nothing lost")


if __name__ == "__main__":
    main()
