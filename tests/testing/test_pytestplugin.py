"""
Tests for L{natsbroker.testing.pytestplugin}, which is also in use here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import nats
import pytest

from natsbroker.testing.memory import MemoryBroker
from natsbroker.testing.process import BrokerProcess
from natsbroker.testing.warm import WarmProcess
from tests.testing.test_warm import parentOf

pytest_plugins = ["pytester"]


def test_natsbroker(natsbroker: BrokerProcess) -> None:
    """A test on any event loop talks to the broker with a client library of its choice."""

    async def scenario() -> bytes:
        client = await nats.connect(natsbroker.url)
        inbox = await client.subscribe("greet")
        await client.publish("greet", b"hello")
        message = await inbox.next_msg(timeout=10)
        await client.close()
        return bytes(message.data)

    assert asyncio.run(scenario()) == b"hello"


def test_factory(natsbrokerFactory: Callable[..., BrokerProcess]) -> None:
    """The factory starts several brokers with different options."""
    one, other = natsbrokerFactory(), natsbrokerFactory("--user", "u", "--pass", "p")
    assert one.port != other.port

    async def refused() -> bool:
        try:
            await nats.connect(other.url, allow_reconnect=False, max_reconnect_attempts=0)
        except nats.errors.Error:
            return True
        return False

    assert asyncio.run(refused())


def test_warm(
    natsbrokerFactory: Callable[..., BrokerProcess], natsbrokerWarm: WarmProcess | None
) -> None:
    """The factory forks its brokers from the process of the session, unless C{warm} is C{None}."""
    if natsbrokerWarm is None:
        pytest.skip("processes are not forked here")
    forked, own = natsbrokerFactory(), natsbrokerFactory(warm=None)
    assert parentOf(forked.pid) not in (parentOf(own.pid), os.getpid())
    assert parentOf(own.pid) == os.getpid()


def test_environment(natsbrokerFactory: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    """The factory sets environment variables, and refuses invalid arguments."""
    config = tmp_path / "mine.conf"
    config.write_text("server_name: $NAME")
    broker = natsbrokerFactory("-c", config, environment={"NAME": "mine"})
    assert "Name:     mine" in broker.log
    with pytest.raises(TypeError, match="no argument jetstream"):
        natsbrokerFactory(jetstream=True)


def test_memoryBroker(memoryBroker: MemoryBroker) -> None:
    """The broker in memory serves clients in memory."""
    client = memoryBroker.connect()
    client.send(b"SUB a 1\r\nPUB a 2\r\nhi\r\n")
    assert b"MSG a 1 2\r\nhi\r\n" in client.receive()


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("setting", "arguments"), [("0", ""), ("", "patience=0")], ids=["setting", "argument"]
)
def test_patience(pytester: pytest.Pytester, setting: str, arguments: str) -> None:
    """A broker that is not ready within the configured time fails its test."""
    pytester.makeini(f"[pytest]\nnatsbroker_start_timeout = {setting}\n")
    pytester.makepyfile(
        f"""
        import pytest
        from natsbroker.testing.process import DidNotStart

        def test_it(natsbrokerFactory):
            with pytest.raises(DidNotStart):
                natsbrokerFactory({arguments})
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
