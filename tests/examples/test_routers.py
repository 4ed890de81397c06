"""
Routers that differ from NATS: C{examples/routers.py}, run unchanged, and its classes in a broker.
"""

from __future__ import annotations

import asyncio

import nats
import pytest
from zope.interface.verify import verifyObject

from examples.routers import AUDIT, ROUTERS, AuditRouter, CaselessRouter, RouterPlugin
from natsbroker.interfaces import IRouterPlugin
from natsbroker.subjects.grammar import matches
from natsbroker.testing.contracts import subjectRouterTests
from natsbroker.testing.memory import MemoryBroker, MemoryConnection
from tests.examples.running import running

TestCaselessRouter = subjectRouterTests(
    CaselessRouter,
    lambda pattern, subject: matches(pattern.lower(), subject.lower()),
    [b"a.b", b"A.b", b"a.B", b"A.*", b"A.>"],
)
TestAuditRouter = subjectRouterTests(
    AuditRouter, lambda pattern, subject: pattern == AUDIT or matches(pattern, subject), [AUDIT]
)


def connected(broker: MemoryBroker) -> MemoryConnection:
    """A client that has logged in."""
    return broker.connect({"verbose": False})


def test_caseless() -> None:
    """
    A subscription gets messages on other spellings of its subject, also of one published before.
    """
    with MemoryBroker(routerFactory=lambda account: CaselessRouter()) as broker:
        listener, publisher = connected(broker), connected(broker)
        publisher.request(b"PUB orders.EU 1\r\n1\r\nPUB ORDERS.eu 1\r\n2\r\n")
        listener.request(b"SUB Orders.eu 7\r\n")
        publisher.request(b"PUB orders.EU 1\r\n3\r\nPUB ORDERS.eu 1\r\n4\r\n")
        assert listener.receive() == (b"MSG orders.EU 7 1\r\n3\r\nMSG ORDERS.eu 7 1\r\n4\r\n")
        listener.request(b"UNSUB 7\r\n")
        publisher.request(b"PUB orders.EU 1\r\n5\r\n")
        assert listener.receive() == b""


def test_audit() -> None:
    """An auditor that subscribes receives each message once, in addition to its other receivers."""
    with MemoryBroker(routerFactory=lambda account: AuditRouter()) as broker:
        auditor, listener, publisher = (connected(broker) for _ in range(3))
        listener.request(b"SUB a.* 1\r\n")
        publisher.request(b"PUB a.b 1\r\n1\r\nPUB c 1\r\n2\r\n")
        auditor.request(b"SUB %b 9\r\n" % AUDIT)
        publisher.request(b"PUB a.b 1\r\n3\r\nPUB c 1\r\n4\r\nPUB %b 1\r\n5\r\n" % AUDIT)
        assert auditor.receive() == (
            b"MSG a.b 9 1\r\n3\r\nMSG c 9 1\r\n4\r\nMSG %b 9 1\r\n5\r\n" % AUDIT
        )
        auditor.request(b"UNSUB 9\r\n")
        publisher.request(b"PUB a.b 1\r\n6\r\n")
        assert auditor.receive() == b""
        assert listener.receive() == b"".join(b"MSG a.b 1 1\r\n%d\r\n" % n for n in (1, 3, 6))


@pytest.mark.parametrize("name", ROUTERS)
def test_plugin(name: str) -> None:
    """The plugin provides its interface, and refuses unknown options."""
    plugin = RouterPlugin(name)
    assert verifyObject(IRouterPlugin, plugin)
    assert isinstance(plugin.makeRouter("A", {}), CaselessRouter | AuditRouter)
    with pytest.raises(ValueError, match="no options"):
        plugin.makeRouter("A", {"case": "lower"})


def test_program() -> None:
    """The program serves real clients, which receive messages on subjects of any spelling."""

    async def conversation(port: int) -> bytes:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        inbox = await client.subscribe("Orders.EU")
        await client.publish("orders.eu", b"one more")
        message = await inbox.next_msg(timeout=30)
        await client.close()
        return message.data

    with running("routers.py", "caseless", "0") as [port]:
        assert asyncio.run(conversation(port)) == b"one more"
