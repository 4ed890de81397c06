"""
Two clusters of two, run as C{examples/supercluster.py}.
"""

from __future__ import annotations

import asyncio

import nats

from tests.examples.running import running


def test_serves() -> None:
    """What is said at any broker is heard at all, once."""

    async def talk(ports: list[int]) -> list[list[bytes]]:
        clients = [await nats.connect(f"nats://127.0.0.1:{port}") for port in ports]
        inboxes = [await client.subscribe("greet.*") for client in clients]
        ready = [
            await client.subscribe("ready", queue=f"q{port}")
            for client, port in zip(clients, ports, strict=True)
        ]
        for client in clients:
            await client.flush()
        for inbox in ready:
            # Finding each other takes a moment: say it until everybody has heard it of everybody.
            heard: set[bytes] = set()
            while len(heard) < len(clients):
                for number, client in enumerate(clients):
                    await client.publish("ready", b"%d" % number)
                heard.add((await inbox.next_msg(timeout=30)).data)
        for number, client in enumerate(clients):
            await client.publish(f"greet.{number}", b"%d" % number)
        found = [[(await each.next_msg(timeout=30)).data for _ in ports] for each in inboxes]
        for client in clients:
            await client.close()
        return [sorted(each) for each in found]

    with running("supercluster.py", lines=4) as ports:
        assert asyncio.run(talk(ports)) == [[b"0", b"1", b"2", b"3"]] * 4
