"""
Moves the streams of a nats-server to a broker behind a leafnode: first copies that follow, then,
when nobody publishes any more, streams with their consumers.

C{copy DOMAIN URL} makes a mirror of each stream of the domain and waits until all have everything.
C{cut DOMAIN URL} makes streams of the mirrors, and gives them the durable consumers, where they
were. URL is that of the new broker; both commands can be run again.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import nats

NEW = "$JS.API"

#: What an update cannot change afterwards.
FIXED = ("name", "retention", "max_consumers", "storage", "allow_msg_ttl")

#: What says where a stream is, or how it began.
LEFT = {"placement", "num_replicas", "first_seq"}


async def ask(client: Any, api: str, subject: str, **body: Any) -> Any:
    """
    The answer to a request, in one of the two servers.
    """
    answer = await client.request(f"{api}.{subject}", json.dumps(body).encode(), timeout=10)
    result = json.loads(answer.data)
    if "error" in result:
        raise SystemExit(f"{subject}: {result['error']['description']}")
    return result


async def listed(client: Any, api: str, subject: str, key: str) -> AsyncIterator[Any]:
    """
    Everything of a list, page by page.
    """
    offset, total = 0, 1
    while offset < total:
        page = await ask(client, api, subject, offset=offset)
        total = page["total"]
        offset += len(page[key]) or total
        for entry in page[key]:
            yield entry


async def streams(client: Any, api: str) -> AsyncIterator[Any]:
    """
    The streams that a mirror can follow.
    """
    async for stream in listed(client, api, "STREAM.LIST", "streams"):
        config = stream["config"]
        if config["retention"] != "limits" or "mirror" in config or "sources" in config:
            print(config["name"], "stays: back it up and restore it")
        else:
            yield stream


async def copy(client: Any, old: str) -> None:
    """
    Mirror each stream.
    """
    async for stream in streams(client, old):
        config = stream["config"]
        name = config["name"]
        fixed = {key: config[key] for key in FIXED if key in config}
        mirror = {"name": name, "external": {"api": old, "deliver": ""}}
        await ask(client, NEW, f"STREAM.CREATE.{name}", **fixed, mirror=mirror)
        await reached(client, old, name)


async def reached(client: Any, old: str, name: str, patience: float = float("inf")) -> None:
    """
    Wait until a stream has what its original has.
    """
    while True:
        original = (await ask(client, old, f"STREAM.INFO.{name}"))["state"]["last_seq"]
        copied = (await ask(client, NEW, f"STREAM.INFO.{name}"))["state"]["last_seq"]
        print(name, copied, "of", original)
        if copied >= original:
            return
        patience -= 0.5
        if patience < 0:
            raise SystemExit(f"{name} is behind: does somebody publish still?")
        await asyncio.sleep(0.5)


async def cut(client: Any, old: str) -> None:
    """
    Make streams of the mirrors.
    """
    async for stream in streams(client, old):
        name = stream["config"]["name"]
        await reached(client, old, name, 5)
        config = {key: value for key, value in stream["config"].items() if key not in LEFT}
        await ask(client, NEW, f"STREAM.UPDATE.{name}", **config)
        async for consumer in listed(client, old, f"CONSUMER.LIST.{name}", "consumers"):
            if "durable_name" in consumer["config"]:
                await recreate(client, name, consumer)


async def recreate(client: Any, stream: str, consumer: Any) -> None:
    """
    Make a consumer that begins behind what was acknowledged.
    """
    name, start = consumer["name"], consumer["ack_floor"]["stream_seq"] + 1
    config = {key: value for key, value in consumer["config"].items() if key != "opt_start_time"}
    config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": start, "num_replicas": 0}
    subject = f"CONSUMER.DURABLE.CREATE.{stream}.{name}"
    await ask(client, NEW, subject, stream_name=stream, config=config)
    print(stream, name, "begins at", start)


async def main(command: str, domain: str, url: str) -> None:
    """
    Run a command.
    """
    client = await nats.connect(url)
    try:
        await {"copy": copy, "cut": cut}[command](client, f"$JS.{domain}.API")
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
