"""
Two clusters of two, run as C{examples/supercluster.py}.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.examples.meeting import heardAt
from tests.examples.running import running

pytestmark = pytest.mark.slow


def test_serves() -> None:
    """A message published at any broker is received at all brokers, once."""
    with running("supercluster.py", lines=4) as ports:
        heard = asyncio.run(heardAt([f"nats://127.0.0.1:{port}" for port in ports]))
    assert heard == [[b"0", b"1", b"2", b"3"]] * 4
