"""Workers that are killed while clients of JetStream and NATS Streaming do their work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.workers.killed import killWorkers

pytestmark = pytest.mark.slow


def test_killedUnderLoad(tmp_path: Path) -> None:
    """
    When workers are killed, nothing that was answered is lost or doubled, clients of other workers
    lose nothing, and each new connection is served or closed.
    """
    kills = killWorkers(tmp_path, 3, 1, 3)
    assert len(kills) == 3
    assert all(kill.lost and kill.greeted for kill in kills)
