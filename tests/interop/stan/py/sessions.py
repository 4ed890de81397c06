"""
Parts of the scenarios for asyncio-nats-streaming.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import json
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 40.0
CLUSTER = "test-cluster"

#: The scenario that is running.
scenario: contextvars.ContextVar[str] = contextvars.ContextVar("scenario")


class _Queue(asyncio.Queue):  # type: ignore[type-arg]
    """A queue that takes the event loop, as the client passes it to Python before 3.10."""

    def __init__(self, maxsize: int = 0, loop: object = None) -> None:
        super().__init__(maxsize)


def _withoutLoop(call: Any) -> Any:
    def called(*arguments: Any, **named: Any) -> Any:
        named.pop("loop", None)
        return call(*arguments, **named)

    return called


# The client was written for Python before 3.10, where these took the loop.
asyncio.Queue = _Queue  # type: ignore[misc]
for _name in ("wait_for", "wait", "sleep", "open_connection", "gather"):
    setattr(asyncio, _name, _withoutLoop(getattr(asyncio, _name)))

NATS: Any = importlib.import_module("nats.aio.client").Client
STAN: Any = importlib.import_module("stan.aio.client").Client
StanError: Any = importlib.import_module("stan.aio.errors").StanError

#: The number of MsgProto.redeliveryCount, which is younger than the client.
_REDELIVERY_COUNT = 7


def say(**what: Any) -> None:
    """
    Print one line.
    """
    print(json.dumps({"scenario": scenario.get(), **what}), flush=True)


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "this never came true"
        await asyncio.sleep(0.01)


class _Client(STAN):  # type: ignore[misc]
    """A client that can stop answering heartbeats."""

    hangs = False

    async def _process_heartbeats(self, message: Any) -> None:
        if not self.hangs:
            await super()._process_heartbeats(message)


class Session:
    """
    A client and its connection.

    @ivar lost: the reason for which the client reports a lost connection.
    @ivar errors: the errors of the connection.
    """

    def __init__(self, clientID: str) -> None:
        self.clientID = clientID
        self.nats = NATS()
        self.stan: Any = _Client()
        self.lost = ""
        self.errors: list[str] = []

    async def open(self, url: str, pingInterval: int = 5) -> Session:
        """
        Connect.
        """
        loop = asyncio.get_running_loop()
        await self.nats.connect(
            url,
            loop=loop,
            max_reconnect_attempts=1000,
            reconnect_time_wait=0.1,
            error_cb=self._complained,
        )
        try:
            await self.stan.connect(
                CLUSTER,
                self.clientID,
                nats=self.nats,
                loop=loop,
                connect_timeout=PATIENCE,
                ping_interval=pingInterval,
                ping_max_out=1000,
                conn_lost_cb=self._wasLost,
            )
        except StanError:
            await self.nats.close()
            raise
        return self

    async def _wasLost(self, error: Exception) -> None:
        self.lost = str(error)

    async def _complained(self, error: Exception) -> None:
        self.errors.append(str(error).lower())

    def hang(self) -> None:
        """Stop answering heartbeats."""
        self.stan.hangs = True

    async def close(self) -> None:
        """Close the streaming connection, then the NATS connection."""
        await self.stan.close()
        await self.nats.close()

    async def tryToPublish(self, channel: str, data: str) -> str:
        """Publish one message, and return the error."""
        ack = await self.stan.publish(channel, data.encode(), ack_wait=PATIENCE)
        return str(ack.error)

    async def violate(self, channel: str) -> bool:
        """
        Publish on a denied subject.

        @return: whether the client gets an error.
        """
        publishing = asyncio.ensure_future(self.tryToPublish(channel, "x"))
        await until(lambda: self.errors or publishing.done())
        publishing.cancel()
        subject = f"_stan.pub.{CLUSTER}.{channel}"
        return any("permissions violation" in error and subject in error for error in self.errors)

    async def publish(self, channel: str, *data: str) -> None:
        """Publish messages, each after the acknowledgement of the one before."""
        for byte in data:
            error = await self.tryToPublish(channel, byte)
            assert not error, error

    async def subscribe(self, channel: str, **options: Any) -> Listener:
        """
        Subscribe.
        """
        listener = Listener(self)
        listener.sub = await self.stan.subscribe(channel, cb=listener.came, **options)
        return listener

    async def tryToSubscribe(self, channel: str, **options: Any) -> str:
        """Subscribe and close, and return the error."""
        try:
            listener = await self.subscribe(channel, **options)
        except StanError as error:
            return str(error)
        await listener.sub.close()
        return ""

    async def tryToEnd(self, listener: Listener, how: str) -> str:
        """Close or unsubscribe, and return the error."""
        try:
            await getattr(listener.sub, how)()
        except StanError as error:
            return str(error)
        return ""

    def pretend(self, clientID: str) -> None:
        """Send a request in the name of another client."""
        self.stan._client_id = clientID
        self.stan._conn_id = b""

    async def settle(self) -> None:
        """Wait until everything that the broker has sent before has arrived."""
        await self.publish("settling", "x")
        await asyncio.sleep(0.05)


class Listener:
    """
    A subscription.

    @ivar got: the messages that were not taken.
    """

    def __init__(self, session: Session) -> None:
        self.sub: Any = None
        self.got: list[Any] = []
        self._session = session

    async def came(self, message: Any) -> None:
        """Receive a message."""
        self.got.append(message)

    async def messages(self, count: int) -> list[Any]:
        """
        Wait for a number of messages.
        """
        await until(lambda: len(self.got) >= count)
        taken, self.got = self.got[:count], self.got[count:]
        return taken

    async def take(self, count: int) -> list[list[Any]]:
        """Wait for a number of messages: sequence, data, and number of redeliveries."""
        return [described(message) for message in await self.messages(count)]

    async def isQuiet(self) -> bool:
        """Whether no more messages have come."""
        await self._session.settle()
        return not self.got

    async def ack(self, *messages: Any) -> None:
        """Acknowledge messages, and wait until the broker has received that."""
        for message in messages:
            await self._session.stan.ack(message)
        await self._session.nats.flush()


def described(message: Any) -> list[Any]:
    """The sequence, the data, and the number of redeliveries of a message."""
    count = 0
    for field in message.proto.UnknownFields():
        if field.field_number == _REDELIVERY_COUNT:
            count = field.data
    assert message.proto.redelivered == bool(count)
    return [message.seq, message.data.decode(), count]
