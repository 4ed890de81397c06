"""
Install the original NATS Streaming clients, for L{tests.interop.prepare}.

The Python client has the package name C{nats} like today's client, so it needs an environment of
its own.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from tests.interop.commands import run, say

HERE = Path(__file__).resolve().parent

#: The two programs' directories, and the interpreter with the Python client, which is kept where
#: nobody looks for tests.
JS = HERE / "js"
PY = HERE / "py"
ENVIRONMENT = HERE.parents[2] / "build" / "interop-stan"
PYTHON = ENVIRONMENT / "bin" / "python"


def _isInstalled(stamp: Path, lock: Path) -> bool:
    return stamp.exists() and stamp.read_text() == _digest(lock)


def _digest(lock: Path) -> str:
    return hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()


def pythonClient() -> bool:
    """
    Install asyncio-nats-streaming, in the pinned version.

    @return: whether it is installed.
    """
    lock, stamp = PY / "requirements.txt", ENVIRONMENT / ".installed"
    if _isInstalled(stamp, lock):
        return True
    try:
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        say(f"no environment for the NATS Streaming client: {error}")
        return False
    if not run(PYTHON, "-m", "pip", "install", "--quiet", "-r", lock):
        return False
    stamp.write_text(_digest(lock))
    return True


def javaScriptClient() -> bool:
    """
    Install node-nats-streaming, in the locked version.

    @return: whether it is installed.
    """
    lock, stamp = JS / "package-lock.json", JS / "node_modules" / ".installed"
    if _isInstalled(stamp, lock):
        return True
    if not shutil.which("npm"):
        say("no npm: nothing is tested with the NATS Streaming client for Node.js")
        return False
    if not run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=JS):
        return False
    stamp.write_text(_digest(lock))
    return True
