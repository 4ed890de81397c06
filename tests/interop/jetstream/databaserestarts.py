"""
Clients of a JetStream whose database is restarted under load, again and again.

C{python -m tests.interop.jetstream.databaserestarts DIRECTORY RESTARTS} does any number of
restarts.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import nats
from nats.errors import Error as NatsError
from nats.js.api import ConsumerConfig, StreamSource

from tests.interop.servers import OURS_FAST, PATIENCE, Server
from tests.postgresql import PostgresServer

__all__ = ["DatabaseRestarts", "restartDatabase"]

_GONE = (NatsError, ConnectionError, asyncio.TimeoutError, OSError)

_STREAMS: dict[str, dict[str, Any]] = {
    "ORIGIN": {"subjects": ["o.>"]},
    "QUEUE": {"subjects": ["q.>"], "retention": "workqueue"},
    "INTEREST": {"subjects": ["i.>"], "retention": "interest"},
    "SOURCED": {"retention": "workqueue", "sources": [StreamSource("ORIGIN")]},
}

_CONSUMERS = (("QUEUE", "w"), ("INTEREST", "a"), ("INTEREST", "b"), ("SOURCED", "s"))


class DatabaseRestarts:
    """
    The work of clients, and their knowledge.

    @ivar stored: acknowledged publishes: bodies by stream.
    @ivar seen: bodies by consumer, with the sequences at which they came.
    @ivar confirmed: bodies by consumer whose acknowledgement was answered.
    @ivar problems: violations of the rules.
    """

    def __init__(self, postgres: PostgresServer, server: Server) -> None:
        self._postgres = postgres
        self._server = server
        self._isOver = False
        self._numbers = itertools.count()
        self.stored: dict[str, set[bytes]] = {name: set() for name in _STREAMS}
        self.seen: dict[str, dict[bytes, set[int]]] = {name: {} for _, name in _CONSUMERS}
        self.confirmed: dict[str, set[bytes]] = {name: set() for _, name in _CONSUMERS}
        self.problems: list[str] = []

    async def _connect(self) -> Any:
        async def quiet(_: Exception) -> None:
            """Repeat a request that is not answered in time."""

        return await nats.connect(self._server.url, error_cb=quiet)

    async def run(self, restarts: int) -> None:
        """Work while the database is restarted, then fetch everything and check the rest."""
        client = await self._connect()
        context = client.jetstream(timeout=PATIENCE)
        for name, config in _STREAMS.items():
            await context.add_stream(name=name, **config)
        for stream, name in _CONSUMERS:
            consumer = ConsumerConfig(durable_name=name, ack_wait=2, max_ack_pending=5000)
            await context.add_consumer(stream, consumer)
        works = [
            *(self._publish(stream, f"{stream[0].lower()}.x") for stream in list(_STREAMS)[:3]),
            *(self._take(stream, name) for stream, name in _CONSUMERS),
        ]
        running = [asyncio.ensure_future(work) for work in works]
        for _ in range(restarts):
            await self._load()
            await asyncio.to_thread(self._restart)
        await self._load()
        self._isOver = True
        await asyncio.wait_for(asyncio.gather(*running), 2 * PATIENCE)
        await self._drain(context)
        await client.close()

    async def _load(self) -> None:
        """Wait until publishes to all streams are acknowledged again, and then a little longer."""
        before = {name: len(bodies) for name, bodies in self.stored.items() if name != "SOURCED"}
        deadline = time.monotonic() + PATIENCE
        while any(len(self.stored[name]) == count for name, count in before.items()):
            if time.monotonic() > deadline:
                raise AssertionError("nothing is stored after a restart")
            await asyncio.sleep(0.01)
        await asyncio.sleep(random.uniform(0.1, 0.6))

    def _restart(self) -> None:
        self._postgres.stop(signal.SIGQUIT)
        self._postgres.start()

    async def _publish(self, stream: str, subject: str) -> None:
        client = await self._connect()
        context = client.jetstream(timeout=1)
        while not self._isOver:
            bodies = [b"%d" % next(self._numbers) for _ in range(20)]
            sending = (context.publish(subject, payload) for payload in bodies)
            answers = await asyncio.gather(*sending, return_exceptions=True)
            for body, answer in zip(bodies, answers, strict=True):
                if not isinstance(answer, BaseException):
                    self.stored[stream].add(body)
                elif not isinstance(answer, _GONE):
                    raise answer
        await client.close()

    async def _take(self, stream: str, name: str) -> None:
        client = await self._connect()
        context, puller = client.jetstream(timeout=1), None
        while puller is None:
            with contextlib.suppress(*_GONE):
                puller = await context.pull_subscribe("", name, stream)
        while not self._isOver:
            await self._takeSome(puller, name)
        await client.close()

    async def _takeSome(self, puller: Any, name: str) -> bool:
        """
        @return: whether there were messages.
        """
        known = set(self.confirmed[name])
        # What has arrived here was sent before the confirmations were answered: after ack_wait.
        sentBefore = puller.pending_msgs
        try:
            messages = await puller.fetch(100, 0.5)
        except _GONE:
            return False
        for place, message in enumerate(messages):
            if message.data in known and place >= sentBefore:
                self.problems.append(f"{name} has {message.data!r} again, after it was confirmed")
            sequences = self.seen[name].setdefault(message.data, set())
            sequences.add(message.metadata.sequence.stream)
        await asyncio.gather(*(self._confirm(name, message) for message in messages))
        return True

    async def _confirm(self, name: str, message: Any) -> None:
        with contextlib.suppress(*_GONE):
            await message.ack_sync(1)
            self.confirmed[name].add(message.data)

    async def _drain(self, context: Any) -> None:
        for stream, name in _CONSUMERS:
            puller = await context.pull_subscribe("", name, stream)
            deadline = time.monotonic() + 4 * PATIENCE
            while not await self._isDrained(context, puller, stream, name):
                if time.monotonic() > deadline:
                    info = await context.stream_info(stream)
                    waiting = len(self.seen[name]), info.state, info.sources
                    self.problems.append(f"{name} does not come to the end: {waiting}")
                    break
        for stream, name in _CONSUMERS:
            origin = "ORIGIN" if stream == "SOURCED" else stream
            missing = self.stored[origin] - self.seen[name].keys()
            if missing:
                self.problems.append(f"{len(missing)} of {stream} did not come to {name}")
        twice = [body for body, takers in self.seen["s"].items() if len(takers) > 1]
        if twice:
            self.problems.append(f"{len(twice)} were taken from the source twice")
        for stream in dict(_CONSUMERS):
            await self._look(context, stream)

    async def _isDrained(self, context: Any, puller: Any, stream: str, name: str) -> bool:
        await self._takeSome(puller, name)
        info = await context.consumer_info(stream, name)
        if stream == "SOURCED":
            origin = await context.stream_info("ORIGIN")
            if len(self.seen[name]) < origin.state.messages:
                return False
        return not (info.num_pending or info.num_ack_pending)

    async def _look(self, context: Any, stream: str) -> None:
        """
        Check that confirmed messages are removed soon and are not delivered to a later consumer.
        """
        deadline = time.monotonic() + PATIENCE
        while left := (await context.stream_info(stream)).state.messages:
            if time.monotonic() > deadline:
                self.problems.append(f"{left} messages stay in {stream}")
                break
            await asyncio.sleep(0.1)
        for origin, name in _CONSUMERS:
            if origin == stream:
                await context.delete_consumer(stream, name)
        later = await context.pull_subscribe("", "later", stream)
        with contextlib.suppress(*_GONE):
            again = await later.fetch(1000, 0.5)
            self.problems.append(f"{len(again)} messages of {stream} come to a later consumer")


def restartDatabase(directory: Path, restarts: int) -> DatabaseRestarts:
    """
    Restart a database, as after a crash, while a broker has its streams in it.

    @return: the knowledge of the clients.
    """
    postgres = PostgresServer()
    try:
        postgres.start()
        options = f'source: "{postgres.source}", schema: "{postgres.newSchema()}"'
        config = f"jetstream {{ backend: postgresql, backend_options {{ {options} }} }}"
        server = Server(OURS_FAST, directory, config).start()
        try:
            done = DatabaseRestarts(postgres, server)
            asyncio.run(done.run(restarts))
        finally:
            # Without its database, a broker takes long to stop.
            server.signal("KILL")
            server.exitStatus()
    finally:
        postgres.remove()
    return done


if __name__ == "__main__":
    _done = restartDatabase(Path(sys.argv[1]), int(sys.argv[2]))
    print({name: len(bodies) for name, bodies in _done.stored.items()})
    print({name: len(bodies) for name, bodies in _done.confirmed.items()})
    print(Counter(_done.problems) or "nothing stays, nothing comes back")
