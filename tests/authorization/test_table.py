"""
The table of attempts is complete.
"""

from __future__ import annotations

import pytest

from tests.authorization.table import ADVISORIES, ATTEMPTS
from tests.listed import Listed, missingFrom

ALL = {**{str(number): attempt for number, attempt in ATTEMPTS.items()}, **ADVISORIES}


def test_numbers() -> None:
    """The table has every attempt."""
    assert list(ATTEMPTS) == list(range(1, 23))


@pytest.mark.parametrize("name", ALL)
def test_testsExist(name: str) -> None:
    """The tests that the table names exist."""
    listed = ALL[name]
    assert listed.what and listed.tests
    assert missingFrom(listed) == []


def test_found() -> None:
    """A listed test that does not exist is reported."""
    listed = Listed("x", ("tests/nowhere.py::x", "tests/authorization/test_table.py::test_found"))
    assert missingFrom(listed) == ["tests/nowhere.py::x"]
