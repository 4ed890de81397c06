"""
Brokers in an asyncio program, with real sockets.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from natsbroker import Broker, serving
from natsbroker.errors import BrokerError

LOOPBACK = "listen: '127.0.0.1:-1'"


async def ask(url: str, *lines: bytes) -> bytes:
    """
    @return: the last line for a client that sends these lines and a PING.
    """
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    writer.writelines([*lines, b"PING\r\n"])
    line = await reader.readline()
    while line.startswith((b"INFO ", b"MSG ", b"+OK")):
        line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return line


def test_serving() -> None:
    """A program can run a broker on each of its event loops, until the end of the block."""

    async def serve() -> None:
        async with serving(Broker.fromText(LOOPBACK)) as url:
            assert await ask(url, b'CONNECT {"verbose":false}\r\n') == b"PONG\r\n"
        with pytest.raises(ConnectionRefusedError):
            await ask(url)

    asyncio.run(serve())
    asyncio.run(serve())


def test_threads() -> None:
    """A login that needs a thread, as with a hashed password, is decided."""
    hashed = "$2a$04$vmDnTPJXxCGBLd9Wzyw2oO/CqTAPMYOxtyqIvcAvXzbEGP8EeSEFS"
    text = f"{LOOPBACK}\nauthorization {{ user: a, password: '{hashed}', timeout: 60 }}"

    async def login() -> bytes:
        async with serving(Broker.fromText(text)) as url:
            return await ask(url, b'CONNECT {"user":"a","pass":"wrong","verbose":false}\r\n')

    assert asyncio.run(login()) == b"-ERR 'Authorization Violation'\r\n"


def test_noListener() -> None:
    """A broker without listeners has an empty URL."""

    async def serve() -> str:
        async with serving(Broker(endpoints=[])) as url:
            return url

    assert asyncio.run(serve()) == ""


def test_cannotListen() -> None:
    """A failed start raises an exception, and leaves nothing of the broker."""

    async def serve() -> None:
        async with serving(Broker.fromText(LOOPBACK)) as url:
            taken = Broker.fromText(f"listen: '127.0.0.1:{urlsplit(url).port}'")
            with pytest.raises(Exception, match="in use"):
                async with serving(taken):
                    raise AssertionError("it started")
            assert not taken.reactor.running

    asyncio.run(serve())


def test_otherReactor() -> None:
    """A broker that was made outside an event loop is refused, with the cure."""
    broker = Broker.fromText(LOOPBACK)

    async def serve() -> None:
        async with serving(broker):
            raise AssertionError("it started")

    with pytest.raises(BrokerError, match="make the broker inside a coroutine"):
        asyncio.run(serve())
