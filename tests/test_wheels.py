"""
The check of the modules in a wheel before a release, with the compiled lane of this machine.
"""

from __future__ import annotations

import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wheels import PLATFORMS, ROOT, Platform, Unbuilt, checkModules

pytest.importorskip("elftools")

SUFFIX = f"{sys.implementation.cache_tag}-x86_64-linux-gnu"
GLIBC = next(platform for platform in PLATFORMS if platform.suffix == "x86_64-linux-gnu")


@pytest.fixture
def module() -> bytes:
    """
    @return: the compiled lane of this checkout.
    """
    path = ROOT / "natsbroker" / "_accel" / f"lane.{SUFFIX}.so"
    if not path.exists():
        pytest.skip("no compiled lane for x86-64 and glibc")
    return path.read_bytes()


def wheelOf(folder: Path, module: bytes, platform: Platform, name: str = "lane") -> Path:
    """
    @return: a wheel with one module, tagged for C{platform}.
    """
    path = folder / "natsbroker.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"natsbroker/_accel/{name}.cpython-311-{platform.suffix}.so", module)
    return path


def test_loadable(module: bytes, tmp_path: Path) -> None:
    """A module for the platform is accepted."""
    checkModules(wheelOf(tmp_path, module, GLIBC), 1, GLIBC)


@pytest.mark.parametrize(
    ("suffix", "why"),
    [
        ("aarch64-linux-gnu", "is for the machine EM_X86_64, not EM_AARCH64"),
        ("x86_64-linux-musl", "needs libc.so.6"),
    ],
)
def test_otherPlatform(suffix: str, why: str, module: bytes, tmp_path: Path) -> None:
    """A module of another machine or C library is named with the reason."""
    platform = next(platform for platform in PLATFORMS if platform.suffix == suffix)
    with pytest.raises(Unbuilt, match=why):
        checkModules(wheelOf(tmp_path, module, platform), 1, platform)


def test_versionedSymbols(module: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that musl cannot load is refused by its versioned symbols."""
    monkeypatch.setattr("tests.wheels.LIBRARIES", {True: {"libc.so.6"}})
    musl = replace(GLIBC, suffix="x86_64-linux-musl")
    with pytest.raises(Unbuilt, match="symbols with versions"):
        checkModules(wheelOf(tmp_path, module, musl), 1, musl)


def test_otherName(module: bytes, tmp_path: Path) -> None:
    """A module whose name differs from its file is refused, because it cannot be imported."""
    with pytest.raises(Unbuilt, match="has no PyInit_link"):
        checkModules(wheelOf(tmp_path, module, GLIBC, "link"), 1, GLIBC)


def test_missing(module: bytes, tmp_path: Path) -> None:
    """A wheel without a module that could not be compiled is refused."""
    with pytest.raises(Unbuilt, match="has 1 extension modules, not 2"):
        checkModules(wheelOf(tmp_path, module, GLIBC), 2, GLIBC)
