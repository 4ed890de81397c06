"""
Install and build what the interop tests need besides Python packages: C{python -m
tests.interop.prepare}.

A second run does nothing. System packages are not installed here: C{python3 -m tests} does that,
from the table in L{tests.machine}. Parts that cannot be installed are named, and the exit status is
then 1 where CI is set.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from tests.interop.commands import run, say
from tests.interop.stan import prepare as streaming

HERE = Path(__file__).resolve().parent

#: The JavaScript programs' directory, and the C programs once they are built.
JS = HERE / "js"
C_PROGRAM = HERE / "c" / "build" / "scenarios"
C_JETSTREAM = HERE / "c" / "build" / "jetstream"

NATS_HEADER = Path("/usr/include/nats/nats.h")


def javaScript() -> bool:
    """
    Install the JavaScript clients, in the locked versions.

    @return: whether they are installed.
    """
    lock = hashlib.sha256((JS / "package-lock.json").read_bytes()).hexdigest()
    stamp = JS / "node_modules" / ".installed"
    if stamp.exists() and stamp.read_text() == lock:
        return True
    if not shutil.which("npm"):
        say("no npm: nothing is tested with the JavaScript clients")
        return False
    if not run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=JS):
        return False
    stamp.write_text(lock)
    return True


def cPrograms() -> bool:
    """
    Build the C programs.

    @return: whether they are built.
    """
    return all([_built(program) for program in (C_PROGRAM, C_JETSTREAM)])


def _built(program: Path) -> bool:
    source = HERE / "c" / f"{program.name}.c"
    if program.exists() and program.stat().st_mtime >= source.stat().st_mtime:
        return True
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or not NATS_HEADER.exists():
        say("no C compiler or no libnats-dev: nothing is tested with the C client")
        return False
    program.parent.mkdir(exist_ok=True)
    return run(compiler, "-O1", "-o", program, source, "-lnats", "-lpthread")


def main() -> int:
    """
    Install and build everything.

    @return: the exit status.
    """
    ready = [javaScript(), cPrograms(), streaming.pythonClient(), streaming.javaScriptClient()]
    return 1 if os.environ.get("CI") and not all(ready) else 0


if __name__ == "__main__":
    sys.exit(main())
