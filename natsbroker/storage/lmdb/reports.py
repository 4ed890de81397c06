"""
Reports of losses: directories called C{damaged-1} and so forth. Each has a text, and perhaps the
damaged database. An empty file is added once somebody has acknowledged the loss.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from natsbroker.files import syncDirectory
from natsbroker.storage.lmdb.files import writeWhole

REPORT = "report.txt"
ACKNOWLEDGED = "acknowledged"


def reportsIn(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("damaged-*") if path.is_dir())


def unacknowledged(directory: Path) -> list[Path]:
    return [report for report in reportsIn(directory) if not (report / ACKNOWLEDGED).exists()]


def acknowledge(directory: Path) -> list[str]:
    """Acknowledge all losses. Return the texts of the reports that were not acknowledged before."""
    texts = []
    for report in unacknowledged(directory):
        text = (report / REPORT).read_text("utf-8", "replace")
        writeWhole(report / ACKNOWLEDGED, b"")
        syncDirectory(report)
        texts.append(f"{report / REPORT}:\n{text}")
    return texts


def lossOf(log: str, start: int, stop: int) -> str:
    """The text about a loss. C{stop} is the sequence behind the last."""
    return f"{log}: {start} to {stop - 1} may be lost"


def unreported(directory: Path, lines: Iterable[str]) -> list[str]:
    known: set[str] = set()
    for report in reportsIn(directory):
        known.update((report / REPORT).read_text("utf-8", "replace").splitlines())
    return [line for line in lines if line not in known]


def keep(path: Path, report: Sequence[str]) -> None:
    directory = path.parent
    number = 1
    while (directory / f"damaged-{number}").exists():
        number += 1
    kept = directory / f"damaged-{number}"
    kept.mkdir(mode=0o700)
    writeWhole(kept / REPORT, "".join(f"{line}\n" for line in report).encode())
    if path.exists():
        try:
            os.link(path, kept / path.name)
        except OSError:
            shutil.copy2(path, kept / path.name)
    syncDirectory(kept)
    syncDirectory(directory)
