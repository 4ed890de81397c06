"""
Every module has its tests at the mirrored path.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

_PARTS = "a part of the stores: held by their contract suites and by the tests that damage them"

ELSEWHERE = {
    "interfaces/auth.py": "declarations: held by tests/test_exports.py and the contracts",
    "interfaces/bus.py": "declarations: held by tests/test_exports.py and the contracts",
    "interfaces/gateways.py": "declarations: held by tests/test_exports.py and the contracts",
    "interfaces/links.py": "declarations: held by tests/server/test_kinds.py and the contracts",
    "interfaces/services.py": "declarations: held by tests/test_exports.py and the contracts",
    "interfaces/records.py": "declarations: held by tests/test_exports.py and the contracts",
    "interfaces/storage.py": "declarations: held by tests/test_exports.py and the contracts",
    "export/logs.py": "declarations: provided by streaming/channels.py and export/service.py",
    "testing/contracts/base.py": "held by the contract tests",
    "testing/contracts/authorizers.py": "held by tests/testing/contracts/test_buses.py",
    "testing/contracts/routers.py": "held by tests/testing/contracts/test_buses.py",
    "testing/contracts/harness.py": "run by the tests of each store",
    "testing/contracts/logs.py": "run by the tests of each store",
    "testing/contracts/readers.py": "run by the tests of each store",
    "testing/contracts/retention.py": "run by the tests of each store",
    "testing/contracts/indexes.py": "run by the tests of each store",
    "testing/contracts/durability.py": "run by the tests of each store",
    "testing/contracts/leases.py": "suites: run by tests/storage/postgres/test_leasing.py",
    "testing/pumped.py": "what the tests of stores run on",
    "testing/contracts/stores.py": "suites: run by the tests of each store in tests/storage",
    "jetstream/contracts.py": "declarations: held by mypy where streams use consumers",
    "storage/checks.py": _PARTS,
    "storage/envelopes.py": _PARTS,
    "storage/jobs.py": _PARTS,
    "storage/policy.py": _PARTS,
    "storage/threaded.py": _PARTS,
    "storage/watching.py": _PARTS,
    "storage/lmdb/backlog.py": _PARTS,
    "storage/lmdb/blocklog.py": _PARTS,
    "storage/lmdb/cache.py": _PARTS,
    "storage/lmdb/checking.py": "held by tests/server/checking/test_store.py",
    "storage/lmdb/commits.py": _PARTS,
    "storage/lmdb/files.py": _PARTS,
    "storage/lmdb/finding.py": _PARTS,
    "storage/lmdb/layout.py": _PARTS,
    "storage/lmdb/log.py": _PARTS,
    "storage/lmdb/losses.py": "held by tests/storage/lmdb/test_scrubbing.py",
    "storage/lmdb/opening.py": _PARTS,
    "storage/lmdb/reports.py": "held by tests/storage/lmdb/test_scrubbing.py",
    "storage/lmdb/survey.py": _PARTS,
    "storage/lmdb/transaction.py": _PARTS,
    "storage/lmdb/writing.py": _PARTS,
    "storage/postgres/damage.py": _PARTS,
    "storage/postgres/fetching.py": _PARTS,
    "storage/postgres/session.py": _PARTS,
    "storage/postgres/writing.py": _PARTS,
    "spark/__main__.py": "a few lines: run by tests/spark/jobs/archive/test_job.py",
    "__main__.py": "two lines: run by tests/test_packaging.py",
}
"""Modules without a test file of their own, and where they are tested instead."""


def modules() -> list[str]:
    """
    @return: the path below C{natsbroker/} of every module that should have a test file.
    """
    package = ROOT / "natsbroker"
    paths = [path for path in package.rglob("*.py") if path.name != "__init__.py"]
    paths += (package / "_accel").glob("*.pyx")
    return sorted(path.relative_to(package).as_posix() for path in paths)


def mirrorOf(module: str) -> Path:
    """
    @return: the path of the tests of C{module}.
    """
    path = Path("tests") / module
    return path.with_name(f"test_{path.stem}.py")


@pytest.mark.parametrize("module", [module for module in modules() if module not in ELSEWHERE])
def test_moduleHasTests(module: str) -> None:
    """The tests of a module are at the same path under C{tests/} as the module in its package."""
    assert (ROOT / mirrorOf(module)).is_file(), f"{mirrorOf(module)} is missing"


def test_excusesHold() -> None:
    """
    Each excused module exists without tests of its own, and the tests that the excuse names exist.
    """
    assert ELSEWHERE.keys() <= set(modules())
    assert [module for module in ELSEWHERE if (ROOT / mirrorOf(module)).exists()] == []
    places = re.findall(r"(?:tests/)?[a-z]+/[a-z/_]+(?:\.py)?", " ".join(ELSEWHERE.values()))
    places = [place if place.startswith("tests/") else f"natsbroker/{place}" for place in places]
    assert len(places) > 10 and [place for place in places if not (ROOT / place).exists()] == []


def test_testDirectoriesArePackages() -> None:
    """Each test directory is a package, so that several may have files of one name."""
    directories = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    missing = [
        str(directory) for directory in directories if not (directory / "__init__.py").is_file()
    ]
    assert missing == []


def test_mirrorOf() -> None:
    """The path of a test follows from the path of its module."""
    assert mirrorOf("wire/dialects/client.py") == Path("tests/wire/dialects/test_client.py")
    assert mirrorOf("hot.py") == Path("tests/test_hot.py")
