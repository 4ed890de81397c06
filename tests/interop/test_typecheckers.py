"""
A plugin as the documents show it, read by type checkers that do not know zope.interface.
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


def test_mypy(tmp_path: Path) -> None:
    """Plain mypy accepts the plugin, and finds a value of the wrong type in it."""
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT}\n")
    good, bad = plugins(tmp_path)
    mypy = (sys.executable, "-m", "mypy", "--config-file", "mypy.ini")
    if "No module named mypy" in complaints(*mypy, "--version", folder=tmp_path):
        missing("mypy is not installed")
    found = complaints(*mypy, good, bad, folder=tmp_path)
    assert "[return-value]" in found and good.name not in found, found


def test_pyright(tmp_path: Path) -> None:
    """So does pyright."""
    node = shutil.which("node")
    if node is None or not PYRIGHT.exists():
        missing("no Node.js or no pyright")
    good, bad = plugins(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT}"]}}')
    pyright = (str(node), PYRIGHT, "--pythonpath", sys.executable)
    found = complaints(*pyright, good, bad, folder=tmp_path)
    assert "reportReturnType" in found and good.name not in found, found


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
