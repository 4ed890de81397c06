"""
The figures of a row from reports of the generator, without any server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.generator import Generator, GeneratorFailed
from benchmarks.measure import measure
from benchmarks.rows import choose
from benchmarks.servers import Server


@dataclass(frozen=True)
class Canned(Generator):
    """A generator whose operations have a given cost for each existing stream."""

    cost: float = 0.0
    loads: list[Sequence[str]] = field(default_factory=list)

    def run(
        self, mode: str, port: int, pid: int, load: Sequence[str], seconds: float
    ) -> dict[str, float]:
        """
        @return: a report of operations.
        """
        self.loads.append(load)
        others = int(load[-1]) if "--others" in load else 1
        return {"cost_us": self.cost * others, "rate": 1000.0, "generator_cores": 0.1}

    @contextmanager
    def hold(
        self, mode: str, port: int, pid: int, load: Sequence[str], seconds: float = 0
    ) -> Iterator[Mapping[str, float]]:
        """Record that streams are created."""
        self.loads.append((mode, *load))
        yield {}


def generator(cost: float) -> Canned:
    """
    @return: a load generator that reports the given cost of an operation.
    """
    return Canned(Path("load"), False, cost=cost)


def test_operations() -> None:
    """A row of operations has their cost, their rate, and the disk's time of a synced write."""
    (row,) = choose(["operation-put-2m"])
    sample = measure(generator(37.5), Server(7, 4222), row, row.setting, 0.5)
    assert sample.figures == {"cost": 37.5, "rate": 1000.0}
    assert set(sample.notes) == {"generator_cores", "synced_write"}


def test_operationsWithoutDisk() -> None:
    """
    A row that stores no message has no disk time, and a row with a given rate does not show the
    rate.
    """
    (row,) = choose(["operation-sparse"])
    sample = measure(generator(60.0), Server(7, 4222), row, row.setting, 0.5)
    assert sample.figures == {"cost": 60.0}
    assert set(sample.notes) == {"generator_cores"}


def test_serverBehindScript() -> None:
    """A process that used no CPU time is refused, because it is not the measured server."""
    (row,) = choose(["operation-request"])
    with pytest.raises(GeneratorFailed, match="process 7 did nothing"):
        measure(generator(0.0), Server(7, 4222), row, row.setting, 0.5)


def test_lists() -> None:
    """Operations are measured with few streams, then with many, and their costs are divided."""
    (row,) = choose(["operation-lists-2m"])
    canned = generator(2.0)
    sample = measure(canned, Server(7, 4222), row, row.setting, 0.5)
    assert sample.figures == {
        **dict.fromkeys(["info", "consumer", "stream"], 20_000.0),
        **dict.fromkeys(["info_growth", "consumer_growth", "stream_growth"], 1000.0),
    }
    assert [load[2] for load in canned.loads if load[0] == "assets"] == ["10", "10000"]
