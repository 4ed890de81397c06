"""
A cluster of three, run as C{examples/cluster.py}.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.examples.meeting import heardAt
from tests.examples.running import running

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "dialect", [(), ("classic",), ("auto",)], ids=lambda dialect: "".join(dialect)
)
def test_serves(dialect: tuple[str, ...]) -> None:
    """A message published at any member is received at all members, once."""
    with running("cluster.py", *dialect, lines=3) as ports:
        heard = asyncio.run(heardAt([f"nats://127.0.0.1:{port}" for port in ports]))
    assert heard == [[b"0", b"1", b"2"]] * 3
