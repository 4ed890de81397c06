"""
C{python -O} takes assert statements out: authorization must not lean on any.

C{.ci/test} runs the tests of authorization with it; pytest keeps the asserts of the tests
themselves, which L{test_testsCount} holds.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import natsbroker
from tests.listed import CHECKOUT

PACKAGE = Path(natsbroker.__file__).resolve().parent

#: Where something is decided, or carried out.
DECIDING = ("auth", "client", "core", "hosting", "net", "stan", "subjects", "wire")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with C{-O} in the checkout."""
    return subprocess.run(
        [sys.executable, "-O", *arguments],
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
    """There, it finds a product that lets everything pass."""
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


@pytest.mark.parametrize("package", DECIDING)
def test_noAsserts(package: str) -> None:
    """Nothing that decides has an assert statement at all."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in (PACKAGE / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assert)
    ]
    assert found == []


def test_testsCount() -> None:
    """The asserts of tests count, however Python was started."""
    with pytest.raises(AssertionError):
        assert sys.flags.optimize < 0
