"""
The scenarios of the interop tests with nats-py: C{python -m tests.interop.py.scenarios SCENARIO URL
[CA]}.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import MaxPayloadError, NoRespondersError

PATIENCE = 20.0


def say(**what: Any) -> None:
    """
    Print one line.
    """
    print(json.dumps(what), flush=True)


async def connect(url: str, **options: Any) -> Client:
    """Connect once, without further attempts."""

    async def ignore(error: Exception) -> None:
        """Ignore an event that the callers detect in another way."""

    options.setdefault("error_cb", ignore)
    options.setdefault("allow_reconnect", False)
    return await nats.connect(url, connect_timeout=PATIENCE, **options)


async def connecting(url: str) -> None:
    """
    Connect, measure a round trip, close.
    """
    client = await connect(url)
    await client.flush()
    say(event="connected", max_payload=client.max_payload, cid=bool(client.client_id))
    await client.close()
    say(event="closed", closed=client.is_closed)


async def publish(url: str) -> None:
    """
    Publish to wildcard and limited subscriptions.
    """
    client = await connect(url)
    wild = await client.subscribe("data.*")
    few = await client.subscribe("data.>")
    await few.unsubscribe(2)
    for number in range(4):
        await client.publish(f"data.{number}", str(number).encode() * 3)
    await client.flush()
    for sub, count in ((wild, 4), (few, 2)):
        for _ in range(count):
            message = await sub.next_msg(PATIENCE)
            say(subject=message.subject, data=message.data.decode())
    await wild.unsubscribe()
    await client.publish("data.9", b"unheard")
    await client.flush()
    await client.close()


async def answer(message: Msg) -> None:
    """Act as the service of the request scenarios."""
    await message.respond(message.data.upper())


async def request(url: str) -> None:
    """Send a request to a service on another connection."""
    service, client = await connect(url), await connect(url)
    await service.subscribe("svc.upper", cb=answer)
    await service.flush()
    for text in ("hello", "again"):
        reply = await client.request("svc.upper", text.encode(), timeout=PATIENCE)
        say(reply=reply.data.decode())
    await client.close()
    await service.close()


async def headers(url: str) -> None:
    """
    Publish with headers.
    """
    client = await connect(url)
    sub = await client.subscribe("head")
    await client.publish("head", b"body", headers={"Bar": "Baz", "Some-Key": "a: b"})
    await client.publish("head", b"", headers={"Only": "headers"})
    await client.publish("head", b"plain")
    for _ in range(3):
        message = await sub.next_msg(PATIENCE)
        say(data=message.data.decode(), headers=dict(sorted((message.headers or {}).items())))
    await client.close()


async def queue(url: str) -> None:
    """
    Share messages between two members of a group.
    """
    members, counts = [await connect(url), await connect(url)], [0, 0]
    publisher, done = await connect(url), asyncio.Event()

    def member(which: int) -> Callable[[Msg], Awaitable[None]]:
        async def receive(message: Msg) -> None:
            counts[which] += 1
            if sum(counts) == 200:
                done.set()

        return receive

    for which, client in enumerate(members):
        await client.subscribe("work", queue="workers", cb=member(which))
        await client.flush()
    for _ in range(20):
        for _ in range(10):
            await publisher.publish("work", b"x")
        await publisher.flush()
    await asyncio.wait_for(done.wait(), PATIENCE)
    say(total=sum(counts), shared=min(counts) > 0)
    for client in [*members, publisher]:
        await client.close()


async def nobody(url: str) -> None:
    """Send a request that has no responders."""
    client = await connect(url)
    try:
        await client.request("nobody.there", b"?", timeout=PATIENCE)
    except NoRespondersError:
        say(error="no responders")
    await client.close()


async def drain(url: str) -> None:
    """
    Drain a connection that still has messages to handle.
    """
    closed = asyncio.Event()

    async def onClosed() -> None:
        closed.set()

    client, seen = await connect(url, closed_cb=onClosed), []

    async def slowly(message: Msg) -> None:
        await asyncio.sleep(0.001)
        seen.append(message.data)

    await client.subscribe("drain", cb=slowly)
    for number in range(50):
        await client.publish("drain", b"%d" % number)
    await client.drain()
    await asyncio.wait_for(closed.wait(), PATIENCE)
    say(received=len(seen), closed=client.is_closed)


async def reconnect(url: str) -> None:
    """Stay subscribed over a restart of the server."""
    back = asyncio.Event()

    async def onDisconnected() -> None:
        say(event="disconnected")

    async def onReconnected() -> None:
        back.set()

    client = await connect(
        url,
        allow_reconnect=True,
        reconnect_time_wait=0.1,
        max_reconnect_attempts=-1,
        disconnected_cb=onDisconnected,
        reconnected_cb=onReconnected,
    )
    sub = await client.subscribe("again")
    await client.flush()
    say(event="ready")
    await asyncio.wait_for(back.wait(), PATIENCE)
    await client.publish("again", b"still here")
    message = await sub.next_msg(PATIENCE)
    say(event="reconnected", data=message.data.decode())
    await client.close()


async def payload(url: str) -> None:
    """Publish more than the server accepts, and then as much as it accepts."""
    client = await connect(url)
    sub = await client.subscribe("big")
    try:
        await client.publish("big", b"x" * (client.max_payload + 1))
    except MaxPayloadError:
        say(error="max payload")
    await client.publish("big", b"x" * client.max_payload)
    message = await sub.next_msg(PATIENCE)
    say(size=len(message.data))
    await client.close()


async def login(url: str) -> None:
    """
    Connect with the credentials in the URL, or be refused.
    """
    try:
        client = await connect(url)
    except Exception as error:  # of whatever kind: the text is the server's
        say(refused="authorization violation" in str(error).lower())
        return
    await client.flush()
    say(event="connected")
    await client.close()


async def permissions(url: str) -> None:
    """Publish and subscribe on denied subjects, and continue."""
    errors: asyncio.Queue[str] = asyncio.Queue()

    async def onError(error: Exception) -> None:
        await errors.put(str(error).lower())

    client = await connect(url, error_cb=onError)
    await client.publish("denied", b"x")
    await client.flush()
    say(
        violation="permissions violation for publish"
        in await asyncio.wait_for(errors.get(), PATIENCE)
    )
    await client.subscribe("denied")
    await client.flush()
    text = await asyncio.wait_for(errors.get(), PATIENCE)
    say(violation="permissions violation for subscription" in text)
    sub = await client.subscribe("allowed")
    await client.publish("allowed", b"y")
    say(data=(await sub.next_msg(PATIENCE)).data.decode())
    await client.close()


async def tls(url: str, authority: str) -> None:
    """Exchange a message over TLS, and fail to connect without the authority."""
    client = await connect(url, tls=ssl.create_default_context(cafile=authority))
    sub = await client.subscribe("secret")
    await client.publish("secret", b"x" * 100_000)
    say(size=len((await sub.next_msg(PATIENCE)).data))
    await client.close()
    try:
        await connect(url, tls=ssl.create_default_context())
    except (ssl.SSLError, OSError):
        say(refused=True)


SCENARIOS: dict[str, Callable[..., Awaitable[None]]] = {
    "connect": connecting,
    "publish": publish,
    "request": request,
    "headers": headers,
    "queue": queue,
    "nobody": nobody,
    "drain": drain,
    "reconnect": reconnect,
    "payload": payload,
    "login": login,
    "permissions": permissions,
    "tls": tls,
}

if __name__ == "__main__":
    asyncio.run(SCENARIOS[sys.argv[1]](*sys.argv[2:]))  # type: ignore[arg-type]
