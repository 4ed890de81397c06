"""
A JetStream whose broker is killed under load.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.jetstream.killed import work
from tests.interop.jetstream.killedqueues import Queues

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("interval", "rounds"), [("always", 20), ("2m", 10)])
def test_killedUnderLoad(tmp_path: Path, interval: str, rounds: int) -> None:
    """
    No answered publish, acknowledgement or configuration is lost when the broker is killed. Every
    message comes, none more often than allowed, and none stays in a work queue.
    """
    workload = work(tmp_path, rounds, 1, interval)
    assert len(workload.stored) > 1000
    assert all(workload.acked.values())
    assert workload.streams
    assert workload.consumers


@pytest.mark.parametrize("interval", ["always", "2m"])
def test_killedQueues(tmp_path: Path, interval: str) -> None:
    """
    After the broker was killed, no confirmed, replaced or purged message comes back, no message is
    stored twice, and all counts are right.
    """
    workload = work(tmp_path, 5, 1, interval, Queues)
    assert workload.acked["server"]
