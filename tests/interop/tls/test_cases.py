"""
The list of the thirty cases is complete.
"""

from __future__ import annotations

import pytest

from tests.interop.tls.cases import CASES
from tests.listed import missingFrom


def test_thirty() -> None:
    """There are thirty cases, numbered from one."""
    assert list(CASES) == list(range(1, 31))


@pytest.mark.parametrize("number", CASES)
def test_testsExist(number: int) -> None:
    """The tests that the table names for a case exist."""
    assert CASES[number].what and CASES[number].tests
    assert missingFrom(CASES[number]) == []
