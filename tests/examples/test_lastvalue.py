"""
The service on the bus C{examples/lastvalue.py}, run unchanged, and its plugin in a broker in
memory.
"""

from __future__ import annotations

import asyncio

import nats
import pytest
from zope.interface.verify import verifyObject

from examples.lastvalue import LastValue, LastValueService
from natsbroker.errors import BrokerError
from natsbroker.interfaces import IBrokerService
from natsbroker.testing.contracts import subscriberTests
from natsbroker.testing.memory import MemoryBroker, MemoryConnection
from tests.examples.running import running

OPTIONS = {"verbose": False, "headers": True, "no_responders": True}

TestContract = subscriberTests(
    lambda: LastValueService(MemoryBroker().bus(), b">", 5),
    [lambda message: None],
)


class TestInMemory:
    """The stored values and the answers."""

    def ask(self, connection: MemoryConnection, subject: bytes) -> bytes:
        """Request the last value of a subject."""
        return connection.request(b"PUB last.%b here 0\r\n\r\n" % subject)

    def open(self, config: str = "") -> tuple[MemoryBroker, MemoryConnection]:
        """A broker with the service, and a client that receives answers."""
        broker = MemoryBroker(configText=config, services=[LastValue()])
        connection = broker.connect(OPTIONS)
        connection.send(b"SUB here 1\r\n")
        return broker, connection

    def test_isAPlugin(self) -> None:
        """The plugin provides its interface."""
        assert verifyObject(IBrokerService, LastValue())

    def test_lastValue(self) -> None:
        """A request is answered with the last message of the subject and its headers."""
        broker, client = self.open()
        with broker:
            client.request(b"PUB a.b 3\r\none\r\nPUB a.b 3\r\ntwo\r\nPUB a.c 5\r\nthree\r\n")
            client.request(b"HPUB a.d 12 13\r\nNATS/1.0\r\n\r\n4\r\n")
            assert self.ask(client, b"a.b") == b"MSG here 1 3\r\ntwo\r\n"
            assert self.ask(client, b"a.c") == b"MSG here 1 5\r\nthree\r\n"
            assert self.ask(client, b"a.d") == b"HMSG here 1 12 13\r\nNATS/1.0\r\n\r\n4\r\n"

    def test_nothingKept(self) -> None:
        """A request for a subject without a value is answered with the status for that."""
        broker, client = self.open()
        with broker:
            assert b"NATS/1.0 404 No Value\r\n" in self.ask(client, b"a.b")

    def test_settings(self) -> None:
        """The section of the configuration gives the stored subjects and the limit."""
        broker, client = self.open('plugins { lastvalue { subjects: "w.*", most: 2 } }')
        with broker:
            for subject in (b"w.1", b"w.2", b"w.3", b"other"):
                client.request(b"PUB %b 1\r\nx\r\n" % subject)
            answers = [
                b"404" in self.ask(client, token) for token in (b"w.1", b"w.2", b"w.3", b"other")
            ]
            assert answers == [True, False, False, True]

    @pytest.mark.parametrize(
        "section", ["most: 0", "most: many", 'subjects: "a..b"', "colour: red"]
    )
    def test_badSettings(self, section: str) -> None:
        """A broker with an invalid section does not start."""
        with pytest.raises((BrokerError, ValueError), match="lastvalue"):
            self.open(f"plugins {{ lastvalue {{ {section} }} }}")

    def test_stopped(self) -> None:
        """A stopped service has no subscriptions."""
        broker, _ = self.open()
        account = broker.broker.accounts["$G"]
        broker.stop()
        patterns = {subscription.pattern for subscription in account.subscriptions()}
        assert [pattern for pattern in patterns if not pattern.startswith(b"$SYS.REQ.")] == []


def test_runs() -> None:
    """The program serves clients of another library."""

    async def talk(port: int) -> bytes:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        await client.publish("weather.oslo", b"12 degrees")
        answer = await client.request("last.weather.oslo", b"", timeout=30)
        await client.drain()
        return bytes(answer.data)

    with running("lastvalue.py", "0") as [port]:
        assert asyncio.run(talk(port)) == b"12 degrees"
