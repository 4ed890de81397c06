"""
Fixtures of the tests of clusters.
"""

from __future__ import annotations

import pytest

from tests.interop.cluster.members import Mesh
from tests.interop.conftest import showLogs


@pytest.fixture
def mesh(running: Mesh, request: pytest.FixtureRequest) -> Mesh:
    """
    The cluster, whose logs are shown if the test fails.
    """
    for member in running.members:
        showLogs(request.node, member)
    return running
