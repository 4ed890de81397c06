"""
The JetStream of nats-servers, as clients of another server use it through nats-py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import nats
from nats.errors import Error, NoRespondersError
from nats.js.errors import APIError, NoStreamResponseError, ServiceUnavailableError

from tests.interop.servers import PATIENCE, Server

__all__ = ["hasNoJetStream", "storage", "usesJetStream"]

#: How long a single request may take, in seconds.
_REQUEST = 5.0


def storage(domain: str = "") -> str:
    """
    The configuration of a server with JetStream.
    """
    more = f"domain: {domain}" if domain else ""
    return f'jetstream {{ store_dir: "$DIR/js", max_mem: 10MB, max_file: 50MB\n{more} }}'


@asynccontextmanager
async def _client(server: Server, user: str) -> AsyncIterator[Any]:
    failures: list[Exception] = []

    async def failed(error: Exception) -> None:
        failures.append(error)

    address = f"nats://127.0.0.1:{server.port}"
    client = await nats.connect(address, user=user, password=user, error_cb=failed)
    yield client
    await client.close()
    assert failures == []


def usesJetStream(server: Server, name: str, user: str = "a", domain: str | None = None) -> None:
    """
    Use streams, pull and push consumers, acknowledgements and a bucket, once JetStream answers.

    @param name: the name of the stream, in small letters.
    @param domain: the JetStream domain; C{None} for requests without a domain.
    """
    asyncio.run(asyncio.wait_for(_uses(server, name, user, domain), 4 * PATIENCE))


async def _uses(server: Server, name: str, user: str, domain: str | None) -> None:
    async with _client(server, user) as client:
        stream = client.jetstream(
            timeout=_REQUEST, **({} if domain is None else {"domain": domain})
        )
        await _awaited(stream)
        subject = f"{name}.a"
        await _reached(partial(stream.add_stream, name=name, subjects=[f"{name}.>"]))
        for number in range(1, 5):
            once = {"Nats-Msg-Id": str(number)}
            sending = partial(stream.publish, subject, b"%d" % number, headers=once)
            assert (await _reached(sending)).seq == number
        await _pulls(stream, name, subject)
        await _pushes(stream, name, subject)
        if domain is None:
            # With a domain, nats-py publishes to buckets under a name that no server maps.
            await _keeps(stream, f"B{name}")
        assert await stream.delete_stream(name)


async def _awaited(stream: Any) -> None:
    """Wait until JetStream answers requests."""
    deadline = asyncio.get_running_loop().time() + 2 * PATIENCE
    while True:
        try:
            await stream.account_info()
            return
        except (APIError, Error):
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.2)


async def _reached(request: Callable[[], Awaitable[Any]]) -> Any:
    """
    The answer to a request, which is repeated while it has no responders. The answer that a stream
    or consumer was created may arrive before its interest, also between two nats-servers. Across
    gateways the client is not notified that there is no responder.
    """
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        try:
            return await request()
        except (NoRespondersError, NoStreamResponseError, ServiceUnavailableError, TimeoutError):
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.05)


async def _pulls(stream: Any, name: str, subject: str) -> None:
    pulls = await _reached(partial(stream.pull_subscribe, f"{name}.>", "pulls"))
    taken = [*await _reached(partial(pulls.fetch, 2)), *await pulls.fetch(2)]
    assert [(message.subject, message.data) for message in taken] == [
        (subject, b"%d" % number) for number in range(1, 5)
    ]
    for message in taken:
        assert message.metadata.stream == name
        await message.ack_sync(timeout=_REQUEST)
    assert (await stream.consumer_info(name, "pulls")).num_ack_pending == 0


async def _pushes(stream: Any, name: str, subject: str) -> None:
    pushes = await stream.subscribe(f"{name}.>", durable="pushes", manual_ack=True)
    for number in range(1, 5):
        message = await pushes.next_msg(_REQUEST)
        assert (message.subject, message.data) == (subject, b"%d" % number)
        await message.ack_sync(timeout=_REQUEST)
    await pushes.unsubscribe()


async def _keeps(stream: Any, bucket: str) -> None:
    kept = await stream.create_key_value(bucket=bucket, history=3)
    watcher = await kept.watchall()
    first = await kept.put("key", b"one")
    assert await kept.update("key", b"two", last=first) == first + 1
    assert (await kept.get("key")).value == b"two"
    assert await kept.keys() == ["key"]
    assert await watcher.updates() is None
    seen = [await watcher.updates() for _ in range(2)]
    assert [(update.key, update.value) for update in seen] == [("key", b"one"), ("key", b"two")]
    await watcher.stop()
    await stream.delete_key_value(bucket)


def hasNoJetStream(server: Server, user: str = "a") -> None:
    """Check that requests without a domain have no responders."""
    asyncio.run(_asksInVain(server, user))


async def _asksInVain(server: Server, user: str) -> None:
    async with _client(server, user) as client:
        try:
            answer = await client.request("$JS.API.INFO", b"", timeout=_REQUEST)
        except NoRespondersError:
            return
        raise AssertionError(f"somebody answers: {answer.data!r}")
