"""
The command: C{python -m benchmarks}.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import compare, contestants, generator, machine, network, report, rows
from benchmarks.figures import Statistic
from benchmarks.operationrows import OPERATIONS, SYNCS, syncOf
from benchmarks.processes import parseCores
from benchmarks.rounds import Results, Rounds
from benchmarks.servers import Contestant

REFUSALS = (
    LookupError,
    ValueError,
    contestants.Absent,
    generator.GeneratorMissing,
    network.NotIsolated,
)
"""The obstacles to measuring; the first argument names one."""


def parser() -> argparse.ArgumentParser:
    """
    @return: the command line.
    """
    made = argparse.ArgumentParser(
        "python -m benchmarks", description="Measure natsbroker beside nats-server, in turn."
    )
    add = made.add_argument
    add("--list", action="store_true", help="name the rows and end")
    add("--rows", nargs="+", metavar="ROW", help="only these: keys of --list, or patterns of keys")
    add("--rounds", type=int, metavar="N", help="how often each server is measured (5)")
    add("--seconds", type=float, metavar="S", help="how long each measurement lasts (1.5)")
    add("--quick", action="store_true", help="fewer rows, 3 rounds of half a second")
    add(
        "--sync", nargs="+", choices=SYNCS, help="only these operations of JetStream, on both sides"
    )
    add("--best", action="store_true", help="compare the best rounds, not the medians")
    add("--lanes", nargs="+", choices=("fast", "pure"), default=["fast", "pure"])
    add("--ours", metavar="COMMAND", help="how ours is started (python -m natsbroker)")
    add("--reference", metavar="PATH", help="the nats-server to compare with")
    add("--old", metavar="PATH", help="an older nats-server to compare with as well")
    add("--ceiling", action="store_true", help="measure what the generator itself can reach too")
    add("--pin", metavar="SERVER:GENERATOR", help="processors for each, such as 0:1 or 0-1:2,3")
    add("--isolated", action="store_true", help="measure in a network of its own, without pacing")
    add("--markdown", action="store_true", help="print the table in Markdown")
    add("--json", metavar="FILE", type=Path, help="write all figures to FILE too")
    add("--check", action="store_true", help="status 1 when a target is missed")
    return made


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


def chosenRows(options: argparse.Namespace) -> list[rows.Row]:
    """
    @return: the rows that the command line asks for.
    @raise LookupError: if it names one that is not there.
    """
    chosen = rows.choose(options.rows or (rows.QUICK if options.quick else ["*"]))
    if options.sync:
        syncs = ("", *options.sync)
        chosen = [row for row in chosen if row not in OPERATIONS or syncOf(row) in syncs]
    if not options.quick:
        return chosen
    return [replace(row, load=row.quick) if row.quick else row for row in chosen]


def chosenContestants(
    options: argparse.Namespace, built: generator.Generator
) -> tuple[list[Contestant], tuple[str, ...]]:
    """
    @return: who takes part, in the order of each round, and what is to be said about them.
    @raise contestants.Absent: if one that is needed is not there.
    """
    others = [contestants.natsServer("reference", options.reference)]
    if options.ours:
        ours = contestants.namedOurs(options.ours, options.lanes)
    else:
        ours = contestants.findOurs(options.lanes)
    others += ours.lanes.values()
    if options.old:
        others.append(contestants.natsServer("old", options.old))
    others.append(contestants.relay(built))
    if options.ceiling:
        others.append(contestants.mirror(built))
    return others, ours.remarks


def raiseDescriptorLimit() -> None:
    """
    Let the servers open as many files as this process may: the storm needs thousands.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def conditionsOf(options: argparse.Namespace, rounds: Rounds) -> dict[str, object]:
    """
    @return: where and how it is measured.
    """
    return {
        "machine": machine.describe(),
        "contestants": {contestant.name: contestant.title for contestant in rounds.contestants},
        "rounds": rounds.rounds,
        "seconds": rounds.seconds,
        "statistic": statisticOf(options).value,
        "pinned": options.pin or "",
    }


def statisticOf(options: argparse.Namespace) -> Statistic:
    """
    @return: what stands for several rounds.
    """
    return Statistic.BEST if options.best else Statistic.MEDIAN


def prepare(options: argparse.Namespace) -> tuple[Rounds, tuple[str, ...]]:
    """
    @return: everything that is needed to measure, and what is to be said about it.
    """
    servers, _, load = (options.pin or "").partition(":")
    cores = parseCores(servers) if servers else frozenset()
    built = generator.build(cores=parseCores(load) if load else frozenset())
    chosen, remarks = chosenContestants(options, built)
    count = options.rounds or (3 if options.quick else 5)
    seconds = options.seconds or (0.5 if options.quick else 1.5)
    return Rounds(built, chosen, count, seconds, cores, say), remarks


def pacing() -> tuple[str, ...]:
    """
    @return: what is to be said about the congestion control.
    """
    control = network.congestionControl()
    if control not in network.PACED:
        return ()
    return (f"{control} paces what is sent, also over loopback: --isolated measures without it",)


def show(
    options: argparse.Namespace, results: Sequence[Results], conditions: dict[str, object]
) -> int:
    """
    Print the report and write the file.

    @return: the exit status.
    """
    titles = conditions["contestants"]
    assert isinstance(titles, dict)
    comparisons = [
        comparison for one in results for comparison in compare.compare(one, statisticOf(options))
    ]
    failures = [failure for one in results for failure in compare.failuresIn(one)]
    render = report.asMarkdown if options.markdown else report.asText
    print(render(comparisons, failures, titles))
    if options.json:
        options.json.write_text(report.asJson(conditions, results, comparisons) + "\n", "utf-8")
    short = report.shortfalls(comparisons)
    say(f"{short} targets missed, {len(failures)} measurements failed")
    return int(any(failure.lost for failure in failures) or (options.check and short > 0))


def main(arguments: Sequence[str] | None = None) -> int:
    """
    @param arguments: those after the command's name; C{None} for the process's own.
    @return: the exit status.
    """
    options = parser().parse_args(arguments)
    if options.list:
        print("\n".join(f"{row.key:22} {row.title}" for row in rows.ROWS))
        return 0
    try:
        chosen = chosenRows(options)
        raiseDescriptorLimit()
        if options.isolated:
            network.isolate()
        rounds, remarks = prepare(options)
    except REFUSALS as error:
        say(f"benchmarks: {error.args[0]}")
        return 2
    conditions = conditionsOf(options, rounds)
    say(
        "\n".join(
            [*(f"{key}: {value}" for key, value in machine.describe().items()), *pacing(), *remarks]
        )
    )
    return show(options, list(rounds.run(chosen)), conditions)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped
    sys.exit(main())
