"""
The servers behind the live page in its tests: a member of a cluster with a gateway and a leafnode,
JetStream, NATS Streaming, and clients that publish all the time.
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client as NATS
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, StreamConfig

from natsbroker.streaming.protocol import (
    ConnectRequest,
    ConnectResponse,
    PubMsg,
    SubscriptionRequest,
    SubscriptionResponse,
)
from tests.interop.linked import LinkedServer, filled
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour

#: A name that runs as a program where a page takes text for HTML.
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
HOSTILE_SUBJECT = "shop.<img/src='x'/onerror=document.title='owned'"

#: The password of the clients, which no page shows.
SECRET = "topsecretword"

SHOP = f"SHOP {{ jetstream: enabled, users: [ {{user: shop, password: {SECRET}}} ] }}"
METERS = f"METERS {{ users: [ {{user: meters, password: {SECRET}}} ] }}"

HUB = f"""
server_name: east-1
http: "127.0.0.1:-1"
http_base_path: "/nats"
max_payload: 65536, max_pending: 262144
system_account: SYS
accounts {{
    SYS {{ users: [ {{user: admin, password: {SECRET}}} ] }}
    {SHOP}
    {METERS}
}}
authorization {{ users: [ {{user: stan, password: {SECRET}}} ] }}
jetstream {{ store_dir: "$DIR/jetstream" }}
streaming {{ id: test-cluster }}
cluster {{
    name: east, listen: "127.0.0.1:-1", pool_size: 1
    authorization {{ user: r, password: {SECRET} }}
}}
gateway {{
    name: east, listen: "127.0.0.1:-1"
    authorization {{ user: g, password: {SECRET} }}
}}
leafnodes {{ listen: "127.0.0.1:-1" }}
"""

MEMBER = f"""
server_name: east-2
system_account: SYS
accounts {{
    SYS {{ users: [ {{user: admin, password: {SECRET}}} ] }}
    {SHOP.replace("jetstream: enabled, ", "")}
    {METERS}
}}
cluster {{
    name: east, listen: "127.0.0.1:-1", pool_size: 1
    authorization {{ user: r, password: {SECRET} }}
    routes: [ "nats-route://r:{SECRET}@127.0.0.1:$ROUTE" ]
}}
gateway {{
    name: east, listen: "127.0.0.1:-1"
    authorization {{ user: g, password: {SECRET} }}
}}
"""

WEST = f"""
server_name: west-1
system_account: SYS
accounts {{
    SYS {{ users: [ {{user: admin, password: {SECRET}}} ] }}
    {SHOP.replace("jetstream: enabled, ", "")}
    {METERS}
}}
gateway {{
    name: west, listen: "127.0.0.1:-1"
    authorization {{ user: g, password: {SECRET} }}
    gateways: [ {{name: east, url: "nats://g:{SECRET}@127.0.0.1:$GATEWAY"}} ]
}}
"""

EDGE = f"""
server_name: edge-1
leafnodes {{
    remotes: [ {{url: "nats://meters:{SECRET}@127.0.0.1:$LEAF"}} ]
}}
"""

#: More clients: the subject and the queue group of each.
WORKERS = {
    "pricing-1": ("shop.prices", "pricing"),
    "pricing-2": ("shop.prices", "pricing"),
    "stock": ("shop.orders.placed", ""),
    "dashboard": ("shop.>", ""),
    "audit": ("shop.orders.paid", "audit"),
}

#: Messages per second of the publisher, on the average.
PACE = 160


class LiveServer(LinkedServer):
    """
    A server with links.

    @ivar ports: the ports for links, by kind.
    """

    def __init__(
        self, flavour: Flavour, directory: Path, name: str, text: str, **values: int
    ) -> None:
        home = directory / name
        home.mkdir()
        super().__init__(flavour, home, name)
        self._config = filled(text, **values)
        self.ports: dict[str, int] = {}

    def start(self) -> LiveServer:
        super().start()
        ports = re.findall(r"Listening for (\w+) connections on \S+:(\d+)", self.log())
        self.ports = {kind: int(port) for kind, port in ports}
        return self


class LiveWorld:
    """
    All servers and clients.

    @ivar hub: the broker whose page is tested.
    @ivar channels: the client of NATS Streaming.
    """

    def __init__(self, directory: Path) -> None:
        self.hub = LiveServer(OURS_FAST, directory, "east-1", HUB)
        self._directory = directory
        self._servers = [self.hub]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: list[asyncio.Task[None]] = []
        self._clients: list[NATS] = []

    def start(self) -> LiveWorld:
        self.hub.start()
        ports = self.hub.ports
        member = LiveServer(OURS_FAST, self._directory, "east-2", MEMBER, ROUTE=ports["route"])
        west = LiveServer(REAL, self._directory, "west-1", WEST, GATEWAY=ports["gateways"])
        edge = LiveServer(REAL, self._directory, "edge-1", EDGE, LEAF=ports["leafnode"])
        for server in (member, west, edge):
            self._servers.append(server)
            server.start()
        self._thread.start()
        self.run(self._populate(member, west))
        return self

    def stop(self) -> None:
        if self._thread.is_alive():
            self.run(self._leave())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
        for server in reversed(self._servers):
            server.stop()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine with clients, and wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def connect(self, server: LiveServer, user: str, name: str) -> NATS:
        """
        @return: a client, which is closed when the world stops.
        """
        client = await nats.connect(server.url, user=user, password=SECRET, name=name)
        self._clients.append(client)
        return client

    async def _populate(self, member: LiveServer, west: LiveServer) -> None:
        hub = self.hub
        till = await self.connect(hub, "shop", "till-7")
        kitchen = await self.connect(hub, "shop", "kitchen display")
        hostile = await self.connect(hub, "shop", HOSTILE)
        meters = await self.connect(hub, "meters", "meter gateway")
        elsewhere = await self.connect(member, "shop", "report")
        abroad = await self.connect(west, "shop", "headquarters")
        for client, subject in (
            (kitchen, "shop.orders.*"),
            (elsewhere, "shop.orders.>"),
            (abroad, "shop.orders.paid"),
            (hostile, HOSTILE_SUBJECT),
            (meters, "meters.*.reading"),
        ):
            await client.subscribe(subject, cb=_ignore)
        for _ in range(3):
            await kitchen.subscribe("shop.prices", queue="pricing", cb=_ignore)
        await self._streams(till, kitchen)
        channels = await self.connect(hub, "stan", "channel client")
        publish = await _channels(channels)
        for name, (subject, queue) in WORKERS.items():
            worker = await self.connect(hub, "shop", name)
            await worker.subscribe(subject, queue, cb=_ignore)
        for client in self._clients:
            await client.flush()
        self._tasks = [
            self._loop.create_task(task) for task in (_sell(till, meters), _append(publish))
        ]

    async def _streams(self, till: NATS, kitchen: NATS) -> None:
        js = till.jetstream()
        await js.add_stream(
            StreamConfig(
                "ORDERS", "What was sold", ["shop.orders.*"], max_msgs=50_000, max_age=3600
            )
        )
        await js.add_stream(
            StreamConfig("PRICES", HOSTILE, ["shop.prices"], max_msgs_per_subject=5)
        )
        for name in ("billing", "archive"):
            config = ConsumerConfig(durable_name=name, ack_wait=30, max_ack_pending=100_000)
            await js.add_consumer("ORDERS", config)
        pull = await kitchen.jetstream().pull_subscribe("shop.orders.*", "billing", "ORDERS")
        self._tasks.append(self._loop.create_task(_bill(pull)))

    async def _leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()

    def becomeSlow(self) -> None:
        """Let a client subscribe and read nothing, until it is disconnected as a slow consumer."""
        with socket.create_connection(("127.0.0.1", self.hub.port), PATIENCE) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            login = f'CONNECT {{"user":"shop","pass":"{SECRET}","name":"sleepy","verbose":false}}'
            slow.sendall(login.encode() + b"\r\nSUB flood 1\r\nPING\r\n")
            self.run(self._flood())

    async def _flood(self) -> None:
        before = self.hub.logLength()
        client = await self.connect(self.hub, "shop", "flooder")
        for _ in range(200):
            await client.publish("flood", b"x" * 60_000)
            await client.flush()
        await client.close()
        self.hub.waitForLog("Slow Consumer", before)


async def _ignore(message: Msg) -> None:
    """Ignore a message."""


async def _sell(till: NATS, meters: NATS) -> None:
    """Publish all the time, at a rate that rises and falls."""
    number = 0
    while True:
        pace = PACE * (1 + 0.5 * math.sin(number / 400) + 0.2 * math.sin(number / 37))
        kind = ("placed", "paid", "cooked")[number % 3]
        await till.publish(f"shop.orders.{kind}", b"x" * (80 + number % 200))
        if number % 4 == 0:
            await till.publish("shop.prices", b"1.50")
            await meters.publish(f"meters.{number % 9}.reading", b"230")
        number += 1
        await asyncio.sleep(1 / pace)


async def _bill(pull: Any) -> None:
    """Acknowledge messages of a stream more slowly than they arrive."""
    while True:
        for message in await pull.fetch(20, timeout=PATIENCE):
            await message.ack()
        await asyncio.sleep(0.25)


async def _channels(client: NATS) -> Any:
    """
    Connect to NATS Streaming, and subscribe to a channel without acknowledging.

    @return: a function that publishes to a channel.
    """

    async def ask(subject: str, request: Any, response: Any) -> Any:
        answer = await client.request(subject, request.SerializeToString(), timeout=PATIENCE)
        response.ParseFromString(answer.data)
        assert not response.error, response.error
        return response

    async def beat(message: Msg) -> None:
        await message.respond(b"")

    await client.subscribe("heartbeats", cb=beat)
    await client.subscribe("invoices", cb=_ignore)
    request = ConnectRequest(clientID="invoicing", heartbeatInbox="heartbeats")
    answer = await ask("_STAN.discover.test-cluster", request, ConnectResponse())
    subscription = SubscriptionRequest(
        clientID="invoicing",
        subject="invoices",
        inbox="invoices",
        maxInFlight=25,
        ackWaitInSecs=600,
        durableName="ledger",
        startPosition=4,
    )
    await ask(answer.subRequests, subscription, SubscriptionResponse())

    async def publish(channel: str, data: bytes) -> None:
        message = PubMsg(clientID="invoicing", guid="1", subject=channel, data=data)
        await client.publish(f"{answer.pubPrefix}.{channel}", message.SerializeToString())

    return publish


async def _append(publish: Any) -> None:
    """Publish to channels all the time."""
    while True:
        await publish("invoices", b"x" * 300)
        await publish("receipts", b"x" * 100)
        await asyncio.sleep(0.1)
