"""Tests for L{natsbroker.streaming.schema}."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from natsbroker.streaming.schema import messageClasses

ROOT = Path(__file__).resolve().parents[2]

COMPILED = [
    ("natsbroker.streaming", "protocol"),
    ("natsbroker.streaming", "state"),
    ("natsbroker.streaming.filestore", "filestore"),
]


@pytest.mark.parametrize(("package", "name"), COMPILED)
def test_compiledFilesAreCurrent(package: str, name: str, tmp_path: Path) -> None:
    """protoc compiles each file into the descriptor set beside it."""
    pytest.importorskip("grpc_tools", reason="protoc is not installed")
    source = f"{package.replace('.', '/')}/{name}.proto"
    made = tmp_path / "made"
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--descriptor_set_out={made}", source],
        cwd=ROOT,
        check=True,
    )
    assert made.read_bytes() == files(package).joinpath(f"{name}.binpb").read_bytes()


def test_ownPool() -> None:
    """Two loads of a file have nothing to do with each other, nor with the library's own pool."""
    one = messageClasses("natsbroker.streaming", "protocol")["Ping"]
    other = messageClasses("natsbroker.streaming", "protocol")["Ping"]
    assert one is not other
    assert one.FromString(other(connID=b"x").SerializeToString()).connID == b"x"


@pytest.mark.parametrize(("package", "name"), COMPILED)
def test_messageClasses(package: str, name: str) -> None:
    """Every message of the file has a class, which reads what it wrote."""
    source = files(package).joinpath(f"{name}.proto").read_text("utf-8")
    found = messageClasses(package, name)
    assert sorted(found) == sorted(
        line.split()[1] for line in source.splitlines() if line.startswith("message ")
    )
    for each in found.values():
        assert each.FromString(each().SerializeToString()) == each()
