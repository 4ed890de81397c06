"""
Rounds: every server in turn, again and again, so that all of them see the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.generator import Generator, GeneratorFailed
from benchmarks.measure import Sample, measure
from benchmarks.rows import Row
from benchmarks.servers import Contestant, Server, ServerFailed, StandIn, started
from benchmarks.settings import SETTINGS

__all__ = ["Entry", "Results", "Rounds", "entriesOf"]

OWN = ("fast", "pure")


@dataclass(frozen=True)
class Entry:
    """
    A contestant with one configuration: what is measured once a round.
    """

    contestant: Contestant
    setting: str

    @property
    def key(self) -> tuple[str, str]:
        """
        The contestant's name and the setting's.
        """
        return self.contestant.name, self.setting


@dataclass
class Results:
    """
    All that one row yielded.

    @ivar samples: by L{Entry.key}, one a round, without the failed ones.
    @ivar failures: by L{Entry.key}, why a measurement failed.
    """

    row: Row
    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)
    failures: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def figures(self, key: tuple[str, str], figure: str) -> list[float]:
        """
        @return: one figure of one entry, round by round.
        """
        return [sample.figures[figure] for sample in self.samples.get(key, [])]

    def hopeless(self, key: tuple[str, str]) -> bool:
        """
        @return: whether an entry was tried and failed, and never yielded anything.
        """
        return key in self.failures and key not in self.samples

    def notes(self, key: tuple[str, str], note: str) -> list[float]:
        """
        @return: one note of one entry, round by round, where it is known.
        """
        return [sample.notes[note] for sample in self.samples.get(key, []) if note in sample.notes]


def entriesOf(row: Row, contestants: Sequence[Contestant]) -> list[Entry]:
    """
    @return: who is measured for C{row}: a row that compares ours with ours needs nobody else, the
        mirror plays only plain traffic, the older nats-server what has a bound beside it, and the
        relay its own rows, beside our compiled lane.
    """
    entries = []
    for contestant in contestants:
        own = contestant.name in OWN
        if contestant.name == "old" and not any(figure.old for figure in row.figures):
            continue
        if contestant.name == "relay" or row.isRelayed:
            if row.isRelayed and contestant.name in ("relay", "fast"):
                entries.append(Entry(contestant, row.setting if own else "plain"))
            continue
        if contestant.name == "ceiling" and (row.kind != "traffic" or row.setting != "plain"):
            continue
        if row.against is None or own:
            settings = row.settings if own else (row.setting,)
            entries += [Entry(contestant, setting) for setting in settings]
    return entries


@dataclass
class Rounds:
    """
    The measuring of rows.

    @ivar rounds: how many times each entry is measured.
    @ivar seconds: how long each measurement loads its server.
    @ivar cores: the processors that servers are to run on; none for any.
    @ivar say: told what is going on, one line at a time.
    """

    generator: Generator
    contestants: Sequence[Contestant]
    rounds: int
    seconds: float
    cores: frozenset[int]
    say: Callable[[str], None]

    def run(self, rows: Sequence[Row]) -> Iterator[Results]:
        """
        @return: the results of each row, as soon as they are there.
        """
        for row in rows:
            results = Results(row)
            entries = entriesOf(row, self.contestants)
            with ExitStack() as running:
                servers: dict[tuple[str, str], Place] = {}
                for number in range(self.rounds):
                    self.say(f"{row.title}: round {number + 1} of {self.rounds}")
                    for entry in entries:
                        if results.hopeless(entry.key):
                            continue
                        place = servers.setdefault(entry.key, Place(running))
                        self.measureOnce(results, entry, place)
            yield results

    def measureOnce(self, results: Results, entry: Entry, place: Place) -> None:
        """
        Measure one entry and note the outcome; a failure gets a second try on a new server.
        """
        for _attempt in range(2):
            if results.row.fresh or isinstance(entry.contestant, StandIn):
                place.clear()
            try:
                server = place.server(self, results.row, entry)
                sample = measure(self.generator, server, results.row, entry.setting, self.seconds)
            except (GeneratorFailed, ServerFailed) as error:
                place.clear()
                results.failures.setdefault(entry.key, []).append(str(error))
                self.say(f"{results.row.title}: {entry.contestant.title} failed: {error}")
            else:
                results.samples.setdefault(entry.key, []).append(sample)
                return


class Place:
    """
    Where the server of one entry runs, from its first use until it is cleared or the row is over.
    """

    def __init__(self, running: ExitStack) -> None:
        """
        @param running: whose end is the end of the row.
        """
        self.current = running.enter_context(ExitStack())
        self.running: Server | None = None

    def server(self, rounds: Rounds, row: Row, entry: Entry) -> Server:
        """
        @return: the server, started now if it does not run yet.
        @raise ServerFailed: if it does not start.
        """
        if self.running is None:
            setting = SETTINGS[entry.setting]
            context = started(entry.contestant, setting, row.load, rounds.cores)
            self.running = self.current.enter_context(context)
        return self.running

    def clear(self) -> None:
        """
        Stop the server, if it runs.
        """
        self.running = None
        self.current.close()
