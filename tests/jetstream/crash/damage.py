"""
Flipping bits in the files of a JetStream's store: C{python -m tests.jetstream.crash.damage
--seeds N}.

The broker opens each time. It serves no wrong message, keeps every stream and consumer, loses one
message at most, and tells of what it lost.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import tempfile
from pathlib import Path
from random import Random

from tests.jetstream.crash.place import Place
from tests.jetstream.crash.powercut import LATER
from tests.jetstream.crash.worked import CONSUMERS, STREAMS, Clients, Known, contentsOf
from tests.storage.damage import Specimen, flipBit
from tests.storage.history import History, Lost


class JetStreamSpecimen:
    """
    A store to damage copies of.

    @ivar contents: the messages of each stream.
    """

    def __init__(self, where: Path, steps: int = 60, isKilled: bool = False) -> None:
        """
        @param isKilled: whether the store is left as after a kill, with much in its journal.
        """
        self.directory = where / "specimen"
        self.promises = Known()
        lines: list[bytes] = []
        place = Place(self.directory)
        clients = Clients(place, "specimen", LATER, lambda what: lines.append(_line(what)))
        clients.prepare()
        for _ in range(steps):
            clients.step()
        clients.finish()
        place.pass_(1)
        self.contents = {name: contentsOf(place, name) for name in STREAMS}
        if isKilled:
            shutil.copytree(self.directory, where / "killed")
        place.close()
        if isKilled:
            self.directory = where / "killed"
        self.promises.learn(lines)
        self.files = Specimen(self.directory, self.directory, History())


def _line(what: object) -> bytes:
    return json.dumps(what).encode()


def trial(specimen: JetStreamSpecimen, where: Path, seed: str) -> int:
    """
    Flip a bit in a copy, and open it.

    @return: how many messages it cost.
    @raise Lost: if something is not as it must be.
    """
    directory = where / "copy"
    shutil.copytree(specimen.directory, directory)
    what = flipBit(Random(seed), specimen.files, directory)
    place = Place(directory, LATER)
    try:
        lost = _lost(specimen, place)
    except Exception as failure:
        raise Lost(f"seed {seed}, {what}: {failure}") from failure
    finally:
        place.close()
        shutil.rmtree(directory)
    return lost


def _lost(specimen: JetStreamSpecimen, place: Place) -> int:
    lost = 0
    for name, before in specimen.contents.items():
        if name not in place.jetstream.streams:
            raise Lost(f"the stream {name} is forgotten")
        contents = contentsOf(place, name)
        for sequence, body in before.items():
            if sequence not in contents:
                lost += 1
                if not place.watcher.covers(place.jetstream.streams[name].log.name, sequence):
                    raise Lost(f"no watcher learns of the loss of {sequence} of {name}")
            elif contents[sequence] != body:
                raise Lost(f"{sequence} of {name} is {contents[sequence]!r}")
    if lost > 1:
        raise Lost(f"{lost} messages are gone: {place.watcher.damaged}")
    _checkConsumers(specimen, place)
    return lost


def _checkConsumers(specimen: JetStreamSpecimen, place: Place) -> None:
    isTold = bool(place.watcher.states)
    for key in CONSUMERS:
        name, consumer = key.split(".")
        stream = place.jetstream.streams[name]
        if consumer not in stream.consumers:
            raise Lost(f"the consumer {key} is forgotten")
        pending = stream.consumers[consumer].core.pending
        again = [
            sequence
            for sequence in specimen.promises.acked[key]
            if sequence > pending.deliveredStream
        ]
        if (again or specimen.promises.acked[key].intersection(pending.entries)) and not isTold:
            raise Lost(f"no watcher learns that the state of {key} is lost")
    known = copy.deepcopy(specimen.promises)
    if not isTold:
        known.checkDeliveries(place)


def main() -> None:
    """
    The command.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--killed", action="store_true", help="of a store that was not closed")
    options = parser.parse_args()
    where = Path(tempfile.mkdtemp(prefix="natsbroker-damage-"))
    specimen = JetStreamSpecimen(where, isKilled=options.killed)
    costs: dict[int, int] = {}
    for seed in range(options.first, options.first + options.seeds):
        lost = trial(specimen, where, str(seed))
        costs[lost] = costs.get(lost, 0) + 1
    for lost, count in sorted(costs.items()):
        print(f"{count} seeds cost {lost} messages")
    shutil.rmtree(where)


if __name__ == "__main__":
    main()
