"""
A hub and a spoke, run as C{examples/leafnodes.py}.
"""

from __future__ import annotations

import asyncio

from tests.examples.meeting import heardAt
from tests.examples.running import running


def test_serves() -> None:
    """A message published at either end is received at the other, once."""
    with running("leafnodes.py", lines=2) as (hub, spoke):
        urls = [f"nats://shop:shop@127.0.0.1:{hub}", f"nats://127.0.0.1:{spoke}"]
        heard = asyncio.run(heardAt(urls))
    assert heard == [[b"0", b"1"]] * 2
