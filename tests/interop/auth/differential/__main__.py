"""
The long form::

    python -m tests.interop.auth.differential --conversations 500 --seed 7
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import chain
from pathlib import Path

from tests.interop.auth.differential.attempts import changes, matters
from tests.interop.auth.differential.comparison import Comparison
from tests.interop.servers import ALL, OURS_FAST


def main(arguments: list[str]) -> int:
    """
    The command line.
    """
    parser = argparse.ArgumentParser(description="Compare verdicts with nats-server.")
    parser.add_argument("--conversations", type=int, default=200, help="for each configuration")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="the name of a configuration")
    parser.add_argument("--number", type=int, help="of one conversation")
    parser.add_argument("--flavour", choices=[f.name for f in ALL], default=OURS_FAST.name)
    options = parser.parse_args(arguments)
    flavour = next(flavour for flavour in ALL if flavour.name == options.flavour)
    numbers = range(options.conversations)
    if options.number is not None:
        numbers = range(options.number, options.number + 1)
    differing = 0
    with tempfile.TemporaryDirectory() as place, Comparison(flavour, Path(place)) as comparison:
        wanted = [matter for matter in matters() if not options.only or matter.name in options.only]
        runs = [comparison.differences(matter, options.seed, numbers) for matter in wanted]
        wantedChanges = [
            change for change in changes() if not options.only or change.matter.name in options.only
        ]
        runs += [comparison.changed(change, options.seed, numbers) for change in wantedChanges]
        for difference in chain.from_iterable(runs):
            differing += 1
            print(difference, flush=True)
        for reason, count in comparison.explained.items():
            print(f"{count} explained: {reason}")
        print(f"{comparison.attempts} attempts, {differing} differences")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
