"""
A custom observer and a custom publish filter: C{examples/observer.py} and its classes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import nats
import pytest
from zope.interface.verify import verifyObject

from examples.observer import CardFilter, ConnectionCounter
from natsbroker.interfaces import IObserver, IPublishFilter
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.values import Message
from tests.examples.running import running

CARD = b"paid with 4111 1111 1111 1111"


@pytest.fixture
def counter() -> ConnectionCounter:
    """An observer."""
    return ConnectionCounter()


@pytest.fixture
def broker(counter: ConnectionCounter) -> Iterator[MemoryBroker]:
    """A broker with the observer and the filter."""
    with MemoryBroker(observers=[counter]) as broker:
        broker.broker.addFilter("$G", CardFilter())
        yield broker


def test_interfaces() -> None:
    """The example's classes provide their interfaces."""
    counter: Any = ConnectionCounter()
    assert verifyObject(IObserver, counter)
    assert verifyObject(IPublishFilter, CardFilter())


def test_connectionsAreCounted(broker: MemoryBroker, counter: ConnectionCounter) -> None:
    """A connection is counted while it is open."""
    client = broker.connect({"verbose": False, "user": "anna"})
    broker.connect({"verbose": False})
    assert sum(counter.connected.values()) == 2
    client.close()
    assert sum(counter.connected.values()) == 1


def test_cardsAreMasked(broker: MemoryBroker) -> None:
    """A card number is masked in the payload and in headers, and other messages are unchanged."""
    client = broker.connect({"verbose": False, "headers": True})
    client.request(b"SUB orders.> 1\r\n")
    line = b"PUB orders.1 %d\r\n%b\r\n" % (len(CARD), CARD)
    assert client.request(line) == b"MSG orders.1 1 14\r\npaid with ****\r\n"
    assert client.request(b"PUB orders.2 2\r\nok\r\n") == b"MSG orders.2 1 2\r\nok\r\n"
    headers = b"NATS/1.0\r\nCard: 4111111111111111\r\n\r\n"
    line = b"HPUB orders.3 %d %d\r\n%bx\r\n" % (len(headers), len(headers) + 1, headers)
    masked = b"NATS/1.0\r\nCard: ****\r\n\r\n"
    expected = b"HMSG orders.3 1 %d %d\r\n%bx\r\n" % (len(masked), len(masked) + 1, masked)
    assert client.request(line) == expected


def test_internalSubjectsAreDropped(broker: MemoryBroker) -> None:
    """Clients cannot publish below C{internal}; services of the broker can."""
    client = broker.connect({"verbose": False})
    client.request(b"SUB internal.> 1\r\n")
    assert client.request(b"PUB internal.x 1\r\nx\r\n") == b""
    broker.bus().publish(Message(b"internal.x", b"y"))
    assert client.receive() == b"MSG internal.x 1 1\r\ny\r\n"


def test_program() -> None:
    """The program filters messages of real clients."""

    async def talk(port: int) -> bytes:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        messages = await client.subscribe("orders.*")
        await client.publish("orders.1", CARD)
        message = await messages.next_msg(timeout=30)
        await client.close()
        return bytes(message.data)

    with running("observer.py", "0") as [port]:
        assert asyncio.run(talk(port)) == b"paid with ****"
