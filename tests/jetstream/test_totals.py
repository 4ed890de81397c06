"""Tests for L{natsbroker.jetstream.totals}."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from natsbroker.config.model import JetStream
from natsbroker.jetstream import totals
from natsbroker.jetstream.totals import diskFor, machineMemory, withTotals


@pytest.mark.parametrize(
    ("backend", "directory", "limits"),
    [
        ("lmdb", "d", (75, 150)),
        ("memory", "", (75, 75)),
        ("postgres", "", (-1, -1)),
        ("mine", "", (-1, -1)),
    ],
)
def test_unsaid(
    backend: str, directory: str, limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Without a configured total, three quarters of the machine's are used; without either, there is
    none.
    """
    monkeypatch.setattr(totals, "machineMemory", lambda: 100)
    monkeypatch.setattr(totals, "diskFor", lambda directory: 200)
    block = withTotals(JetStream(enabled=True, backend=backend), directory)
    assert (block.max_memory_store, block.max_file_store) == limits


@pytest.mark.parametrize(("memory", "files"), [(0, 0), (5, 6)])
def test_said(memory: int, files: int) -> None:
    """A configured total is used, even if it is 0."""
    block = JetStream(enabled=True, max_memory_store=memory, max_file_store=files)
    assert withTotals(block, "d") == block


def test_memory() -> None:
    """The machine has some memory."""
    assert machineMemory() > 1 << 20


def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Free disk space includes the store's own files. If the folder is missing, its disk is measured.
    """
    free = type("Usage", (), {"free": 1000})()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    assert diskFor(str(tmp_path / "a" / "b")) == 1000
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "journal").write_bytes(b"x" * 100_000)
    assert diskFor(str(tmp_path / "a")) >= 100_000
