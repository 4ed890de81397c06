"""
The broker in an existing application: C{examples/embedded.py}, run unchanged.
"""

from __future__ import annotations

import asyncio
from urllib.request import urlopen

import nats

from tests.examples.running import running


def visit(port: int, path: str) -> bytes:
    """Visit the site."""
    with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as page:
        content: bytes = page.read()
    return content


def test_together() -> None:
    """The site serves its visitors, and the broker publishes their visits and answers requests."""

    async def talk(web: int, port: int) -> list[bytes]:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        inbox = await client.subscribe("visits")
        await client.flush()
        pages = [await asyncio.to_thread(visit, web, path) for path in ("a", "b")]
        told = [(await inbox.next_msg(timeout=30)).data for _ in range(2)]
        answer = await client.request("visits.count", b"", timeout=30)
        await client.drain()
        return [*pages, *told, answer.data]

    with running("embedded.py", "0", "0", lines=2) as [web, port]:
        heard = asyncio.run(talk(web, port))
    assert heard == [b"visit 1\n", b"visit 2\n", b"visit 1 of /a", b"visit 2 of /b", b"2"]
