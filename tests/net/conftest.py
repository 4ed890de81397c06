"""
What the tests of the network layer ask for by name.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import Names, using


@pytest.fixture
def implementation(names: Names) -> Iterator[Names]:
    """Use the implementation of the hot names under test."""
    with using(names):
        yield names
