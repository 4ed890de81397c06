"""
Install and build what the interop tests need besides Python packages: C{python -m
tests.interop.prepare}.

Promises: as often as one likes; a second run does nothing.  As root on Debian the missing system
packages are installed; elsewhere they are named.  What cannot be had is said, and is an exit status
other than 0 where CI is set.

This module must never know what the tests do.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from tests.interop.commands import run, say
from tests.interop.servers import OLD_SERVER
from tests.interop.stan import prepare as streaming

HERE = Path(__file__).resolve().parent

#: The JavaScript programs' directory, and the C program once it is built.
JS = HERE / "js"
C_PROGRAM = HERE / "c" / "build" / "scenarios"

NATS_HEADER = Path("/usr/include/nats/nats.h")


def systemPackages() -> None:
    """
    Install Node.js, the C client, a compiler and an older nats-server, where they are missing and
    it can be done.
    """
    wanted = [] if shutil.which("npm") else ["nodejs", "npm"]
    wanted += [] if NATS_HEADER.exists() else ["libnats-dev"]
    wanted += [] if OLD_SERVER.exists() else ["nats-server"]
    wanted += [] if shutil.which("cc") else ["gcc", "libc6-dev"]
    wanted += [] if shutil.which("openssl") else ["openssl"]
    if not wanted:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        say(f"missing: {' '.join(wanted)}")
        return
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    _ = run("apt-get", "-qq", "update") and run(
        "apt-get", "-qq", "install", "-y", "--no-install-recommends", *wanted
    )


def javaScript() -> bool:
    """
    Install the JavaScript clients, as locked.

    @return: whether they are there.
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


def cProgram() -> bool:
    """
    Build the C program.

    @return: whether it is there.
    """
    source = HERE / "c" / "scenarios.c"
    if C_PROGRAM.exists() and C_PROGRAM.stat().st_mtime >= source.stat().st_mtime:
        return True
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or not NATS_HEADER.exists():
        say("no C compiler or no libnats-dev: nothing is tested with the C client")
        return False
    C_PROGRAM.parent.mkdir(exist_ok=True)
    return run(compiler, "-O1", "-o", C_PROGRAM, source, "-lnats", "-lpthread")


def main() -> int:
    """
    Do all of it.
    """
    systemPackages()
    ready = [javaScript(), cProgram(), streaming.pythonClient(), streaming.javaScriptClient()]
    return 1 if os.environ.get("CI") and not all(ready) else 0


if __name__ == "__main__":
    sys.exit(main())
