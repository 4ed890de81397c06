"""
The network that a measurement uses.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import network

ALONE = """
import socket
from benchmarks import network
try:
    network.isolate()
except network.NotIsolated as error:
    print("refused", error)
else:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()):
            names = [name for _, name in socket.if_nameindex()]
            print(network.congestionControl(), "lo" in names, "eth0" in names)
"""


def test_isolated() -> None:
    """A process gets a loopback of its own that is not paced, or the reason why it cannot."""
    before = network.congestionControl()
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    if done.stdout.startswith("refused"):
        assert "root" in done.stdout
    else:
        assert done.stdout.split() == ["reno", "True", "False"]
    assert network.congestionControl() == before


@pytest.mark.parametrize(("control", "isPaced"), [("bbr", True), ("cubic", False)])
def test_pacedLoopback(
    control: str, isPaced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A measurement over a paced loopback gives a warning with the remedy."""
    (tmp_path / "control").write_text(f"{control}\n")
    monkeypatch.setattr(network, "CONTROL", tmp_path / "control")
    assert any("--isolated" in option for option in command.pacing()) == isPaced


def test_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel does not give the value, the report says that."""
    monkeypatch.setattr(network, "CONTROL", tmp_path / "none")
    assert network.congestionControl() == "unknown"


def test_namespaceNotPermitted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that cannot be isolated is refused."""

    def refuse() -> None:
        raise network.NotIsolated("it takes root")

    monkeypatch.setattr(network, "isolate", refuse)
    assert command.main(["--isolated", "--rows", "one-128"]) == 2
    assert "it takes root" in capsys.readouterr().err
