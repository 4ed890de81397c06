"""
Cutting the power of a store, again and again: C{python -m tests.storage.powercut --histories N}.

A history is a store that is worked by a process whose calls are traced; the power is cut at some
moment, the store is opened with what may be found on the disk then and worked on, and so forth,
three times. What is found is made up from the trace, so one run serves for many cuts: besides the
one with which the history goes on, several more are tried and compared.

Whatever was acknowledged before a cut is demanded after it, and after all later ones; no
damage may be reported, as a power cut damages nothing. With an interval between syncs, appends may
be lost that were acknowledged since the last one, and such a loss may be reported.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from natsbroker.storage.lmdb.encryption.keyring import Encryption
from tests.storage.disk import Disk, Survival
from tests.storage.history import History, Lost
from tests.storage.shim import Event, whyNot
from tests.storage.victims import Zygote

CUTS = 3
"""The number of power cuts in one history, one after the other."""

STEPS = 40
"""The number of calls to the store between two cuts."""


def finds(
    directory: Path,
    events: Sequence[Event],
    random: Random,
    result: Path,
    cuts: int,
    isHonest: bool = True,
) -> Iterator[list[bytes]]:
    """
    Cut the power at random moments, the earliest first.

    @param directory: what was there before the first of the events.
    @param result: where what is found is written each time; it must be gone before the next.
    @return: what the process had said by each of the moments.
    """
    disk, followed = Disk(directory, isHonest), 0
    first = len(events) // 20
    for moment in sorted(random.randint(first, len(events)) for _ in range(cuts)):
        for event in events[followed:moment]:
            disk.follow(event)
        followed = moment
        if moment < len(events) and events[moment].flag == "d":
            # Written when the power is cut, and not synced yet.
            disk.follow(events[moment]._replace(flag=" "))
        disk.cut(random, random.choice(list(Survival)), result)
        yield [entry.data for entry in events[:moment] if entry.what == "a"]


def cutPower(
    zygote: Zygote,
    where: Path,
    seed: str,
    more: int = 3,
    careless: str = "",
    isHonest: bool = True,
    syncInterval: float = 0,
    isRelaxed: bool = False,
    key: str = "",
    plainCuts: int = 0,
) -> int:
    """
    Go through one history.

    @param where: a directory for its stores, which are removed again.
    @param more: how many further cuts to try each time.
    @param careless: how the process works; see L{tests.storage.faults.CARELESS}.
    @param isHonest: whether the disk really syncs.
    @param syncInterval: as for L{natsbroker.storage.lmdb.store.openLMDB}.
    @param isRelaxed: whether appends may be lost that were acknowledged and not synced.
    @param key: with which the store is encrypted; empty if it is not.
    @param plainCuts: how many cuts there are before it gets the key.
    @return: how many times the power was cut.
    @raise Lost: if something is not as it must be.
    """
    random = Random(seed)
    history = History(not isRelaxed)
    disk, before, remains, kept = (where / name for name in ("disk", "before", "found", "kept"))
    disk.mkdir()
    cuts = 0
    for number in range(CUTS):
        shutil.copytree(disk, before)
        how: dict[str, Any] = {"seed": f"{seed}/{number}", "steps": STEPS, "careless": careless}
        used = key if number >= plainCuts else ""
        history.encryption = Encryption(used) if used else None
        how["syncInterval"], how["key"] = syncInterval, used
        events = zygote.run("commit", disk / "store", **how).events
        goesOn = random.randrange(more + 1)
        for cut, lines in enumerate(finds(before, events, random, remains, more + 1, isHonest)):
            known = copy.deepcopy(history)
            known.learn(lines)
            try:
                recorder = known.check(remains / "store")
                isDamaged = not isRelaxed and (recorder.damaged or recorder.states)
                if isDamaged or recorder.quarantined:
                    raise Lost(f"damage is reported: {recorder.damaged} {recorder.states}")
            except Lost as failure:
                raise Lost(f"history {seed}, cut {cuts}: {failure}") from failure
            cuts += 1
            if cut == goesOn:
                remains.rename(kept)
                following = known
            else:
                shutil.rmtree(remains)
        shutil.rmtree(disk)
        kept.rename(disk)
        history = following
        shutil.rmtree(before)
    shutil.rmtree(disk)
    return cuts


def main() -> None:
    """Run some histories from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first one's number")
    parser.add_argument(
        "--interval", type=float, default=0, help="seconds between syncs; 0: always"
    )
    parser.add_argument("--key", default="", help="encrypt the store with this key")
    parser.add_argument("--more", type=int, default=3, help="further cuts to try, each time")
    options = parser.parse_args()
    if why := whyNot():
        raise SystemExit(why)
    zygote = Zygote()
    where = Path(tempfile.mkdtemp(prefix="natsbroker-powercut-"))
    began = time.monotonic()
    cuts = 0
    for number in range(options.first, options.first + options.histories):
        how: dict[str, Any] = {"syncInterval": options.interval, "isRelaxed": options.interval > 0}
        how["key"] = options.key
        cuts += cutPower(zygote, where, str(number), options.more, **how)
        if number % 50 == 49:
            took = time.monotonic() - began
            print(f"{number + 1} histories, {cuts} cuts, {took:.0f} s, nothing lost", flush=True)
    shutil.rmtree(where)
    zygote.close()
    print(f"{options.histories} histories, {cuts} cuts: nothing lost")


if __name__ == "__main__":
    main()
