"""
Tests for L{natsbroker.server.configuration.completion}: the scripts, in the shells that read them.
"""

from __future__ import annotations

import io
import os
import pty
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from natsbroker.server.configuration.commandline import SIGNALS
from natsbroker.server.configuration.completion import main
from natsbroker.spark.cli import NAMES


def script(shell: str) -> str:
    """
    @return: what the command prints.
    """
    stdout = io.StringIO()
    assert main([shell], stdout, io.StringIO(), NAMES) == 0
    return stdout.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """
    @return: a folder with a file, a folder, and the scripts below it.
    """
    (tmp_path / "my server.conf").touch()
    (tmp_path / "data").mkdir()
    for shell in ("bash", "zsh", "fish"):
        (tmp_path / "data" / f"completion.{shell}").write_text(script(shell))
    return tmp_path


def shellPath(shell: str) -> str:
    """
    @return: the path of a shell; skips without it.
    """
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell}")
    return path


BASH = """
source data/completion.bash
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_natsbroker
printf '%s\\n' "${COMPREPLY[@]}"
"""


class TestBash:
    """The script for bash."""

    @pytest.mark.parametrize(
        ("words", "wanted"),
        [
            (["comp"], ["completion"]),
            (["--ht"], ["--http_port", "--https_port"]),
            (["--signal", ""], list(SIGNALS)),
            (["-sl", "re"], ["reload", "reopen"]),
            (["--signal", "=", "qu"], ["quit"]),
            (["--signal", "="], list(SIGNALS)),
            (["-DV", "-c", "my"], ["my server.conf"]),
            (["-js", "-sd", ""], ["data"]),
            (["-p", ""], [""]),
            (["spark", "tra"], ["traffic"]),
            (["streaming", ""], ["import", "acknowledge"]),
            (["streaming", "import", "da"], ["data"]),
            (["completion", "f"], ["fish"]),
            (["config", ""], ["schema"]),
            (["check", ""], ["--config", "--json", "--store"]),
            (["check", "--config", "my"], ["my server.conf"]),
            (["check", "--store", "data", "--j"], ["--json"]),
            (["top", "--ev"], ["--every"]),
            (["--ft_group"], [""]),
        ],
        ids=" ".join,
    )
    def test_words(self, words: list[str], wanted: list[str], folder: Path) -> None:
        """Commands, options, and values of options are completed; refused options are not."""
        command = [shellPath("bash"), "-c", BASH, "bash", "natsbroker", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        assert done.stdout.removesuffix("\n").split("\n") == wanted
        assert done.stderr == ""


class TestFish:
    """The script for fish."""

    @pytest.mark.parametrize(
        ("line", "wanted"),
        [
            ("natsbroker comp", ["completion"]),
            ("natsbroker --signal re", ["reload", "reopen"]),
            ("natsbroker --pi", ["--pid"]),
            ("natsbroker spark tra", ["traffic"]),
            ("natsbroker streaming import da", ["data/"]),
            ("natsbroker --ft_g", []),
            ("natsbroker check --config my", ["my server.conf"]),
            ("natsbroker check --store data --j", ["--json"]),
            ("natsbroker top --se", ["--server"]),
        ],
    )
    def test_words(self, line: str, wanted: list[str], folder: Path) -> None:
        """Commands, options, and values of options are completed."""
        text = f"source data/completion.fish; complete -C '{line}'"
        environment = {**os.environ, "HOME": str(folder / "data")}
        done = subprocess.run(
            [shellPath("fish"), "--no-config", "-c", text],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert [row.partition("\t")[0] for row in done.stdout.splitlines()] == wanted
        assert done.stderr == ""


def typed(shell: str, line: str, folder: Path) -> str:
    """
    @return: what an interactive zsh prints when C{line} is typed and the tab key is pressed.
    """
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.environ.update(TERM="dumb", PS1="> ", HOME=str(folder))
        os.execv(shell, [shell, "-f", "-i"])
    output = b""
    begin = "autoload -Uz compinit; compinit -u -D; source data/completion.zsh; print be''gun\n"
    os.write(terminal, begin.encode())
    deadline = time.monotonic() + 20
    isTyped = False
    try:
        while time.monotonic() < deadline:
            output += os.read(terminal, 65536)
            if b"begun" in output and not isTyped:
                isTyped = True
                output = b""
                os.write(terminal, line.encode() + b"\t")
                time.sleep(0.5)
                os.write(terminal, b"\x15print en''ded; exit\n")
    except OSError:
        pass  # The other end of the terminal is closed.
    os.close(terminal)
    os.waitpid(process, 0)
    return output.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("natsbroker comp", "natsbroker completion"),
        ("natsbroker --cluster_adv", "natsbroker --cluster_advertise"),
        ("natsbroker --signal qu", "natsbroker --signal quit"),
        ("natsbroker -c my", "natsbroker -c my\\ server.conf"),
        ("natsbroker spark tra", "natsbroker spark traffic"),
        ("natsbroker check --store data --j", "natsbroker check --store data --json"),
    ],
)
def test_zsh(line: str, wanted: str, folder: Path) -> None:
    """An interactive zsh that has read the script completes the line."""
    assert wanted in typed(shellPath("zsh"), line, folder).replace("\b", "")


class TestCommand:
    """C{natsbroker completion}."""

    def test_help(self) -> None:
        """C{--help} prints the usage."""
        stdout = io.StringIO()
        assert main(["--help"], stdout, io.StringIO()) == 0
        assert stdout.getvalue().startswith("Usage: natsbroker completion")

    @pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "zsh"]])
    def test_wrongWords(self, words: list[str]) -> None:
        """An unknown shell is refused with the usage."""
        stdout, stderr = io.StringIO(), io.StringIO()
        assert main(words, stdout, stderr) == 2
        assert stderr.getvalue().splitlines()[-1].startswith("natsbroker completion: there is no ")
