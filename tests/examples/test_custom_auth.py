"""
The custom authorizer C{examples/custom_auth.py}, run unchanged, and its class in a broker in
memory.
"""

from __future__ import annotations

import asyncio
from typing import Any

import nats
import pytest

from examples import custom_auth
from examples.custom_auth import TableAuthenticator, TablePlugin
from natsbroker.testing.contracts import authorizerTests
from natsbroker.testing.memory import MemoryBroker, MemoryConnection
from natsbroker.wire.grants import ConnectRequest
from tests.examples.running import running

TestContract = authorizerTests(
    custom_auth.makeAuthenticator,
    ConnectRequest(options={"user": "anna", "pass": "apple"}),
    ConnectRequest(options={"user": "anna", "pass": "banana"}),
    lambda keeper: keeper.lockOut("anna"),
)


class TestInMemory:
    """The permissions that the authorizer grants."""

    def open(self) -> tuple[MemoryBroker, TableAuthenticator]:
        """A broker with the authenticator."""
        authenticator = custom_auth.makeAuthenticator()
        return MemoryBroker(authorizer=authenticator), authenticator

    def connect(self, broker: MemoryBroker, user: str, password: str) -> MemoryConnection:
        """A connection of a user."""
        return broker.connect({"verbose": False, "user": user, "pass": password})

    @pytest.mark.parametrize(
        ("user", "password", "closed"),
        [
            ("anna", "apple", ""),
            ("bob", "banana", ""),
            ("anna", "banana", "lost"),
            ("bob", "", "lost"),
            ("carl", "apple", "lost"),
        ],
    )
    def test_login(self, user: str, password: str, closed: str) -> None:
        """Only a user in the table with the right password is accepted."""
        broker, _ = self.open()
        with broker:
            assert self.connect(broker, user, password).closed == closed

    def test_grant(self) -> None:
        """
        All users publish their own orders. A clerk reads all orders, and others read their own.
        """
        broker, _ = self.open()
        with broker:
            anna = self.connect(broker, "anna", "apple")
            bob = self.connect(broker, "bob", "banana")
            assert anna.request(b"SUB orders.> 1\r\n") == b""
            assert b"Permissions Violation" in bob.request(b"SUB orders.> 1\r\n")
            assert bob.request(b"SUB orders.bob.> 1\r\n") == b""
            assert (
                bob.request(b"PUB orders.bob.new 1\r\nx\r\n") == b"MSG orders.bob.new 1 1\r\nx\r\n"
            )
            assert anna.receive() == b"MSG orders.bob.new 1 1\r\nx\r\n"
            assert b"Permissions Violation" in bob.request(b"PUB orders.anna.new 1\r\nx\r\n")

    def test_lockedOut(self) -> None:
        """A user who is locked out is disconnected at once, and other users are not."""
        broker, authenticator = self.open()
        with broker:
            anna = self.connect(broker, "anna", "apple")
            bob = self.connect(broker, "bob", "banana")
            authenticator.lockOut("bob")
            assert (anna.closed, bob.closed) == ("", "lost")
            assert self.connect(broker, "bob", "banana").closed == "lost"


def test_runs() -> None:
    """The program accepts valid users and refuses others."""

    async def talk(port: int) -> tuple[bytes, bool]:
        url = f"nats://anna:apple@127.0.0.1:{port}"
        client = await nats.connect(url)
        inbox = await client.subscribe("orders.anna.new")
        await client.publish("orders.anna.new", b"tea")
        message = await inbox.next_msg(timeout=30)
        await client.drain()
        refused = False
        try:
            options: dict[str, Any] = {"allow_reconnect": False, "max_reconnect_attempts": 0}
            await nats.connect(url.replace("apple", "pear"), **options)
        except nats.errors.Error:
            refused = True
        return bytes(message.data), refused

    with running("custom_auth.py", "0") as [port]:
        assert asyncio.run(talk(port)) == (b"tea", True)


class TestPlugin:
    """The plugin for configuration files."""

    def test_options(self) -> None:
        """The options of the C{authorization} block reach the authenticator."""
        text = "authorization { plugin: table, clerk: bob }"
        with MemoryBroker(configText=text, authorizer=TablePlugin()) as broker:
            bob = broker.connect({"verbose": False, "user": "bob", "pass": "banana"})
            assert bob.request(b"SUB orders.anna.new 1\r\nPING\r\n") == b"PONG\r\n"

    def test_unknownOption(self) -> None:
        """An option that the plugin does not have is refused."""
        with pytest.raises(ValueError, match='only option is "clerk"'):
            TablePlugin().makeAuthorizer(MemoryBroker().broker, {"color": "red"})
