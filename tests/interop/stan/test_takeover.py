"""
Brokers that share a database, as processes. When one is killed or stopped, another takes over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client as Connection
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NoAnswer

from natsbroker.streaming import protocol
from tests.interop.conftest import showLogs
from tests.interop.servers import OURS_FAST, PATIENCE, Server
from tests.interop.stan.programs import PROGRAMS, Line, runScenarios
from tests.postgresql import PostgresServer

CLUSTER = "test-cluster"

CLUSTERED = 'cluster {{ name: c, listen: "127.0.0.1:-1", routes: [{}] }}\n'

READY: Line = {"event": "ready"}


class Brokers:
    """
    Brokers that share a schema.
    """

    def __init__(self, postgres: PostgresServer, directory: Path, node: pytest.Item) -> None:
        self._postgres = postgres
        self._schema = postgres.newSchema()
        self._directory = directory
        self._node = node
        self._started: list[Server] = []

    def start(self, more: str = "") -> Server:
        """
        Start one more broker.

        @param more: more configuration.
        """
        config = more + (
            f'streaming {{ store: sql, sql {{ source: "{self._postgres.source}" }}\n'
            f'store_options {{ schema: "{self._schema}", lease: "2s" }} }}\n'
        )
        directory = self._directory / f"broker-{len(self._started)}"
        directory.mkdir()
        broker = Server(OURS_FAST, directory, config)
        self._started.append(broker)
        showLogs(self._node, broker)
        return broker.start()

    def expire(self) -> None:
        """Let all leases expire."""
        self.execute("UPDATE holder SET expires = clock_timestamp()")

    def execute(self, statement: str) -> None:
        """Run a statement in the schema."""
        self._postgres.execute(self._schema, statement)

    def end(self) -> None:
        """Stop all brokers."""
        for broker in self._started:
            broker.stop()
        self._postgres.execute(self._schema, f'DROP SCHEMA "{self._schema}" CASCADE')


@pytest.fixture
def brokers(
    postgres: PostgresServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    """Brokers, none of which has been started."""
    brokers = Brokers(postgres, tmp_path, request.node)
    yield brokers
    brokers.end()


class Stan:
    """A client that sends little and checks everything."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._id = name.encode()
        self._got: dict[int, bytes] = {}
        self._came = asyncio.Event()
        self._ackInbox = ""

    @classmethod
    async def connect(cls, url: str, name: str) -> Stan:
        """Connect, once a broker answers."""
        self = cls(await nats.connect(url), name)
        heartbeats = f"_INBOX.{name}.heartbeats"

        async def beat(message: Any) -> None:
            await message.respond(b"")

        await self._connection.subscribe(heartbeats, cb=beat)
        request = protocol.ConnectRequest(
            clientID=name, heartbeatInbox=heartbeats, protocol=1, connID=self._id
        )
        while True:
            try:
                answer = await self._ask(f"_STAN.discover.{CLUSTER}", request, 1)
            except (NoAnswer, NoRespondersError):
                await asyncio.sleep(0.05)
            else:
                assert protocol.ConnectResponse.FromString(answer).error == ""
                return self

    async def _ask(self, subject: str, request: Any, timeout: float = PATIENCE) -> bytes:
        data = request.SerializeToString()
        answer = await self._connection.request(subject, data, timeout=timeout)
        return answer.data

    async def publish(self, data: bytes) -> str:
        """Publish, and return the error of the answer."""
        message = protocol.PubMsg(
            clientID=self._name, guid=data.decode(), subject="foo", data=data, connID=self._id
        )
        answer = await self._ask(f"_STAN.pub.{CLUSTER}.foo", message)
        return str(protocol.PubAck.FromString(answer).error)

    async def received(self, count: int) -> list[tuple[int, bytes]]:
        """Subscribe from the first message on, and wait for a number of messages."""
        await self.listen()
        return await self.until(count)

    async def until(self, count: int) -> list[tuple[int, bytes]]:
        """
        Wait until a number of messages have come, not counting redeliveries.
        """
        while len(self._got) < count:
            self._came.clear()
            await asyncio.wait_for(self._came.wait(), PATIENCE)
        return list(self._got.items())

    async def listen(self) -> None:
        """Subscribe from the first message on, and acknowledge all messages."""
        inbox = f"_INBOX.{self._name}.messages"

        async def came(message: Any) -> None:
            delivered = protocol.MsgProto.FromString(message.data)
            self._got.setdefault(delivered.sequence, delivered.data)
            self._came.set()
            ack = protocol.Ack(subject="foo", sequence=delivered.sequence)
            await self._connection.publish(self._ackInbox, ack.SerializeToString())

        await self._connection.subscribe(inbox, cb=came)
        request = protocol.SubscriptionRequest(
            clientID=self._name,
            subject="foo",
            inbox=inbox,
            maxInFlight=1000,
            ackWaitInSecs=60,
            startPosition=protocol.FIRST,
        )
        answer = await self._ask(f"_STAN.sub.{CLUSTER}", request)
        response = protocol.SubscriptionResponse.FromString(answer)
        assert response.error == ""
        self._ackInbox = response.ackInbox

    async def close(self) -> None:
        """Close the connection without a close request."""
        await self._connection.close()


def numbered(start: int, stop: int) -> list[bytes]:
    """Payloads with consecutive numbers."""
    return [b"%d" % number for number in range(start, stop)]


