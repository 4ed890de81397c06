"""The servers that take part, and the report when a server is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import contestants
from benchmarks.contestants import Absent, findOurs, namedOurs, natsServer, versionIn


@pytest.mark.parametrize("text", ["nats-server: v2.15.1\n", "nats-server 2.15.1\nmore\n"])
def test_version(text: str) -> None:
    """A version is the last word of the first line, without its v."""
    assert versionIn(text) == "2.15.1"


def test_noVersion() -> None:
    """A program that prints no version is refused."""
    with pytest.raises(Absent, match="no answer"):
        versionIn("")


def test_missingServer(tmp_path: Path) -> None:
    """A server that cannot be run is named in the refusal."""
    with pytest.raises(Absent, match="nats-server-of-old"):
        natsServer("old", str(tmp_path / "nats-server-of-old"))


def test_lanes() -> None:
    """The lanes differ in one variable of the environment and in their title."""
    lanes = namedOurs("python -m natsbroker --name 'a b'", ["fast", "pure"]).lanes
    assert lanes["fast"].command == ("python", "-m", "natsbroker", "--name", "a b")
    assert lanes["fast"].environment == {"NATSBROKER_PURE": ""}
    assert lanes["pure"].environment == {"NATSBROKER_PURE": "1"}
    assert lanes["pure"].title == "natsbroker, pure"


def test_withoutCompiledLane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the compiled lane, no row has its name, and the report gives the reason."""
    answer = ("1.0", "natsbroker/__init__.py", False, "not built")
    monkeypatch.setattr(contestants, "probe", lambda environment: answer)
    ours = findOurs(["fast", "pure"])
    assert list(ours.lanes) == ["pure"]
    assert "without the compiled lane (not built): only the pure path is measured" in ours.remarks


def test_checkoutIsTheSecondChoice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package is imported from the checkout only if it is not installed."""
    answers = iter(["No module named 'natsbroker'", ("1.0", "natsbroker/__init__.py", True, "")])
    monkeypatch.setattr(contestants, "probe", lambda environment: next(answers))
    checkout = str(contestants.CHECKOUT)
    assert findOurs(["fast"]).lanes["fast"].environment["PYTHONPATH"].startswith(checkout)


def test_notImportable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that cannot be imported is refused with the reason."""
    monkeypatch.setattr(contestants, "probe", lambda environment: "SyntaxError: x")
    with pytest.raises(Absent, match="SyntaxError: x"):
        findOurs(["fast"])
