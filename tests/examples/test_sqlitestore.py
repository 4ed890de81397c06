"""
The custom store C{examples/sqlitestore.py}, tested with the contracts and run unchanged.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import nats
import pytest
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from examples.sqlitestore import SQLiteOpener, SQLiteStore
from natsbroker.interfaces import IStoreOpener, StoreFull, StoreLocked
from natsbroker.streaming import protocol
from natsbroker.testing.contracts.stores import (
    DurableContract,
    LogContract,
    RetainedContract,
    StateContract,
)
from natsbroker.testing.pumped import PumpedReactor
from tests.examples.running import running


class SQLiteStoreTests(
    LogContract, StateContract, RetainedContract, DurableContract, SynchronousTestCase
):
    """The contract tests with L{SQLiteStore}."""

    def setUp(self) -> None:
        """A directory and a reactor."""
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.reactor = PumpedReactor()

    def wait(self, deferred: Any) -> Any:
        """Run the reactor until a Deferred fires."""
        return self.reactor.wait(deferred)

    def makeStore(self) -> Any:
        """The store of this test."""
        return self.wait(SQLiteStore(self.reactor, str(self.directory / "s.db"), self.now).start())

    def reopen(self, store: Any) -> Any:
        """Close the store and open it again."""
        self.wait(store.close())
        return self.store()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        super().advance(seconds)
        self.reactor.advance(seconds)
        self.reactor.catchUp()

    def test_openTwice(self) -> None:
        """A file can be opened by one process only."""
        self.store()
        other = SQLiteStore(self.reactor, str(self.directory / "s.db"), self.now)
        self.failsWith(StoreLocked, other.start())

    def test_fullDisk(self) -> None:
        """An append without disk space fails, and so does a later one."""
        store: Any = self.store()
        log: Any = self.wait(store.open("log"))
        self.wait(log.append([(b"s", b"", b"1", 0)]))
        self.wait(store.run(lambda database: database.execute("PRAGMA max_page_count = 10")))
        failing = log.append([(b"s", b"", bytes(1 << 20), 0)])
        behind = log.append([(b"s", b"", b"2", 0)])
        self.failsWith(StoreFull, failing)
        self.failsWith(StoreFull, behind)
        assert self.wait(log.append([(b"s", b"", b"3", 0)])) == range(2, 3)


async def _joined(port: int, name: str) -> Any:
    client = await nats.connect(f"nats://127.0.0.1:{port}")
    asked = protocol.ConnectRequest(clientID=name, heartbeatInbox=client.new_inbox())
    await client.request("_STAN.discover.test-cluster", asked.SerializeToString(), timeout=30)
    return client


async def _publish(port: int, *payloads: bytes) -> None:
    client = await _joined(port, "publisher")
    for data in payloads:
        message = protocol.PubMsg(clientID="publisher", guid="g", subject="orders", data=data)
        subject = "_STAN.pub.test-cluster.orders"
        answer = await client.request(subject, message.SerializeToString(), timeout=30)
        assert protocol.PubAck.FromString(answer.data).error == ""
    await client.close()


async def _receive(port: int, count: int) -> list[bytes]:
    client = await _joined(port, "subscriber")
    inbox = client.new_inbox()
    messages = await client.subscribe(inbox)
    asked = protocol.SubscriptionRequest(
        clientID="subscriber",
        subject="orders",
        inbox=inbox,
        maxInFlight=9,
        ackWaitInSecs=30,
        startPosition=protocol.FIRST,
    )
    await client.request("_STAN.sub.test-cluster", asked.SerializeToString(), timeout=30)
    received = [await messages.next_msg(timeout=30) for _ in range(count)]
    await client.close()
    return [protocol.MsgProto.FromString(message.data).data for message in received]


def test_opener(tmp_path: Path) -> None:
    """The plugin opens a store at its path, and refuses other options."""
    opener: Any = SQLiteOpener()
    assert verifyObject(IStoreOpener, opener)
    with pytest.raises(ValueError, match="path"):
        opener.openStore(None, {"path": "x", "size": 1})


def test_channelsSurvive(tmp_path: Path) -> None:
    """The program serves clients of NATS Streaming, and keeps their messages over a restart."""
    path = str(tmp_path / "channels.db")
    with running("sqlitestore.py", "0", path) as (port,):
        asyncio.run(_publish(port, b"1", b"2"))
    with running("sqlitestore.py", "0", path) as (port,):
        assert asyncio.run(_receive(port, 2)) == [b"1", b"2"]
