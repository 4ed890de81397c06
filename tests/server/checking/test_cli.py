"""
The command line of C{natsbroker check}.
"""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest

from natsbroker.main import main
from tests.server.checking.test_store import fill


def check(*arguments: str) -> tuple[int, str, str]:
    """Run it: the exit code, and what is printed."""
    stdout, stderr = StringIO(), StringIO()
    code = main(["check", *arguments], {}, stdout, stderr)
    return code, stdout.getvalue(), stderr.getvalue()


def test_json(tmp_path: Path) -> None:
    """The report is one JSON object, and the exit code says whether something is wrong."""
    fill(tmp_path, ["jetstream/A/ORDERS"])
    code, printed, _ = check("--store", str(tmp_path), "--json")
    found = json.loads(printed)
    assert code == 1
    assert not found["fine"]
    assert found["logs"][0]["owner"] == "A"
    assert found["logs"][0]["records"] == 3


def test_fine(tmp_path: Path) -> None:
    """A whole store gives 0."""
    fill(tmp_path, ["stan/c/foo"])
    assert check("--store", str(tmp_path))[0] == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--store DIR is needed"),
        (["--store", "/nowhere"], "there is no store in /nowhere"),
        (["--store", "x", "more"], "not understood: more"),
    ],
)
def test_cannotCheck(arguments: list[str], text: str) -> None:
    """What cannot be checked gives 2 and one line."""
    code, _, printed = check(*arguments)
    assert code == 2
    assert printed == f"natsbroker check: {text}\n"


def test_help() -> None:
    """The help names the flags."""
    assert "--json" in check("--help")[1]
