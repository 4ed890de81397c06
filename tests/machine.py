"""
Prepares a machine for work on the project: system packages and a virtual environment.

Only the standard library is used, because nothing is installed when this runs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: The virtual environment of the two commands: the broker for one, tox for the other.
VENV = ROOT / os.environ.get("NATSBROKER_VENV", ".venv")

OLDEST = (3, 10)

_PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True)
class Need:
    """
    A requirement on the system.

    @ivar isThere: whether it is met.
    @ivar packages: the Debian packages that meet it.
    @ivar without: the consequence if it is not met.
    """

    isThere: Callable[[], bool]
    packages: tuple[str, ...]
    without: str


def _hasVenv() -> bool:
    command = [sys.executable, "-c", "import ensurepip, venv"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def hasCompiler() -> bool:
    """
    @return: whether extension modules can be compiled: a C compiler and this Python's headers.
    """
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    return shutil.which(os.environ.get("CC", "cc")) is not None and headers.exists()


def _hasPostgres() -> bool:
    # The test extra brings a PostgreSQL server for Linux on x86-64.
    return (
        (platform.system(), platform.machine()) == ("Linux", "x86_64")
        or shutil.which("postgres") is not None
        or Path("/usr/lib/postgresql").is_dir()
    )


def _has(program: str) -> Callable[[], bool]:
    return lambda: shutil.which(program) is not None


ENVIRONMENTS = Need(_hasVenv, (f"{_PYTHON}-venv",), "no virtual environment can be made")

COMPILER = Need(
    hasCompiler,
    ("gcc", "libc6-dev", f"{_PYTHON}-dev"),
    "the broker runs in pure Python, slower",
)

PEERS = (
    Need(_has("npm"), ("nodejs", "npm"), "no tests with JavaScript clients"),
    Need(Path("/usr/include/nats/nats.h").exists, ("libnats-dev",), "no tests with the C client"),
    Need(Path("/usr/sbin/nats-server").exists, ("nats-server",), "no tests with nats-server 2.9"),
    Need(_has("mosquitto_sub"), ("mosquitto-clients",), "no tests with mosquitto's clients"),
    Need(_has("curl"), ("curl",), "no tests of the pages that readers follow"),
    Need(_has("fish"), ("fish",), "no tests of completion in fish"),
    Need(_has("zsh"), ("zsh",), "no tests of completion in zsh"),
    Need(_has("openssl"), ("openssl",), "no tests of TLS with made-up authorities"),
    Need(_has("chromedriver"), ("chromium", "chromium-driver"), "no tests in a browser"),
)
"""The tools that the tests in tests/interop use."""

DATABASE = Need(_hasPostgres, ("postgresql",), "no tests with PostgreSQL")


def say(text: str) -> None:
    """
    Report progress on stderr, at once.
    """
    print(f"natsbroker: {text}", file=sys.stderr, flush=True)


def provide(needs: Sequence[Need]) -> bool:
    """
    Install the packages of those needs that are not met, as root on Debian. Elsewhere name them.

    @return: whether all needs are met now.
    """
    missing = [need for need in needs if not need.isThere()]
    packages = [name for need in missing for name in need.packages]
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"installing Debian packages: {' '.join(packages)}")
        _apt("update")
        _apt("install", "-y", "--no-install-recommends", *packages)
        missing = [need for need in missing if not need.isThere()]
    for need in missing:
        say(f"missing: {' '.join(need.packages)} ({need.without})")
    return not missing


def _apt(*arguments: str) -> None:
    subprocess.run(
        ["apt-get", "-qq", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        check=False,
    )


def requirePython() -> None:
    """
    @raise SystemExit: if this Python is older than the project supports, or cannot make virtual
        environments.
    """
    if sys.version_info < OLDEST:
        raise SystemExit(f"natsbroker: Python 3.10 or later is needed; this is {sys.version}")
    if not provide([ENVIRONMENTS]):
        raise SystemExit("natsbroker: on Debian: apt-get install python3-venv")


def _fingerprint(requirement: str) -> str:
    """
    @return: a digest of everything that an installation depends on.
    """
    facts = [sys.version, sys.prefix, requirement, str(ROOT), str(hasCompiler())]
    facts.append(os.environ.get("NATSBROKER_NO_EXTENSIONS", ""))
    digest = hashlib.sha256("\0".join(facts).encode())
    names = ["setup.cfg", "setup.py", "pyproject.toml", "natsbroker/__init__.py"]
    sources = sorted((ROOT / "natsbroker" / "_accel").glob("*.p[xy][dxi]"))
    for path in [*(ROOT / name for name in names), *sources]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def isInstalled(name: str, requirement: str) -> bool:
    """
    @return: whether L{install} has nothing to do.
    """
    stamp = VENV / f"{name}.installed"
    return stamp.exists() and stamp.read_text() == _fingerprint(requirement)


def install(name: str, requirement: str, *options: str) -> None:
    """
    Install C{requirement} into L{VENV}, which is created if it does not exist.

    @param name: the name of the stamp by which a later call knows that this is done.
    @param options: options for pip.
    @raise subprocess.CalledProcessError: if pip failed, with its output.
    """
    if isInstalled(name, requirement):
        return
    say(f"installing {requirement} into {VENV}")
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        _pip(python, "--upgrade", "pip>=23")
    _pip(python, *options, requirement)
    (VENV / f"{name}.installed").write_text(_fingerprint(requirement))


def _pip(python: Path, *arguments: str) -> None:
    # setuptools warns that the compat mode will go one day; the default mode hides the plugin.
    subprocess.run(
        [python, "-m", "pip", "install", "-q", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        check=True,
    )
