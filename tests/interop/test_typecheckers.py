"""
A plugin and a first program as in the documents, checked by type checkers that do not know
zope.interface.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.prepare import JS
from tests.interop.servers import missing

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "examples" / "custom_auth.py"
PYRIGHT = JS / "node_modules" / "pyright" / "index.js"


def complaints(*command: str | Path, folder: Path) -> str:
    """
    @return: the report of a checker; empty without errors.
    """
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout if done.returncode else ""


PROGRAM = """
import asyncio

from natsbroker import Broker, serving


async def main() -> None:
    async with serving(Broker.fromText("listen: '127.0.0.1:-1'")) as url:
        print(url.upper())


asyncio.run(main())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A folder with the documented plugin, a plugin that returns text instead of an authorizer, a
    first program, and one that uses text as another type. Each checker reads all four at once,
    because it needs most of the time for the package.
    """
    made = tmp_path_factory.mktemp("checked")
    for name, text, right, wrong in (
        ("plugin", PLUGIN.read_text("utf-8"), "return makeAuthenticator(", "return repr("),
        ("program", PROGRAM, "url.upper()", "url.port"),
    ):
        assert right in text
        (made / f"good_{name}.py").write_text(text, "utf-8")
        (made / f"bad_{name}.py").write_text(text.replace(right, wrong), "utf-8")
    return made


def test_mypy(folder: Path) -> None:
    """Plain mypy accepts plugin and program, and reports the value of a wrong type in each."""
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT}\n")
    mypy = (sys.executable, "-m", "mypy", "--config-file", "mypy.ini")
    if "No module named mypy" in complaints(*mypy, "--version", folder=folder):
        missing("mypy is not installed")
    report = complaints(*mypy, *sorted(folder.glob("*.py")), folder=folder)
    assert "good_" not in report, report
    assert "[return-value]" in report and "[attr-defined]" in report, report


def test_pyright(folder: Path) -> None:
    """Pyright accepts plugin and program, and reports the value of a wrong type in each."""
    node = shutil.which("node")
    if node is None or not PYRIGHT.exists():
        missing("no Node.js or no pyright")
    (folder / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT}"]}}')
    pyright = (str(node), PYRIGHT, "--pythonpath", sys.executable)
    report = complaints(*pyright, *sorted(folder.glob("*.py")), folder=folder)
    assert "good_" not in report, report
    assert "reportReturnType" in report and "reportAttributeAccessIssue" in report, report
