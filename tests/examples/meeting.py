"""
Clients of several brokers that should receive each other's messages.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import nats
from nats.aio.subscription import Subscription
from nats.errors import TimeoutError


async def _arriving(inbox: Subscription) -> set[bytes]:
    """All messages until none has come for a while."""
    addresses = set()
    while True:
        try:
            addresses.add((await inbox.next_msg(timeout=0.1)).data)
        except TimeoutError:
            return addresses


async def heardAt(urls: Sequence[str]) -> list[list[bytes]]:
    """
    Connect a client to each broker, and have each client publish its number once.

    @return: for each client the numbers that it received, in order.
    """
    clients = [await nats.connect(url) for url in urls]
    inboxes = [await client.subscribe("greet.*") for client in clients]
    # Of members of a queue group one alone would hear it: each client is a group of its own, which
    # brokers in other clusters hear of like that.
    ready = [
        await client.subscribe("ready", queue=f"q{number}") for number, client in enumerate(clients)
    ]
    for client in clients:
        await client.flush()
    deadline = time.monotonic() + 60
    for inbox in ready:
        # Finding each other takes a moment: say it until everybody has heard it of everybody.
        heard: set[bytes] = set()
        while len(heard) < len(clients):
            assert time.monotonic() < deadline, f"only {sorted(heard)} were heard"
            for number, client in enumerate(clients):
                await client.publish("ready", b"%d" % number)
            heard |= await _arriving(inbox)
    for number, client in enumerate(clients):
        await client.publish(f"greet.{number}", b"%d" % number)
    messages = []
    for inbox in inboxes:
        taken = [(await inbox.next_msg(timeout=30)).data for _ in clients]
        messages.append(sorted(taken))
    for client in clients:
        await client.close()
    return messages
