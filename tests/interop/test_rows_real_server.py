"""
The conformance table against nats-server itself, which proves that its rows are facts.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.rows import Row, allRows
from tests.interop.conftest import showLogs
from tests.interop.pool import ServerPool
from tests.interop.servers import REAL, requireRealServer


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPool]:
    """
    Servers for the rows.
    """
    requireRealServer()
    pool = ServerPool(REAL, tmp_path_factory.mktemp("real"))
    yield pool
    pool.stop()


@pytest.mark.parametrize("row", allRows(), ids=lambda row: row.id)
def test_row(row: Row, pool: ServerPool, request: pytest.FixtureRequest) -> None:
    """nats-server answers as the row says."""
    server = pool.serverFor(row)
    showLogs(request.node, server)
    pool.play(row, server, ours=False)
