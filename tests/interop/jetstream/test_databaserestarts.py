"""
A JetStream whose database is restarted under load.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.interop.jetstream.databaserestarts import restartDatabase

pytestmark = pytest.mark.slow

RESTARTS = "NATSBROKER_DATABASE_RESTARTS"
"""The variable that sets how often the database is restarted."""


def test_restarted(tmp_path: Path) -> None:
    """
    No acknowledged message is lost when the database is restarted. No confirmed message comes
    again, stays in a work queue or an interest stream, or comes to a later consumer. A stream takes
    each message of a source once.
    """
    restarts = int(os.environ.get(RESTARTS, "3"))
    done = restartDatabase(tmp_path, restarts)
    assert done.problems == []
    assert all(len(done.stored[name]) > 20 * restarts for name in ("ORIGIN", "QUEUE", "INTEREST"))
    assert all(done.confirmed.values())
