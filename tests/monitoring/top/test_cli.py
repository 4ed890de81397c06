"""
The command line of C{natsbroker top}.
"""

from __future__ import annotations

import sys
from io import StringIO
from typing import Any

import pytest

from natsbroker.main import main


class Terminal(StringIO):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def top(*arguments: str, stdout: StringIO | None = None) -> tuple[int, str, str]:
    """Run it: the exit code, and what is printed."""
    stdout, stderr = stdout or StringIO(), StringIO()
    code = main(["top", *arguments], {}, stdout, stderr)
    return code, stdout.getvalue(), stderr.getvalue()


def test_help() -> None:
    """The help names the flags and keys, without Textual."""
    code, printed, _ = top("--help")
    assert code == 0
    assert "--every" in printed


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["more"], "not understood: more"),
        (["--server", "nats://a:4222"], "--server: not the URL of monitoring pages"),
        (["--every", "0"], '--every: "0" is not a number of seconds of at least 0.1'),
        (["--every", "nan"], '--every: "nan" is not a number'),
        (["--every"], "flag needs an argument: -every"),
    ],
)
def test_wrongArguments(arguments: list[str], text: str) -> None:
    """Wrong arguments give exit code 2 and one line."""
    code, _, printed = top(*arguments)
    assert code == 2
    assert printed.startswith(f"natsbroker top: {text}")
    assert len(printed.splitlines()) == 1


def test_notInstalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Textual, the message says how to get it."""
    monkeypatch.setitem(sys.modules, "natsbroker.monitoring.top.screen", None)
    code, _, printed = top(stdout=Terminal())
    assert code == 1
    assert "pip install 'natsbroker[top]'" in printed


def test_noTerminal() -> None:
    """If standard output is no terminal, the command ends with an error."""
    pytest.importorskip("textual")
    code, printed, error = top()
    assert (code, printed) == (1, "")
    assert error == "natsbroker top: standard output is not a terminal\n"


def test_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The screen gets the URL of the server and the interval between readings."""
    pytest.importorskip("textual")
    from natsbroker.monitoring.top import screen

    made: list[Any] = []

    class Screen:
        return_code = 0

        def __init__(self, *arguments: Any) -> None:
            made.append(arguments)

        def run(self) -> None:
            """Draw nothing."""

    monkeypatch.setattr(screen, "TopApp", Screen)
    code, _, _ = top("--server", "10.1.1.1:8222", "--every", "2.5s", stdout=Terminal())
    [(server, every, _)] = made
    assert (code, server, every) == (0, "http://10.1.1.1:8222", 2.5)
