"""
The instruments of L{tests.spark.speed}: clocks of processes, and the PINGs of another client.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from natsbroker.spark.nats.addresses import ServerAccess
from natsbroker.spark.nats.connection import connect
from natsbroker.wire import ops

__all__ = ["PythonClock", "Sample", "median", "pinged", "processSeconds", "sampled"]

_TICKS = os.sysconf("SC_CLK_TCK")


class Sample:
    """
    One measurement.

    @ivar rows: how many rows.
    @ivar seconds: how long it took.
    @ivar server: processor seconds of the server.
    @ivar python: those of Python in Spark: planners and workers.
    @ivar jvm: those of Spark's JVM.
    @ivar pings: how long each PING of another client of the server took, in seconds.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.seconds = self.server = self.python = self.jvm = 0.0
        self.pings: list[float] = []


def _stat(pid: int) -> list[str]:
    """
    The kernel's fields of a process, from its state on; empty if it has ended.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def processSeconds(pid: int) -> float:
    """
    Processor seconds of a process.
    """
    return sum(map(int, _stat(pid)[11:13])) / _TICKS


class PythonClock:
    """
    CPU seconds of the Python processes that Spark's JVM starts. Spark also starts C{chmod} and
    C{readlink} for the files of checkpoints, some 20 times for a micro-batch, which do not count.
    """

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        self._seconds: dict[int, float] = {}

    def look(self) -> float:
        """
        @return: those of all that were there when this was called, now or before.
        """
        parents, seconds = {}, {}
        for entry in os.listdir("/proc"):
            fields = _stat(int(entry)) if entry.isdigit() else []
            if fields:
                parents[int(entry)] = int(fields[1])
                seconds[int(entry)] = sum(map(int, fields[11:13])) / _TICKS
        below, size = {self._jvm}, -1
        while size != len(below):
            size = len(below)
            below |= {process for process, parent in parents.items() if parent in below}
        self._seconds |= {
            process: seconds[process] for process in below & seconds.keys() if _isPython(process)
        }
        return sum(self._seconds.values())


def _isPython(pid: int) -> bool:
    try:
        return "python" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False


@contextmanager
def _repeated(do: Callable[[], object], pause: float) -> Iterator[None]:
    isOver = threading.Event()

    def repeat() -> None:
        while not isOver.wait(pause):
            do()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        isOver.set()
        thread.join()


@contextmanager
def pinged(peer: ServerAccess) -> Iterator[list[float]]:
    """
    Send PINGs all the time; the seconds that their answers take.
    """
    took: list[float] = []
    isOver = threading.Event()

    def ping() -> None:
        with connect(peer) as connection:
            while not isOver.wait(0.005):
                begun = time.monotonic()
                connection.send(b"PING\r\n")
                while connection.receive(begun + 30)[0] != ops.PONG:
                    pass
                took.append(time.monotonic() - begun)

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield took
    finally:
        isOver.set()
        thread.join()


def sampled(
    rows: int, peer: ServerAccess, server: int, jvm: int, work: Callable[[], object]
) -> Sample:
    """
    Do something, with somebody else's PINGs meanwhile.

    @param server: the server's process.
    @param jvm: Spark's.
    """
    sample = Sample(rows)
    pythons = PythonClock(jvm)
    clocks: tuple[Callable[[], float], ...] = (
        time.monotonic,
        lambda: processSeconds(server),
        pythons.look,
        lambda: processSeconds(jvm),
    )
    with pinged(peer) as pings, _repeated(pythons.look, 0.2):
        before = [clock() for clock in clocks]
        work()
        took = [clock() - then for clock, then in zip(clocks, before, strict=True)]
    sample.seconds, sample.server, sample.python, sample.jvm = took
    sample.pings = pings
    return sample


def median(samples: Sequence[Sample]) -> dict[str, float]:
    """
    Rows a second, the processor seconds of a million rows, and the PINGs' 99th percentile in
    milliseconds, over all rounds.
    """
    pings = sorted(ping for sample in samples for ping in sample.pings)

    def million(name: str) -> float:
        rates: list[float] = [getattr(sample, name) / sample.rows for sample in samples]
        return round(statistics.median(rates) * 1_000_000, 2)

    return {
        "rate": round(statistics.median(sample.rows / sample.seconds for sample in samples)),
        "server": million("server"),
        "python": million("python"),
        "jvm": million("jvm"),
        "pingP99": round(pings[len(pings) * 99 // 100] * 1000, 1),
    }
