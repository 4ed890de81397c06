"""
A plugin and a first program as the documents show them, read by type checkers that do not know
zope.interface.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

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


def byMypy(good: Path, bad: Path, folder: Path) -> str:
    """
    @return: the complaints of plain mypy, none of which is about C{good}.
    """
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT}\n")
    mypy = (sys.executable, "-m", "mypy", "--config-file", "mypy.ini")
    if "No module named mypy" in complaints(*mypy, "--version", folder=folder):
        missing("mypy is not installed")
    report = complaints(*mypy, good, bad, folder=folder)
    assert good.name not in report, report
    return report


def byPyright(good: Path, bad: Path, folder: Path) -> str:
    """
    @return: the complaints of pyright, none of which is about C{good}.
    """
    node = shutil.which("node")
    if node is None or not PYRIGHT.exists():
        missing("no Node.js or no pyright")
    (folder / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT}"]}}')
    pyright = (str(node), PYRIGHT, "--pythonpath", sys.executable)
    report = complaints(*pyright, good, bad, folder=folder)
    assert good.name not in report, report
    return report


def test_mypy(tmp_path: Path) -> None:
    """Plain mypy accepts the plugin, and finds a value of the wrong type in it."""
    assert "[return-value]" in byMypy(*plugins(tmp_path), tmp_path)


def test_pyright(tmp_path: Path) -> None:
    """Pyright accepts the plugin too, and finds the value."""
    assert "reportReturnType" in byPyright(*plugins(tmp_path), tmp_path)


PROGRAM = """
import asyncio

from natsbroker import Broker, serving


async def main() -> None:
    async with serving(Broker.fromText("listen: '127.0.0.1:-1'")) as url:
        print(url.upper())


asyncio.run(main())
"""


def test_firstProgram(tmp_path: Path) -> None:
    """The package's own names have their types, though they are loaded when they are used."""
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(PROGRAM, "utf-8")
    bad.write_text(PROGRAM.replace("url.upper()", "url.port"), "utf-8")
    assert "attr-defined" in byMypy(good, bad, tmp_path)
    assert "reportAttributeAccessIssue" in byPyright(good, bad, tmp_path)


def plugins(folder: Path) -> tuple[Path, Path]:
    """
    @return: the documented plugin, and one that returns text instead of an authorizer.
    """
    text = PLUGIN.read_text("utf-8")
    wrong = text.replace("return makeAuthenticator(", "return repr(")
    assert wrong != text
    good, bad = folder / "good.py", folder / "bad.py"
    good.write_text(text, "utf-8")
    bad.write_text(wrong, "utf-8")
    return good, bad
