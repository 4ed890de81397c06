"""
The command line C{natsbroker spark}.
"""

from __future__ import annotations

import io
from typing import TextIO

import pytest

from natsbroker import main
from natsbroker.spark import cli, doctor


def ran(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    stdout, stderr = io.StringIO(), io.StringIO()
    return cli.main(arguments, stdout, stderr), stdout.getvalue(), stderr.getvalue()


@pytest.mark.parametrize(("isWell", "code"), [(True, 0), (False, 1)])
def test_doctor(isWell: bool, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code says whether Spark can be used; the console script leads here."""

    def examine(out: TextIO, master: str) -> bool:
        out.write("looked\n")
        return isWell

    monkeypatch.setattr(doctor, "examine", examine)
    assert ran("doctor") == (code, "looked\n", "")
    stdout = io.StringIO()
    assert main.main(["spark", "doctor"], {}, stdout, io.StringIO()) == code
    assert stdout.getvalue() == "looked\n"


@pytest.mark.parametrize("arguments", [("doktor",), ("doctor", "--fast")])
def test_unknown(arguments: tuple[str, ...]) -> None:
    """An unknown command is refused, with the list of known ones."""
    code, stdout, stderr = ran(*arguments)
    assert (code, stdout) == (2, "")
    last = stderr.splitlines()[-1]
    assert stderr.startswith("Usage:")
    assert last.startswith(f"natsbroker spark: there is no {' '.join(arguments)!r}")
    assert last.endswith(", did you mean 'doctor'?") == (arguments == ("doktor",))


def test_help() -> None:
    """Without a job the usage is printed with an error. On request it is printed without one."""
    assert ran()[0] == 2
    assert ran("--help")[0] == 0
    for job in ("doctor", "archive"):
        assert f"\n    {job} " in ran("--help")[1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("compact", "--nosuch"), "--archive"),
        (("compact", "--archive", "x", "--target", "big"), "--target: not a size: 'big'"),
        (("vacuum", "--archive", "x", "--older-than", "soon"), "not a duration: 'soon'"),
    ],
)
def test_wrongCommandLine(arguments: tuple[str, ...], why: str) -> None:
    """A wrong command line of a job prints the mistake and the job's options."""
    code, stdout, stderr = ran(*arguments)
    assert (code, stdout) == (2, "")
    assert why in stderr.splitlines()[0]
    assert f"usage: natsbroker spark {arguments[0]} [-h] --archive ARCHIVE" in stderr
