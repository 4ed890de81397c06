"""
The conformance table against natsbroker processes, with and without the compiled lane.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.rows import Row, allRows
from tests.interop.conftest import showLogs
from tests.interop.pool import ServerPool
from tests.interop.servers import OURS, Flavour


@pytest.fixture(scope="module", params=OURS, ids=lambda flavour: flavour.name)
def pool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerPool]:
    """
    Servers for the rows, of each flavour in turn.
    """
    flavour: Flavour = request.param
    pool = ServerPool(flavour, tmp_path_factory.mktemp(flavour.name))
    yield pool
    pool.stop()


@pytest.mark.parametrize("row", allRows(), ids=lambda row: row.id)
def test_row(row: Row, pool: ServerPool, request: pytest.FixtureRequest) -> None:
    """natsbroker answers as the row or its accepted deviation says."""
    server = pool.serverFor(row)
    showLogs(request.node, server)
    pool.play(row, server, ours=True)
