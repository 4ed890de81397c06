"""
Commands that install packages.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def say(text: str) -> None:
    """Print a line for the user."""
    print(f"interop tests: {text}", file=sys.stderr)


def run(*command: str | Path, cwd: Path | None = None) -> bool:
    """
    @return: whether a command succeeded. Otherwise its output is shown.
    """
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        say(f"{' '.join(map(str, command))} failed:")
        sys.stderr.write(done.stdout.decode(errors="replace"))
    return done.returncode == 0
