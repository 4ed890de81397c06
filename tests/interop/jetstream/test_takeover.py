"""Brokers that share one JetStream in one database, and whose leaders are killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.interop.jetstream.takeover import killLeaders
from tests.postgresql import PostgresServer

pytestmark = pytest.mark.slow

KILLS = "NATSBROKER_TAKEOVERS"
"""The variable that sets how many leaders are killed, or stand still."""


def test_leadersKilled(postgres: PostgresServer, tmp_path: Path) -> None:
    """
    When leaders are killed or paused under load, no acknowledged message is lost. Every message
    comes to a consumer, none more often than allowed, and none after its acknowledgement.
    """
    kills = int(os.environ.get(KILLS, "3"))
    done = killLeaders(postgres, tmp_path, kills)
    assert done.problems == []
    assert len(done.gaps) + done.pauses == kills
    assert len(done.stored) > 10 * kills
    assert all(done.settled.values())
