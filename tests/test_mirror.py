"""
Every module has its tests where one looks for them.

Promises: C{natsbroker/x/y.py} is tested in C{tests/x/test_y.py}, save for the few modules in
L{ELSEWHERE}, each with the reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

_PARTS = "a part of the stores: held by their contract suites and by the tests that damage them"

ELSEWHERE = {
    "_iauth.py": "declarations only: held by tests/test_exports.py and the contract suites",
    "_ibus.py": "declarations only: held by tests/test_exports.py and the contract suites",
    "_igateway.py": "declarations only: held by tests/test_exports.py and the contract suites",
    "_inet.py": "declarations only: held by tests/test_exports.py and the contract suites",
    "_iservice.py": "declarations only: held by tests/test_exports.py and the contract suites",
    "_istore.py": "declarations only: held by tests/test_exports.py and the contract suites",
    "stan/figures.py": "counters: held by tests/stan/test_publishing.py and test_monitoring.py",
    "stan/options.py": "values: held by the tests of what they change",
    "hosting/linkground.py": "a value: held by tests/hosting/test_links.py",
    "interfaces.py": "a list of names: held by tests/test_exports.py",
    "auth/signatures.py": "ed25519 in two lines: held by tests of nkeys and tokens",
    "testing/leasecontracts.py": "suites: run by tests/store/postgres/test_leasing.py",
    "testing/pumped.py": "what the tests of stores run on",
    "testing/storecontracts.py": "suites: run by the tests of each store in tests/store",
    "store/aging.py": _PARTS,
    "store/blocks.py": _PARTS,
    "store/checks.py": _PARTS,
    "store/envelopes.py": _PARTS,
    "store/committing.py": _PARTS,
    "store/exports.py": _PARTS,
    "store/jobs.py": _PARTS,
    "store/ownedlogs.py": _PARTS,
    "store/policy.py": _PARTS,
    "store/spaces.py": _PARTS,
    "store/threaded.py": _PARTS,
    "store/watching.py": _PARTS,
    "store/memorylog.py": "held by tests/store/test_memory.py",
    "store/memoryrows.py": "held by tests/store/test_memory.py",
    "store/walking.py": _PARTS,
    "store/lmdb/backlog.py": _PARTS,
    "store/lmdb/blocklog.py": _PARTS,
    "store/lmdb/cache.py": _PARTS,
    "store/lmdb/commits.py": _PARTS,
    "store/lmdb/environment.py": _PARTS,
    "store/lmdb/files.py": _PARTS,
    "store/lmdb/finding.py": _PARTS,
    "store/lmdb/jobs.py": _PARTS,
    "store/lmdb/layout.py": _PARTS,
    "store/lmdb/log.py": _PARTS,
    "store/lmdb/losses.py": "held by tests/store/lmdb/test_scrubbing.py",
    "store/lmdb/opening.py": _PARTS,
    "store/lmdb/pages.py": _PARTS,
    "store/lmdb/reading.py": _PARTS,
    "store/lmdb/readlog.py": _PARTS,
    "store/lmdb/reports.py": "held by tests/store/lmdb/test_scrubbing.py",
    "store/lmdb/salvage.py": _PARTS,
    "store/lmdb/states.py": _PARTS,
    "store/lmdb/survey.py": _PARTS,
    "store/lmdb/tallying.py": _PARTS,
    "store/lmdb/transaction.py": _PARTS,
    "store/lmdb/writing.py": _PARTS,
    "store/postgres/jobs.py": _PARTS,
    "store/postgres/log.py": _PARTS,
    "store/postgres/reading.py": _PARTS,
    "store/postgres/rows.py": _PARTS,
    "store/postgres/session.py": _PARTS,
    "store/postgres/states.py": _PARTS,
    "store/postgres/trimming.py": _PARTS,
    "store/postgres/waiting.py": _PARTS,
    "store/postgres/writing.py": _PARTS,
    "spark/__main__.py": "a few lines: run by tests/spark/jobs/test_archivejob.py",
    "__main__.py": "two lines: run by tests/test_packaging.py",
}
"""Modules without a test file of their own, and where they are tested instead."""


def modules() -> list[str]:
    """
    @return: the path below C{natsbroker/} of every module that should have a test file.
    """
    package = ROOT / "natsbroker"
    found = [path for path in package.rglob("*.py") if path.name != "__init__.py"]
    found += (package / "_accel").glob("*.pyx")
    return sorted(path.relative_to(package).as_posix() for path in found)


def mirrorOf(module: str) -> Path:
    """
    @return: where the tests of C{module} belong.
    """
    path = Path("tests") / module
    return path.with_name(f"test_{path.stem}.py")


@pytest.mark.parametrize("module", [each for each in modules() if each not in ELSEWHERE])
def test_moduleHasTests(module: str) -> None:
    """A module's tests lie at the same place under C{tests/} as the module under its package."""
    assert (ROOT / mirrorOf(module)).is_file(), f"{mirrorOf(module)} is missing"


def test_testDirectoriesArePackages() -> None:
    """Each directory of tests is a package, so that files of one name may stand in several."""
    directories = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    missing = [str(each) for each in directories if not (each / "__init__.py").is_file()]
    assert missing == []


def test_mirrorOf() -> None:
    """The place of a test follows from the place of its module."""
    assert mirrorOf("wire/dialects/client.py") == Path("tests/wire/dialects/test_client.py")
    assert mirrorOf("hot.py") == Path("tests/test_hot.py")
