"""
A broker that stores its streams in PostgreSQL.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import StreamSource

from tests.interop.jetstream.shared import SharedBrokers, asked
from tests.interop.servers import OURS_FAST, PATIENCE, Server
from tests.postgresql import PostgresServer


def test_killed(postgres: PostgresServer, tmp_path: Path) -> None:
    """
    A broker that is killed has its streams, consumers, buckets and positions when it starts again,
    including the positions in origins of sources. It starts once the lease of its earlier process
    has expired.
    """
    options = f'source: "{postgres.source}", schema: "{postgres.newSchema()}", lease: 1'
    config = f"jetstream {{ backend: postgresql, backend_options {{ {options} }} }}"
    server = Server(OURS_FAST, tmp_path, config).start()

    async def fill() -> None:
        client = await nats.connect(server.url)
        context = client.jetstream(timeout=PATIENCE)
        await context.add_stream(name="S", subjects=["s.*"])
        for number in range(6):
            answer = await context.publish(f"s.{number % 2}", b"%d" % number)
            assert answer.seq == number + 1
        puller = await context.pull_subscribe("s.0", "puller")
        (first,) = await puller.fetch(1, PATIENCE)
        await first.ack_sync(PATIENCE)
        await context.add_stream(name="Q", retention="workqueue", sources=[StreamSource("S")])
        worker = await context.pull_subscribe("", "worker", "Q")
        for message in await worker.fetch(6, PATIENCE):
            await message.ack_sync(PATIENCE)
        bucket = await context.create_key_value(bucket="B")
        await bucket.put("k", b"v")
        await client.close()

    async def compare() -> None:
        client = await nats.connect(server.url)
        context = client.jetstream(timeout=PATIENCE)
        assert (await asked(client, "STREAM.NAMES"))["streams"] == ["KV_B", "Q", "S"]
        for name in ("KV_B", "Q", "S"):  # Each has a lease of its own; requests before are lost.
            await asked(client, f"STREAM.INFO.{name}")
        puller = await context.pull_subscribe("s.0", "puller")
        messages = await puller.fetch(2, PATIENCE)
        assert [message.data for message in messages] == [b"2", b"4"]
        assert (await (await context.key_value("B")).get("k")).value == b"v"
        assert (await context.publish("s.1", b"6")).seq == 7
        worker = await context.pull_subscribe("", "worker", "Q")
        assert [message.data for message in await worker.fetch(1, PATIENCE)] == [b"6"]
        await client.close()

    try:
        asyncio.run(asyncio.wait_for(fill(), PATIENCE))
        server.signal("KILL")
        server.exitStatus()
        server.restart()
        asyncio.run(asyncio.wait_for(compare(), PATIENCE))
    finally:
        server.stop()


KEYS = [f"$KV.B.k{number}" for number in range(3)]

REQUESTS: list[tuple[str, Any]] = [
    ("DIRECT.GET.KV_B.$KV.B.k0", None),
    ("DIRECT.GET.KV_B", {"last_by_subj": "$KV.B.k1"}),
    ("DIRECT.GET.KV_B", {"last_by_subj": "$KV.B.*"}),
    ("DIRECT.GET.KV_B", {"seq": 1, "next_by_subj": "$KV.B.k2"}),
    ("DIRECT.GET.KV_B", {"multi_last": ["$KV.B.*"]}),
    ("STREAM.MSG.GET.KV_B", {"last_by_subj": "$KV.B.k0"}),
    ("STREAM.MSG.GET.KV_B", {"seq": 1, "next_by_subj": "$KV.B.k1"}),
    ("STREAM.INFO.KV_B", {"subjects_filter": "$KV.B.*"}),
]
"""Requests that find a message or a subject at any time."""


@pytest.mark.parametrize("brokers", [1, 3])
def test_readersBesideWriters(postgres: PostgresServer, tmp_path: Path, brokers: int) -> None:
    """
    Every request, to any broker, finds a key of a bucket with one value while others overwrite it.
    """
    cluster = SharedBrokers(postgres, tmp_path).start(*("one", "two", "three")[:brokers])
    left = 240

    async def write(client: Any, key: str) -> None:
        while left > 0:
            answer = await client.request(key, b"x", timeout=PATIENCE)
            assert b'"seq"' in answer.data

    async def read(client: Any, subject: str, body: Any) -> None:
        nonlocal left
        data = b"" if body is None else json.dumps(body).encode()
        while left > 0:
            left -= 1
            answers = await gathered(client, f"$JS.API.{subject}", data)
            status = [(answer.headers or {}).get("Status", "") for answer in answers]
            assert not {"404", "500"} & set(status), (subject, body, status)
            assert b'"error"' not in answers[0].data, (subject, body, answers[0].data)
            if "multi_last" in (body or {}):
                assert len(answers) == len(KEYS) + 1
            if subject.startswith("STREAM.INFO"):
                assert set(json.loads(answers[0].data)["state"]["subjects"]) == set(KEYS)

    async def gathered(client: Any, subject: str, data: bytes) -> list[Any]:
        if b"multi_last" not in data:
            return [await client.request(subject, data, timeout=PATIENCE)]
        inbox = client.new_inbox()
        listening = await client.subscribe(inbox)
        await client.publish(subject, data, inbox)
        answers: list[Any] = []
        while not answers or not (answers[-1].headers or {}).get("Status"):
            answers.append(await listening.next_msg(timeout=PATIENCE))
        await listening.unsubscribe()
        return answers

    async def play() -> None:
        clients = [await nats.connect(url) for url in cluster.urls]
        config = {
            "name": "KV_B",
            "subjects": ["$KV.B.>"],
            "max_msgs_per_subject": 1,
            "allow_direct": True,
        }
        assert "error" not in await asked(clients[0], "STREAM.CREATE.KV_B", config)
        for key in KEYS:
            await clients[0].request(key, b"x", timeout=PATIENCE)
        if brokers > 1:
            await asyncio.sleep(2)  # Until the others answer direct gets as well.
        await asyncio.gather(
            *(write(clients[0], name) for name in KEYS),
            *(
                read(clients[place % brokers], *request)
                for place, request in enumerate(REQUESTS * min(brokers, 2))
            ),
        )
        for client in clients:
            await client.close()

    try:
        asyncio.run(asyncio.wait_for(play(), 2 * PATIENCE))
    finally:
        cluster.stop()
