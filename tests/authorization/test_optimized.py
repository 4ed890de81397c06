"""
C{python -O} removes assert statements: authorization must not depend on them.

The checks run the tests of authorization with this option. Pytest keeps the asserts of the tests
themselves, which L{test_testsCount} verifies.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import natsbroker
from tests.listed import CHECKOUT

pytestmark = pytest.mark.slow

PACKAGE = Path(natsbroker.__file__).resolve().parent

_SERVES = """
from natsbroker.testing.memory import MemoryBroker
broker = MemoryBroker(configText="authorization { user: u, password: p }")
known = {"verbose": False, "user": "u", "pass": "p"}
print(broker.connect(known).request(b"SUB greet 1\\r\\n", b"PUB greet 5\\r\\nhello\\r\\n"))
stranger = broker.connect()
stranger.receive()
print(stranger.request(b'CONNECT {"user":"u","pass":"q"}\\r\\n'))
broker.stop()
"""


def run(*arguments: str, flag: str = "-O") -> subprocess.CompletedProcess[str]:
    """Run Python with a flag in the checkout."""
    return subprocess.run(
        [sys.executable, flag, *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_matrix() -> None:
    """The matrix agrees in a Python without asserts, too."""
    done = run("-m", "tests.authorization", "--scenes", "60")
    assert (done.returncode, done.stdout.split()[-2:]) == (0, ["cases", "agree"]), done.stderr


def test_disagreement() -> None:
    """The comparison finds an implementation that allows everything."""
    sabotage = (
        "import sys; sys.argv[1:] = ['--scenes', '60']\n"
        "from natsbroker.wire.grants import Grant\n"
        "from natsbroker.subjects.permissions import Verdict\n"
        "Grant.may = lambda *arguments: Verdict.ALLOWED\n"
        "from tests.authorization.__main__ import main\n"
        "sys.exit(main())\n"
    )
    done = run("-c", sabotage)
    assert done.returncode == 1
    assert "scene" in done.stdout


def test_everyModule() -> None:
    """Every module can be imported without asserts and without docstrings."""
    modules = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "__main__.py"
    ]
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except ModuleNotFoundError as missing:\n"
        "        if (missing.name or '').startswith('natsbroker'): raise\n"
        "print(sys.flags.optimize)\n"
    )
    done = run("-c", code, flag="-OO")
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


@pytest.mark.parametrize("flag", ["-O", "-OO"])
def test_help(flag: str) -> None:
    """The help text is shown without docstrings too, and Twisted finds the plugin."""
    optimized, plain = (run("-m", "natsbroker", "--help", flag=option) for option in (flag, "-B"))
    assert (optimized.returncode, optimized.stdout) == (0, plain.stdout)
    twisted = run("-m", "twisted", "natsbroker", "--help", flag=flag)
    assert twisted.returncode == 0 and "--config" in twisted.stdout


@pytest.mark.parametrize("flag", ["-O", "-OO"])
def test_serves(flag: str) -> None:
    """A broker starts, and refuses a client without the right credentials."""
    done = run("-c", _SERVES, flag=flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "b'MSG greet 1 5\\r\\nhello\\r\\n'",
        "b\"-ERR 'Authorization Violation'\\r\\n\"",
    ]


def test_testsCount() -> None:
    """The asserts of tests are executed, also with C{python -O}."""
    with pytest.raises(AssertionError):
        assert sys.flags.optimize < 0
