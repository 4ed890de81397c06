"""
Runs the checks from a checkout, on a machine that has nothing but Python: C{python3 -m tests}.

With arguments, pytest runs with these instead: C{python3 -m tests tests/wire -k decoder}. The
checks are defined in tox.ini and L{tests.checks}; this module installs what they need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.machine import (
    COMPILER,
    DATABASE,
    PEERS,
    ROOT,
    VENV,
    Need,
    install,
    provide,
    requirePython,
    say,
)
from tests.reach import Reach, reachOf

_TOX = "tox>=4.20"


def needsOf(reach: Reach) -> list[Need]:
    """
    @return: the system packages that these tests need.
    """
    if reach.environment == "unit":
        return []
    peers = PEERS if reach.interop else ()
    return [COMPILER, *peers, *((DATABASE,) if reach.postgres else ())]


def announce(reach: Reach, needs: Sequence[Need]) -> None:
    """Say what will be installed, before it is."""
    plan = [name for need in needs if not need.isThere() for name in need.packages]
    if plan:
        say(f"will install, if this user may: {' '.join(plan)}")
    places = {
        VENV: "tox",
        ROOT / ".tox" / reach.environment: f"natsbroker and its test tools ({reach.environment})",
    }
    if reach.interop:
        places[ROOT / "tests/interop/js/node_modules"] = "NATS clients for Node.js"
        places[ROOT / "tests/interop/stan/js/node_modules"] = "NATS Streaming client for Node.js"
        places[ROOT / "build/interop-stan"] = "NATS Streaming client for Python"
    for place, what in places.items():
        if not place.exists():
            say(f"will install into {place.relative_to(ROOT)}: {what}")


def main(arguments: list[str]) -> None:
    """Install what is missing, and become tox."""
    os.chdir(ROOT)
    reach = reachOf(arguments)
    needs = needsOf(reach)
    announce(reach, needs)
    requirePython()
    if not provide(needs) and os.environ.get("CI"):
        raise SystemExit("natsbroker: in continuous integration nothing may be missing")
    install("tox", _TOX)
    python = str(Path(VENV, "bin", "python"))
    os.execv(python, [python, "-m", "tox", "run", "-e", reach.environment, "--", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
