"""
Plays scenes of the authorization matrix: C{python -m tests.authorization [--scenes N] [--only N]}.

The checks also run with C{python -O}. A disagreement is a message and an exit status of 1.
"""

from __future__ import annotations

import argparse
import sys

from tests.authorization.scenes import Disagreement, Scene
from tests.support import COMPILED, PURE


def main() -> int:
    """
    The command line.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.authorization")
    parser.add_argument("--scenes", type=int, default=90)
    parser.add_argument("--only", type=int, help="the number of one scene")
    options = parser.parse_args()
    scenes = range(options.scenes) if options.only is None else [options.only]
    cases = 0
    for names in (PURE, *([COMPILED] if COMPILED else [])):
        for number in scenes:
            try:
                cases += Scene(number, names).play()
            except Disagreement as disagreement:
                print(f"{names}: {disagreement}")
                return 1
    print(f"{cases} cases agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
