"""
Tests for C{examples/movestreams.py}, run as docs/topics/migrating.md describes.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import nats

from tests.documents import blocksOf
from tests.interop.jetstreams import storage
from tests.interop.leafnodes.brokers import Broker
from tests.interop.servers import OURS_FAST, PATIENCE, REAL

ROOT = Path(__file__).resolve().parents[2]

ACCOUNT = "J { users: [ {user: j, password: j} ], jetstream: enabled }"


def commands() -> list[list[str]]:
    """
    The command lines of the page, without the program and without the URL.
    """
    page = (ROOT / "docs/topics/migrating.md").read_text("utf-8")
    lines = [line for block in blocksOf(page) for line in block.text.splitlines()]
    matches = [
        re.match(r"\$ python3 examples/movestreams.py (\w+) (\w+) nats:", line) for line in lines
    ]
    return [[match[1], match[2]] for match in matches if match]


def move(spoke: Broker, command: list[str]) -> str:
    """Run a command of the page, and return its output."""
    url = f"nats://j:j@127.0.0.1:{spoke.port}"
    program = [sys.executable, str(ROOT / "examples/movestreams.py"), *command, url]
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout


async def fill(hub: Broker) -> None:
    client = await nats.connect(hub.url, user="j", password="j")
    old = client.jetstream(timeout=PATIENCE)
    await old.add_stream(name="ORDERS", subjects=["orders.>"], max_msgs=1000)
    await old.add_stream(name="WORK", subjects=["work"], retention="workqueue")
    for number in range(20):
        await old.publish("orders.eu", b"%d" % number, headers={"Number": str(number)})
    puller = await old.pull_subscribe("orders.>", "billing")
    for message in await puller.fetch(3, PATIENCE):
        await message.ack_sync(PATIENCE)
    await client.close()


async def publishLate(hub: Broker) -> None:
    client = await nats.connect(hub.url, user="j", password="j")
    await client.jetstream(timeout=PATIENCE).publish("orders.us", b"late")
    await client.close()


async def use(spoke: Broker) -> None:
    """Continue at the position of the consumer."""
    client = await nats.connect(spoke.url, user="j", password="j")
    new = client.jetstream(timeout=PATIENCE)
    assert (await new.publish("orders.eu", b"new")).seq == 22
    puller = await new.pull_subscribe_bind("billing", "ORDERS")
    messages = await puller.fetch(19, PATIENCE)
    assert [message.data for message in messages] == [b"%d" % number for number in range(3, 20)] + [
        b"late",
        b"new",
    ]
    assert messages[0].headers == {"Number": "3"}
    info = await new.stream_info("ORDERS")
    assert (info.config.subjects, info.config.max_msgs) == (["orders.>"], 1000)
    assert (info.config.mirror, info.mirror) == (None, None)
    await client.close()


def test_move(tmp_path: Path) -> None:
    """
    The steps of the page move messages, configuration and positions from nats-server. A work queue
    is left unchanged.
    """
    copy, cut = commands()
    hub = Broker(REAL, tmp_path, "hub", top=storage(copy[1]), accounts=ACCOUNT).start()
    spoke = Broker(
        OURS_FAST, tmp_path, "spoke", hub.remote("j", "J"), False, storage("new"), ACCOUNT
    )
    try:
        asyncio.run(fill(hub))
        spoke.start()
        hub.waitForLog("eafnode connection created")
        assert move(spoke, copy).splitlines()[-2:] == [
            "ORDERS 20 of 20",
            "WORK stays: back it up and restore it",
        ]
        asyncio.run(publishLate(hub))
        assert "ORDERS billing begins at 4" in move(spoke, cut)
        hub.stop()
        asyncio.run(use(spoke))
    finally:
        spoke.stop()
        hub.stop()
