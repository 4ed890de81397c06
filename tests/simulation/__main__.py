"""
Run histories: C{python -m tests.simulation --histories 1000}, or one of them again:
C{python -m tests.simulation --seed 7}; with C{--kind super}, those of a super-cluster with
leafnodes, and with C{--kind workers}, those of a server whose workers die.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from functools import partial

from tests.simulation.history import CLUSTER, KINDS, stepsOf
from tests.simulation.running import run, shortened

__all__ = ["main", "report"]

#: The most lines about one history.
_LONGEST = 40


def report(seed: int, kind: str = CLUSTER) -> list[str]:
    """
    The report of a history: its errors, the fewest steps that lead to them, and the command that
    shows it again; empty if all is well.
    """
    outcome = run(seed, kind=kind)
    if not outcome.wrong:
        return []
    steps = shortened(
        seed, stepsOf(seed, kind=kind), lambda fewer: bool(run(seed, fewer, kind).wrong)
    )
    wrong = run(seed, steps, kind).wrong
    lines = [f"seed {seed}: {len(outcome.wrong)} violations; {len(steps)} steps suffice:"]
    lines += [f"    {step}" for step in steps]
    lines += [f"  {problem}" for problem in wrong]
    again = f"again: python -m tests.simulation --seed {seed} --kind {kind}"
    return [*lines[: _LONGEST - 1], again]


def _checked(seed: int, kind: str = CLUSTER) -> tuple[int, bool, int]:
    outcome = run(seed, kind=kind)
    return seed, bool(outcome.wrong), outcome.messages


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run what the command line asks for.

    @return: how many histories went wrong, 100 at most.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, help="run only this history, and make it shorter")
    parser.add_argument("--histories", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--first", type=int, default=0, help="the first one's seed (0)")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="at a time")
    parser.add_argument("--kind", choices=KINDS, default=CLUSTER, help="of the world")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        lines = report(options.seed, options.kind)
        print("\n".join(lines) or f"seed {options.seed}: nothing wrong")
        return bool(lines)
    seeds = range(options.first, options.first + options.histories)
    began = time.monotonic()
    wrong, messages = [], 0
    with multiprocessing.Pool(options.jobs) as pool:
        check = partial(_checked, kind=options.kind)
        for seed, isWrong, count in pool.imap_unordered(check, seeds, chunksize=8):
            messages += count
            if isWrong:
                wrong.append(seed)
                print("\n".join(report(seed, options.kind)), flush=True)
    pace = 60 * options.histories / (time.monotonic() - began)
    ran = f"{options.histories} histories, {messages} messages"
    print(f"{ran}, {len(wrong)} wrong, {pace:.0f} a minute")
    return min(len(wrong), 100)


if __name__ == "__main__":
    sys.exit(main())
