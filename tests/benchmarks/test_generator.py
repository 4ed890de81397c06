"""
The load generator: its compilation and the form of its report.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from benchmarks.generator import (
    Generator,
    GeneratorFailed,
    GeneratorMissing,
    build,
    parseReport,
)

needsCompiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")

REPORT = '{"mode":"traffic","lost":0,"receive_rate":1899195.9,"disconnected":false,"tls":""}\n'


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    """
    @return: the generator, compiled for this module alone.
    """
    return build(tmp_path_factory.mktemp("build"))


def test_report() -> None:
    """The numbers and booleans of a report are read, and words are ignored."""
    assert parseReport(REPORT, "traffic") == {
        "lost": 0,
        "receive_rate": 1899195.9,
        "disconnected": 0,
    }


@pytest.mark.parametrize("text", ["", "{", "7", "null", '{"mode":"request"}', "{}"])
def test_noReport(text: str) -> None:
    """Anything but a report of the mode that ran is an error."""
    with pytest.raises(GeneratorFailed):
        parseReport(text, "traffic")


def test_noCompiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a compiler the error names the package to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(GeneratorMissing, match="apt-get install gcc"):
        build(tmp_path / "build")


def test_tlsMissing() -> None:
    """A generator without TLS is an error for a TLS row."""
    plain = Generator(Path("load"), tls=False)
    with pytest.raises(GeneratorMissing, match="libssl-dev"):
        plain.command("traffic", 4222, 1, ["--tls"])


def test_commandLine() -> None:
    """The generator receives the mode, the server, and the options of the row."""
    words = Generator(Path("load"), tls=False).command("traffic", 4222, 17, ["--size", "16"])
    assert words == [
        "load",
        *["--mode", "traffic", "--port", "4222", "--server-pid", "17", "--size", "16"],
    ]


@needsCompiler
class TestProgram:
    """The compiled program itself."""

    def test_compiles(self, built: Generator) -> None:
        """The sources compile, and the program can be executed."""
        assert os.access(built.program, os.X_OK)

    def test_isBuiltOnce(self, built: Generator) -> None:
        """A program compiled from the same sources is used again."""
        before = built.program.stat().st_mtime_ns
        assert build(built.program.parent) == built
        assert built.program.stat().st_mtime_ns == before

    def test_brokenCompiler(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A failed compilation is reported, and leaves no partial program."""
        monkeypatch.setenv("CC", "false")
        with pytest.raises(GeneratorMissing, match="does not compile"):
            build(tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_nobodyListens(self, built: Generator) -> None:
        """A server that does not listen is an error with the reason."""
        with pytest.raises(GeneratorFailed, match="Connection refused"):
            built.run("traffic", 1, os.getpid(), ["--count", "1"], 0.1)

    @pytest.mark.parametrize(
        "load", [["--size", "many"], ["--seconds", "-1"], ["--port", "70000"], ["what"]]
    )
    def test_wrongArguments(self, built: Generator, load: list[str]) -> None:
        """An invalid command line is refused."""
        with pytest.raises(GeneratorFailed, match=r"needed|what is this"):
            built.run("traffic", 1, os.getpid(), load, 0.1)

    def test_stateThatIsNotReached(self, built: Generator) -> None:
        """Connections that cannot be opened are an error before the measurement."""
        with pytest.raises(GeneratorFailed, match="Connection refused"):
            with built.hold("idle", 1, os.getpid(), ["--connections", "1"]):
                pytest.fail("there is nothing to hold")
