"""
Damaging the files of a store that is closed: C{python -m tests.storage.damage --seeds N}.

Flips of single bits anywhere; files cut off, zeroed at the end, with pages swapped, replaced by
older copies, or removed. Each is done to a copy of the same store.

The store opens each time. It never serves a wrong record, never gives a sequence again,
never forgets a log, and reports every loss; a flipped bit costs one record at most.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.history import History, Lost, Recorder
from tests.storage.workload import Workload

PAGE = 4096


@dataclass
class Specimen:
    """
    A store to damage copies of.

    @ivar directory: where it is.
    @ivar older: a copy of it from before.
    @ivar history: what is in it.
    """

    directory: Path
    older: Path
    history: History

    def files(self) -> list[Path]:
        """The names of the specimen's files."""
        paths = [path for path in self.directory.rglob("*") if path.is_file()]
        return sorted(path.relative_to(self.directory) for path in paths)


def makeSpecimen(
    where: Path,
    steps: int = 120,
    encryption: Encryption | None = None,
    isKilled: bool = False,
) -> Specimen:
    """
    Make a store with a history.

    @param isKilled: whether it is left as after a kill, with much in its journal.
    """
    directory = where / "specimen"
    history = History(encryption=encryption)
    lines: list[str] = []
    for part in range(2):
        reactor = PumpedReactor()
        store = reactor.wait(openLMDB(reactor, directory, encryption=encryption))

        def say(what: dict[str, object]) -> None:
            lines.append(json.dumps(what))

        workload = Workload(reactor, store, f"specimen{part}", 1_000_000 * (part + 1), say)
        workload.begin()
        for _ in range(steps):
            workload.step()
        workload.finish()
        killed = where / "killed"
        shutil.copytree(directory, killed)
        reactor.wait(store.close())
        history.learn(lines)
        lines.clear()
        history.check(directory)
        if part and isKilled:
            shutil.rmtree(directory)
            killed.rename(directory)
        else:
            shutil.rmtree(killed)
        if part == 0:
            shutil.copytree(directory, where / "older")
    return Specimen(directory, where / "older", history)


def flipBit(random: Random, specimen: Specimen, directory: Path) -> str:
    """
    Flip one bit of one file, and describe it.

    @return: which.
    """
    files = [file for file in specimen.files() if (directory / file).stat().st_size]
    sizes = [(directory / file).stat().st_size for file in files]
    if random.random() < 0.6:
        [name] = random.choices(files, sizes)
    else:
        name = random.choice(files)
    path = directory / name
    data = bytearray(path.read_bytes())
    end = len(data)
    if name.name == "data.mdb":
        end = len(data.rstrip(b"\0")) or len(data)
        if random.random() < 0.15:
            end = 2 * PAGE
    position = random.randrange(end)
    bit = random.randrange(8)
    data[position] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {position} of {name}"


def mangle(random: Random, specimen: Specimen, directory: Path) -> str:
    """
    Damage one file with more than one bit, and describe the damage.

    @return: what.
    """
    name = random.choice([*specimen.files(), Path("data.mdb"), Path("data.mdb")])
    path = directory / name
    data = path.read_bytes()
    how = random.choice(["cut", "cut", "cut", "zero", "swap", "old", "empty", "gone"])
    pages = max(len(data) // PAGE, 1)
    if how == "cut":
        data = data[: random.randrange(len(data) + 1)]
    elif how == "zero":
        used = len(data.rstrip(b"\0"))
        start = max(used - PAGE, 0) // PAGE * PAGE
        data = data[:start] + bytes(len(data) - start)
    elif how == "swap" and pages > 1:
        one, two = random.randrange(pages), random.randrange(pages)
        parts = [data[number * PAGE : (number + 1) * PAGE] for number in range(pages)]
        parts[one], parts[two] = parts[two], parts[one]
        data = b"".join(parts) + data[pages * PAGE :]
    elif how == "old" and (specimen.older / name).exists():
        data = (specimen.older / name).read_bytes()
    elif how == "empty":
        data = b""
    path.write_bytes(data)
    if how == "gone":
        path.unlink()
    return f"{name}: {how}"


def trial(specimen: Specimen, where: Path, seed: str, flip: bool) -> tuple[str, int]:
    """
    Damage a copy and open it.

    @return: what was done, and how many records it cost.
    @raise Lost: if something is not as it must be.
    """
    directory = where / "copy"
    shutil.copytree(specimen.directory, directory)
    try:
        random = Random(seed)
        what = (flipBit if flip else mangle)(random, specimen, directory)
        history = copy.deepcopy(specimen.history)
        try:
            recorder = history.check(directory, mayLose=True, mayReturn=not flip)
            lost = missing(history, directory)
            again = history.check(directory, mayLose=True, mayReturn=not flip)
        except Exception as failure:
            raise Lost(f"seed {seed}, {what}: {failure}") from failure
        if flip and lost > 1:
            raise Lost(f"seed {seed}, {what}: {lost} records are gone: {recorder.damaged}")
        if lost and not again.damaged:
            raise Lost(f"seed {seed}, {what}: the loss is not reported again")
        return what, lost
    finally:
        shutil.rmtree(directory)


def missing(history: History, directory: Path) -> int:
    """The number of missing records."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, directory, encryption=history.encryption))
    lost = 0
    for name in reactor.wait(store.logs()):
        log = reactor.wait(store.open(name))
        sequences: set[int] = set()
        sequence = 1
        while records := reactor.wait(log.read(sequence, 1000)):
            sequences.update(record.sequence for record in records)
            sequence = records[-1].sequence + 1
        known = history.log(name)
        expected = {
            key: number
            for key, number in known.acked.items()
            if key not in known.gone and key >= known.discarded
        }
        if known.keeps:
            kept = sorted(expected)[-known.keeps :]
            expected = {number: expected[number] for number in kept}
        lost += len(expected.keys() - sequences)
    reactor.wait(store.close())
    return lost


def main() -> None:
    """Run some trials from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--mangle", action="store_true", help="not flips, but worse")
    parser.add_argument("--killed", action="store_true", help="of a store that was not closed")
    options = parser.parse_args()
    where = Path(tempfile.mkdtemp(prefix="natsbroker-damage-"))
    specimen = makeSpecimen(where, isKilled=options.killed)
    records = sum(len(log.acked) for log in specimen.history.logs.values())
    print(f"{records} records in {len(specimen.files())} files", flush=True)
    costs: dict[int, int] = {}
    for seed in range(options.first, options.first + options.seeds):
        what, lost = trial(specimen, where, str(seed), not options.mangle)
        costs[lost] = costs.get(lost, 0) + 1
        if options.mangle:
            print(f"seed {seed}: {what}, {lost} records", flush=True)
    for lost, count in sorted(costs.items()):
        print(f"{count} seeds cost {lost} records")
    shutil.rmtree(where)


__all__ = ["Recorder", "Specimen", "makeSpecimen", "trial"]

if __name__ == "__main__":
    main()
