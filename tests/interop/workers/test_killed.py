"""Workers that are killed while clients of JetStream and NATS Streaming do their work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.workers.killed import killWorkers

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("count", [2, 3])
def test_killedUnderLoad(tmp_path: Path, count: int) -> None:
    """
    Nothing that was answered is lost or doubled, clients of other workers lose nothing at all, and
    each connection that comes meanwhile is served or closed.
    """
    kills = killWorkers(tmp_path, 4, 1, count)
    assert len(kills) == 4
    assert all(kill.lost and kill.greeted for kill in kills)
