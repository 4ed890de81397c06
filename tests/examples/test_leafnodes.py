"""
A hub and a spoke, run as C{examples/leafnodes.py}.
"""

from __future__ import annotations

import asyncio

import nats

from tests.examples.running import running


def test_serves() -> None:
    """What is said at either end is heard at the other, once."""

    async def talk(ports: list[int]) -> list[list[bytes]]:
        hub = await nats.connect(f"nats://shop:shop@127.0.0.1:{ports[0]}")
        spoke = await nats.connect(f"nats://127.0.0.1:{ports[1]}")
        clients = [hub, spoke]
        ready = [await client.subscribe("ready") for client in clients]
        inboxes = [await client.subscribe("sale.*") for client in clients]
        for client in clients:
            await client.flush()
        for inbox in ready:
            # The spoke dials while we begin: say it until each has heard the other.
            heard: set[bytes] = set()
            while len(heard) < len(clients):
                for number, client in enumerate(clients):
                    await client.publish("ready", b"%d" % number)
                heard.add((await inbox.next_msg(timeout=30)).data)
        for number, client in enumerate(clients):
            await client.publish(f"sale.{number}", b"%d" % number)
        found = [[(await each.next_msg(timeout=30)).data for _ in ports] for each in inboxes]
        for client in clients:
            await client.close()
        return [sorted(each) for each in found]

    with running("leafnodes.py", lines=2) as ports:
        assert asyncio.run(talk(ports)) == [[b"0", b"1"]] * 2
