"""
Messages over compressed links of every kind, and their compression in monitoring.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

from tests.interop.linked import Circle
from tests.interop.servers import PATIENCE, Server

__all__ = ["MONITORED", "bodies", "exchange", "shows"]

#: Has a server of the tests show its pages.
MONITORED = 'http: "127.0.0.1:-1"'


def bodies() -> list[bytes]:
    """
    Payloads of every kind that an encoder treats differently: empty ones, short ones, repetitions
    near and far, long runs, and data that cannot be compressed.
    """
    noise = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(32000))
    record = b'{"id":%d,"name":"alpha","tags":["a","b"],"ok":true},'
    records = b"".join(record % number for number in range(2000))
    return [
        b"",
        b"x",
        b"hello world",
        b"a" * 20,
        b"ab" * 200,
        record % 1 * 40,
        noise[:100],
        noise[:64] * 2,
        noise[:40] + bytes(3000) + noise[:40],
        noise[:72] + bytes(70000) + noise[:72],
        records,
        bytes(66000),
        bytes(1000000),
        noise[:900000],
    ]


def exchange(circle: Circle, rounds: int = 3) -> None:
    """Check that each client receives all bodies from every other one, in order."""
    sent = bodies() * rounds
    for place, client in enumerate(circle.clients):
        ears = [peer.subscribe(b"data.%d" % place) for peer in circle.clients if peer is not client]
        circle.sync()
        for body in sent:
            client.publish(b"data.%d" % place, body)
        client.flush()
        others = [peer for peer in circle.clients if peer is not client]
        for other, ear in zip(others, ears, strict=True):
            assert other.take(ear, len(sent)) == sent
            other.unsubscribe(ear)


def shows(server: Server, page: str, expected: set[str]) -> None:
    """
    Wait until the rows of a page of links together show these levels.

    @param page: C{routez} or C{leafz}.
    """
    deadline = time.monotonic() + PATIENCE
    key = {"routez": "routes", "leafz": "leafs"}[page]
    while True:
        shown: Any = server.monitor(f"/{page}")
        compressions = {row.get("compression", "") for row in shown[key] if row["ip"]}
        if compressions == expected or time.monotonic() > deadline:
            assert compressions == expected
            return
        time.sleep(0.05)
