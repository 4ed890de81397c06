"""
Shared parts of the tests of accounts.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.accounts.hall import Hall
from tests.support import Names, using


@pytest.fixture
def hall(names: Names) -> Iterator[Hall]:
    """An account of the implementation under test."""
    with using(names):
        yield Hall()
