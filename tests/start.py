"""
Starts the broker from a checkout: C{python3 -m tests.start [ARGUMENT...]}, with the arguments of
C{natsbroker}. The first start creates C{.venv} and installs into it. Later ones start at once.
"""

from __future__ import annotations

import os
import sys

from tests.machine import COMPILER, VENV, install, isInstalled, provide, requirePython, say


def main(arguments: list[str]) -> None:
    """Install what is missing, and become the broker."""
    if not isInstalled("natsbroker", "."):
        say(f"will install natsbroker into {VENV}, and a C compiler if this user may")
    requirePython()
    provide([COMPILER])
    # Without the compat mode an editable installation hides twisted/plugins from twistd.
    install("natsbroker", ".", "--config-settings", "editable_mode=compat", "-e")
    program = VENV / "bin" / "natsbroker"
    os.execv(program, [str(program), *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
