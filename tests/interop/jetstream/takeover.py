"""
Clients of a JetStream that three brokers serve from one database, and whose leader is killed under
load, again and again.

C{python -m tests.interop.jetstream.takeover DIRECTORY KILLS} does any number of kills.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

import nats
from nats.errors import Error as NatsError

from tests.interop.jetstream.shared import LEASE, SharedBrokers, asked
from tests.interop.servers import PATIENCE
from tests.postgresql import PostgresServer

__all__ = ["Takeovers", "killLeaders"]

MOST = 4
"""C{max_deliver} of the consumers."""

_BATCH = 50

_LATE = 100
"""The fetches whose messages are counted, however late they come."""

_SECOND = 1_000_000_000

_GONE = (NatsError, ConnectionError, asyncio.TimeoutError, OSError)


class Takeovers:
    """
    The work of clients, and their knowledge.

    @ivar stored: acknowledged publishes: bodies by sequence.
    @ivar seen: deliveries by consumer, counted by sequence.
    @ivar settled: sequences whose acknowledgement was answered, by consumer, with the number of the
        fetch that delivered them.
    @ivar lives: for the consumer with a limit, the leader at each delivery of a message, and the
        number of the delivery.
    @ivar gaps: seconds from each kill to the next acknowledged publish.
    @ivar pauses: how often a leader was paused instead.
    @ivar problems: violations of the rules.
    """

    def __init__(self, brokers: SharedBrokers) -> None:
        self._brokers = brokers
        self._isOver = False
        self._numbers = itertools.count()
        self._fetches = itertools.count()
        self._inboxes: deque[Any] = deque()
        self._lastStored = 0.0
        self.stored: dict[int, bytes] = {}
        self.seen: dict[str, Counter[int]] = {"often": Counter(), "seldom": Counter()}
        self.settled: dict[str, dict[int, int]] = {"often": {}, "seldom": {}}
        self.lives: dict[int, list[tuple[int, int]]] = {}
        self._leaders = 0
        self.gaps: list[float] = []
        self.pauses = 0
        self.problems: list[str] = []

    async def _connect(self) -> Any:
        async def quiet(_: Exception) -> None:
            """Reconnect after a connection was lost with its broker."""

        return await nats.connect(
            self._brokers.urls,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.05,
            error_cb=quiet,
        )

    async def run(self, kills: int) -> None:
        """
        Work while leaders are killed, then compare.
        """
        client = await self._connect()
        config = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}
        made = await asked(client, "STREAM.CREATE.S", config)
        assert "error" not in made, made
        for name in self.seen:
            consumer = {
                "durable_name": name,
                "ack_policy": "explicit",
                "ack_wait": _SECOND,
                "max_deliver": MOST if name == "seldom" else -1,
                "max_ack_pending": 5000,
            }
            body = {"stream_name": "S", "config": consumer}
            await asked(client, f"CONSUMER.DURABLE.CREATE.S.{name}", body)
        try:
            await self._load(kills, client)
        finally:
            self._isOver = True
        await self._compare(client)
        await client.close()

    async def _load(self, kills: int, client: Any) -> None:
        works = [
            *(asyncio.ensure_future(self._publish()) for _ in range(3)),
            asyncio.ensure_future(self._take("often", 1.0)),
            asyncio.ensure_future(self._take("seldom", 0.5)),
        ]
        for number in range(kills):
            await asyncio.sleep(0.3)
            info = await asked(client, "STREAM.INFO.S")
            assert "cluster" in info, info
            leader = info["cluster"].get("leader")
            if leader not in self._brokers.servers:
                continue
            self._leaders += 1
            if number >= kills * 2 // 3:
                await self._pause(leader)
            else:
                await self._kill(leader)
        self._isOver = True
        await asyncio.wait_for(asyncio.gather(*works), 2 * PATIENCE)

    async def _pause(self, leader: str) -> None:
        """Pause a leader until another one has its lease, and then let it continue."""
        server = self._brokers.servers[leader]
        self.pauses += 1
        server.signal("STOP")
        await asyncio.sleep(2.5 * LEASE)
        server.signal("CONT")

    async def _kill(self, leader: str) -> None:
        began = time.monotonic()
        await asyncio.to_thread(self._brokers.kill, leader)
        killed = time.monotonic()
        while self._lastStored < killed:
            if time.monotonic() > began + PATIENCE:
                raise AssertionError("nothing is stored after a kill")
            await asyncio.sleep(0.01)
        self.gaps.append(self._lastStored - killed)
        await asyncio.to_thread(self._brokers.start, leader)

    async def _publish(self) -> None:
        client = await self._connect()
        context = client.jetstream(timeout=0.5)
        while not self._isOver:
            body = b"%d" % next(self._numbers)
            while not self._isOver:
                with contextlib.suppress(*_GONE):
                    headers = {"Nats-Msg-Id": body.decode()}
                    sent = time.monotonic()
                    answer = await context.publish("s.x", body, headers=headers)
                    if self.stored.setdefault(answer.seq, body) != body:
                        self.problems.append(f"{answer.seq} was given twice")
                    self._lastStored = max(self._lastStored, sent)
                    break
                await asyncio.sleep(0.02)
        await client.close()

    async def _take(self, name: str, share: float) -> None:
        """Fetch messages, and acknowledge a share of them, with an answer."""
        client = await self._connect()
        while not self._isOver:
            await self._fetch(client, name, share)
        await client.close()

    async def _fetch(self, client: Any, name: str, share: float) -> None:
        """
        Fetch messages to a new inbox. Messages to this inbox were sent after the fetch began, and
        therefore after earlier acknowledgements were answered. Late messages are counted.
        """
        fetch, arrived, isFull = next(self._fetches), list[Any](), asyncio.Event()

        async def take(message: Any) -> None:
            if not message.reply:
                isFull.set()  # A status: no more comes.
                return
            sequence = message.metadata.sequence.stream
            # A leader that stood still may wake up with messages that it had not sent yet.
            if self.settled[name].get(sequence, fetch) < fetch and not self.pauses:
                self.problems.append(f"{sequence} came to {name} after its acknowledgement")
            self.seen[name][sequence] += 1
            if name == "seldom":
                life = self._leaders, message.metadata.num_delivered
                self.lives.setdefault(sequence, []).append(life)
            arrived.append(message)
            if len(arrived) == _BATCH:
                isFull.set()

        inbox = client.new_inbox()
        with contextlib.suppress(*_GONE):
            self._inboxes.append(await client.subscribe(inbox, cb=take))
            body = json.dumps({"batch": _BATCH, "expires": _SECOND * 3 // 10}).encode()
            await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", body, inbox)
            await asyncio.wait_for(isFull.wait(), 0.5)
        acks = [
            message for message in arrived if share == 1.0 or message.metadata.sequence.stream % 2
        ]
        await asyncio.gather(*(self._settle(name, fetch, ack) for ack in acks))
        if len(self._inboxes) > _LATE:
            with contextlib.suppress(*_GONE):
                await self._inboxes.popleft().unsubscribe()

    async def _settle(self, name: str, fetch: int, message: Any) -> None:
        with contextlib.suppress(*_GONE):
            await message.ack_sync(0.5)
            self.settled[name].setdefault(message.metadata.sequence.stream, fetch)

    async def _compare(self, client: Any) -> None:
        while True:
            await self._fetch(client, "often", 1.0)
            info = await asked(client, "CONSUMER.INFO.S.often")
            if not info["num_pending"] and not info["num_ack_pending"]:
                break
        reader = await client.jetstream().pull_subscribe("s.>", "reader", "S")
        results: dict[int, bytes] = {}
        state = (await asked(client, "STREAM.INFO.S"))["state"]
        while len(results) < state["messages"]:
            for message in await reader.fetch(500, PATIENCE):
                results[message.metadata.sequence.stream] = message.data
                await message.ack()
        lost = [stored for stored, body in self.stored.items() if results.get(stored) != body]
        if lost:
            self.problems.append(f"{len(lost)} acknowledged publishes are lost: {lost[:5]}")
        twice = [body for body, count in Counter(results.values()).items() if count > 1]
        if twice:
            self.problems.append(f"{len(twice)} messages are stored twice: {twice[:5]}")
        missed = results.keys() - self.seen["often"].keys()
        if missed:
            self.problems.append(f"{len(missed)} messages did not come: {sorted(missed)[:5]}")
        over = {body: lives for body, lives in self.lives.items() if len(lives) > MOST}
        if over:
            self.problems.append(f"delivered too often: {over}")


def killLeaders(postgres: PostgresServer, directory: Path, kills: int) -> Takeovers:
    """
    Kill leaders of a stream.

    @return: the knowledge of the clients.
    """
    brokers = SharedBrokers(postgres, directory)
    try:
        brokers.start("n1", "n2", "n3")
        takeovers = Takeovers(brokers)
        asyncio.run(takeovers.run(kills))
    finally:
        brokers.stop()
    return takeovers


if __name__ == "__main__":
    _server = PostgresServer()
    try:
        _done = killLeaders(_server.start(), Path(sys.argv[1]), int(sys.argv[2]))
    finally:
        _server.remove()
    _gaps = sorted(_done.gaps)
    print(f"{len(_gaps)} kills, {_done.pauses} pauses, {len(_done.stored)} acknowledged publishes")
    print({name: (sum(lives.values()), len(lives)) for name, lives in _done.seen.items()})
    print({name: len(acks) for name, acks in _done.settled.items()})
    print(f"seconds to the next publish: median {_gaps[len(_gaps) // 2]:.2f}, most {_gaps[-1]:.2f}")
    print(_done.problems or "nothing lost, none too often")
