"""
The command C{python -m benchmarks.workers}: ours with 1, 2, 4, ... workers and nats-server on as
many processors, pinned, as one table in one file.

Each load has a cost: the processor time of all processes of the server over the number of messages
or logins. On few processors, where the generator takes them too, costs say more than rates. From
those of one and two workers follows what more would reach; the table marks that as a projection.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks import contestants, generator, machine
from benchmarks.__main__ import raiseDescriptorLimit, say
from benchmarks.generator import Generator, GeneratorFailed
from benchmarks.processes import familyWork, settledWork
from benchmarks.servers import Contestant, Server, ServerFailed, started
from benchmarks.settings import SETTINGS

__all__ = ["LOADS", "Cost", "Load", "asMarkdown", "counts", "measured", "processors", "projected"]

SIZES = (16, 128, 1024, 16384)

PROJECTED = (4, 8, 16)
"""The numbers of workers that are projected."""

_A = ("--user", "a", "--password", "a")
_B = ("--user", "b", "--password", "b")


@dataclass(frozen=True)
class Load:
    """
    One load.

    @ivar parts: the arguments of the generators that run side by side.
    @ivar done: what their reports call the number of messages or logins.
    @ivar crosses: whether clients of all workers send each other messages.
    """

    key: str
    title: str
    setting: str
    mode: str
    parts: tuple[tuple[str, ...], ...]
    done: str
    crosses: bool = False


def _loads() -> Iterator[Load]:
    for size in SIZES:
        sized = ("--size", str(size))
        four, two = _pairs(4), _pairs(2)
        apart = tuple((*two, *sized, *user) for user in (_A, _B))
        yield Load(
            f"apart-{size}", f"two accounts, {size} B", "accounts", "traffic", apart, "received"
        )
        yield Load(
            f"one-{size}",
            f"one account, {size} B",
            "plain",
            "traffic",
            ((*four, *sized),),
            "received",
            crosses=True,
        )
        yield Load(
            f"tls-{size}",
            f"two accounts over TLS, {size} B",
            "accounts-tls",
            "traffic",
            tuple((*part, "--tls") for part in apart),
            "received",
            crosses=True,
        )
    connect = ("--operation", "connect", "--in-flight", "16")
    yield Load("login", "logins", "plain", "operate", (connect,), "done")
    yield Load("tls-login", "logins over TLS", "tls", "operate", ((*connect, "--tls"),), "done")
    storm = ("--connections", "2000", "--window", "200")
    yield Load("storm", "2,000 clients connect at once", "plain", "storm", (storm,), "connected")
    publish = ("--operation", "publish", "--in-flight", "8", "--size", "128")
    yield Load(
        "streams",
        "publishes to two streams",
        "accounts-jetstream",
        "operate",
        tuple((*publish, *user) for user in (_A, _B)),
        "done",
    )


def _pairs(count: int) -> tuple[str, ...]:
    return (
        "--publishers",
        str(count),
        "--subscribers",
        str(count),
        "--subjects",
        str(count),
    )


LOADS = tuple(_loads())


@dataclass(frozen=True)
class Cost:
    """
    The medians of several rounds.

    @ivar microseconds: of processor time for each message or login.
    @ivar rate: of these in a second.
    """

    microseconds: float
    rate: float


Costs = Mapping[tuple[str, str, int], Cost]
"""By the key of the load, the name of the server, and the number of processors."""


def counts(cores: int) -> list[int]:
    """
    @return: the numbers of workers to measure: 1, 2, 4 and so on, and at least two of them.
    """
    return [1 << power for power in range(max(cores, 2).bit_length())]


def measured(built: Generator, server: Server, load: Load, seconds: float) -> Cost:
    """
    @raise GeneratorFailed: if something is lost.
    """
    before = settledWork(server.pid, familyWork)
    with ThreadPoolExecutor(len(load.parts)) as threads:
        reports = list(
            threads.map(
                lambda part: built.run(load.mode, server.port, server.pid, part, seconds),
                load.parts,
            )
        )
    spent = settledWork(server.pid, familyWork) - before
    if any(report.get("lost") or report.get("disconnected") for report in reports):
        raise GeneratorFailed(f"messages are missing: {reports}")
    done = sum(report[load.done] for report in reports)
    rate = sum(report[load.done] / report["seconds"] for report in reports)
    return Cost(spent / done * 1e6, rate)


def ours(count: int) -> Contestant:
    """
    @return: ours with a number of workers.
    """
    (contestant,) = contestants.findOurs(["fast"]).lanes.values()
    return replace(contestant, command=(*contestant.command, "--workers", str(count)))


def theirs(count: int, program: str | None) -> Contestant:
    """
    @return: nats-server on a number of processors.
    """
    contestant = contestants.natsServer("nats-server", program)
    return replace(contestant, environment={"GOMAXPROCS": str(count)})


def processors(count: int, cores: Sequence[int]) -> tuple[frozenset[int], frozenset[int]]:
    """
    @return: the processors of the server and of the generator, which has all if none is left.
    """
    return frozenset(cores[:count]), frozenset(cores[count:] or cores)


def run(options: argparse.Namespace) -> dict[tuple[str, str, int], Cost]:
    """
    Measure all servers in turn, again and again.
    """
    cores = sorted(os.sched_getaffinity(0))
    loads = [load for load in LOADS if not options.loads or load.key in options.loads]
    rounds: dict[tuple[str, str, int], list[Cost]] = {}
    for _ in range(options.rounds):
        for load in loads:
            for count in counts(len(cores)):
                near, far = processors(count, cores)
                for name, contestant in (
                    ("natsbroker", ours(count)),
                    ("nats-server", theirs(count, options.reference)),
                ):
                    setting = SETTINGS[load.setting]
                    built = replace(generator.build(), cores=far)
                    try:
                        with started(contestant, setting, (), near) as server:
                            cost = measured(built, server, load, options.seconds)
                    except (GeneratorFailed, ServerFailed) as error:
                        say(f"{load.key} {name} {count}: {error}")
                        continue
                    say(f"{load.key} {name} {count}: {cost.microseconds:.2f} us")
                    rounds.setdefault((load.key, name, count), []).append(cost)
    return {
        key: Cost(median(cost.microseconds for cost in costs), median(cost.rate for cost in costs))
        for key, costs in rounds.items()
    }


def projected(one: float, two: float, count: int, crosses: bool) -> float:
    """
    Each of several workers has a processor. A message crosses from one to another with the chance
    that its receiver is elsewhere, and costs so much more.

    @param one: the cost with one worker.
    @param two: the cost with two.
    @return: the rate of C{count} workers over that of one.
    """
    crossing = 2 * (two - one)
    cost = one + crossing * (count - 1) / count if crosses else two
    return count * one / cost


def asMarkdown(costs: Costs, conditions: Mapping[str, object]) -> str:
    """
    @return: the file.
    """
    lines = ["# Workers", "", *(f"- {name}: {value}" for name, value in conditions.items()), ""]
    lines += [
        "Microseconds of processor time of all processes of the server, for each message or login.",
        "",
        "| load | processors | natsbroker | over one | rate | nats-server | over one | rate |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for load in LOADS:
        for count in sorted({count for key, _, count in costs if key == load.key}):
            cells = [load.title, str(count)]
            for name in ("natsbroker", "nats-server"):
                cells += _cells(costs, load.key, name, count)
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Projection, not measured: the rate of natsbroker over that of one worker, if each has",
        "a processor. It follows from the costs of one and two workers.",
        "",
        f"| load | {' | '.join(f'{count} workers' for count in PROJECTED)} |",
        f"|---|{'---|' * len(PROJECTED)}",
    ]
    for load in LOADS:
        one, two = (costs.get((load.key, "natsbroker", count)) for count in (1, 2))
        if one is not None and two is not None:
            given = one.microseconds, two.microseconds
            rates = [f"{projected(*given, count, load.crosses):.1f}" for count in PROJECTED]
            lines.append(f"| {load.title} | {' | '.join(rates)} |")
    return "\n".join([*lines, ""])


def _cells(costs: Costs, key: str, name: str, count: int) -> list[str]:
    cost, one = costs.get((key, name, count)), costs.get((key, name, 1))
    if cost is None:
        return ["", "", ""]
    ratio = "" if one is None else f"{cost.microseconds / one.microseconds:.2f}"
    return [f"{cost.microseconds:.2f}", ratio, f"{cost.rate:,.0f}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """
    @return: the exit status.
    """
    parser = argparse.ArgumentParser("python -m benchmarks.workers", description=__doc__)
    parser.add_argument("file", type=Path, help="the file to write")
    parser.add_argument("--loads", nargs="+", choices=[load.key for load in LOADS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--reference", metavar="PATH", help="the nats-server to compare with")
    options = parser.parse_args(arguments)
    raiseDescriptorLimit()
    costs = run(options)
    conditions = {**machine.describe(), "rounds": options.rounds, "seconds": options.seconds}
    options.file.write_text(asMarkdown(costs, conditions), "utf-8")
    return 0 if costs else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped
    sys.exit(main())