def test_killed(brokers: Brokers) -> None:
    """
    When a broker is killed, the standby takes over with all acknowledged messages, and continues
    with the next sequence.
    """
    first, second = brokers.start(), brokers.start()
    second.waitForLog("Streaming Server is on standby")

    async def play() -> None:
        client = await Stan.connect(first.url, "one")
        for data in numbered(1, 21):
            assert await client.publish(data) == ""
        first.signal("KILL")
        first.exitStatus()
        second.waitForLog("Streaming Server is ready")
        other = await Stan.connect(second.url, "two")
        for data in numbered(21, 31):
            assert await other.publish(data) == ""
        assert await other.received(30) == list(enumerate(numbered(1, 31), 1))
        await client.close()
        await other.close()

    asyncio.run(play())


def test_cluster(brokers: Brokers) -> None:
    """
    A client of any broker of a cluster is served by the serving broker. When that is killed, the
    client continues without reconnecting, and so does its subscription.
    """
    first = brokers.start(CLUSTERED.format(""))
    port = first.waitForLog(r"Listening for route connections on \S+:(\d+)", fromStart=True)[1]
    second = brokers.start(CLUSTERED.format(f'"nats://127.0.0.1:{port}"'))
    second.waitForLog(r"[Rr]oute connection created")

    async def play() -> None:
        client = await Stan.connect(second.url, "one")
        await client.listen()
        for data in numbered(1, 6):
            assert await client.publish(data) == ""
        assert await client.until(5) == list(enumerate(numbered(1, 6), 1))
        first.signal("KILL")
        first.exitStatus()
        second.waitForLog("Streaming Server is ready")
        for data in numbered(6, 11):
            assert await client.publish(data) == ""
        assert await client.until(10) == list(enumerate(numbered(1, 11), 1))
        await client.close()

    asyncio.run(play())


def test_stoppedInOrder(brokers: Brokers) -> None:
    """When a broker is stopped properly, another one takes over too."""
    first, second = brokers.start(), brokers.start()

    async def play() -> None:
        client = await Stan.connect(first.url, "one")
        assert await client.publish(b"1") == ""
        first.stop()
        other = await Stan.connect(second.url, "two")
        assert await other.publish(b"2") == ""
        assert await other.received(2) == [(1, b"1"), (2, b"2")]
        await client.close()
        await other.close()

    asyncio.run(play())


def test_stoodStill(brokers: Brokers) -> None:
    """
    A broker that was paused while another took over stores no requests when it continues. It takes
    over when the other one ends.
    """
    first, second = brokers.start(), brokers.start()

    async def play() -> None:
        client = await Stan.connect(first.url, "one")
        for data in numbered(1, 6):
            assert await client.publish(data) == ""
        first.signal("STOP")
        late = asyncio.ensure_future(client.publish(b"late"))
        other = await Stan.connect(second.url, "two")
        for data in numbered(6, 11):
            assert await other.publish(data) == ""
        first.signal("CONT")
        try:
            assert "another broker serves" in await late
        except (NoAnswer, NoRespondersError):
            pass  # It had noticed before it read that.
        assert await other.publish(b"11") == ""
        assert await other.received(11) == list(enumerate(numbered(1, 12), 1))
        second.signal("KILL")
        second.exitStatus()
        again = await Stan.connect(first.url, "three")
        assert await again.publish(b"12") == ""
        assert await again.received(12) == list(enumerate(numbered(1, 13), 1))
        for peer in (client, other, again):
            await peer.close()

    asyncio.run(play())


def test_flags(postgres: PostgresServer, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A script that starts nats-streaming-server with its SQL store starts natsbroker."""
    postgres.execute("x", "CREATE DATABASE flags")
    source = postgres.source.replace("dbname=postgres", "dbname=flags")
    flags = ["-cid", CLUSTER, "-store", "sql", "-sql_driver", "postgres", "-sql_source", source]
    flags += ["-sql_max_open_conns", "5", "-sql_no_caching=true", "-sql_bulk_insert_limit", "100"]
    server = Server(OURS_FAST, tmp_path, arguments=flags).start()
    showLogs(request.node, server)

    async def play() -> None:
        client = await Stan.connect(server.url, "one")
        assert await client.publish(b"1") == ""
        await client.close()
        server.restart()
        other = await Stan.connect(server.url, "two")
        assert await other.received(1) == [(1, b"1")]
        await other.close()

    try:
        asyncio.run(play())
    finally:
        server.stop()
    postgres.execute("x", "DROP DATABASE flags")


def test_refuses(brokers: Brokers) -> None:
    """A broker whose store has an unknown version does not start, and reports the reason."""
    brokers.start().stop()
    brokers.execute("UPDATE format SET version = 9")
    with pytest.raises(RuntimeError, match="has version 9; this is a broker for 1"):
        brokers.start()


@pytest.mark.parametrize("name", PROGRAMS)
def test_realClients(name: str, brokers: Brokers) -> None:
    """
    When a broker is killed and another takes over during publishes, no acknowledged message is lost
    or doubled.
    """
    broker = brokers.start()

    def restart(line: Line) -> None:
        if line == READY:
            broker.signal("KILL")
            broker.exitStatus()
            brokers.expire()
            broker.restart()

    killed = runScenarios(PROGRAMS[name], broker.url, "killed", onLine=restart)["killed"]
    assert killed == [READY, {"lost": [], "many": True, "ordered": True, "sequences": True}]
