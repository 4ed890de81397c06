"""
A broker in memory that is attacked: turn by turn, with the CPU time of each turn.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.base import DelayedCall
from twisted.internet.testing import StringTransport

from natsbroker.streaming import protocol
from natsbroker.testing.memory import MemoryBroker, MemoryConnection

CONFIG = """
http: "127.0.0.1:8222"
jetstream { backend: memory }
streaming { cluster_id: c, store: memory }
"""

MESSAGES = 3000
"""The messages of the stream that is attacked, each of a subject of its own."""

CHUNK = 65536
"""The bytes that a broker reads at once."""

_CONNECT = {"verbose": False, "headers": True, "no_responders": True}


class Attacked:
    """
    A broker with a stream that is attacked, a second stream, a consumer and a channel.

    @ivar longest: the CPU seconds of the longest turn.
    @ivar victim: a client that does only what the test asks.
    """

    def __init__(self) -> None:
        self._memory = MemoryBroker(configText=CONFIG)
        self.reactor = self._memory.reactor
        # What is measured is what a broker measures: the clock stands still.
        broker: Any = self._memory.broker
        broker.turns.worked = broker.clientContext.batch.worked = time.thread_time
        jetstream = broker.getServiceNamed("jetstream")
        for account in jetstream.accounts.values():
            account.turns.worked = time.thread_time
        self.longest = 0.0
        self.victim = self.client()
        self.victim.send(b"SUB _R.> 1\r\n")
        config = {"subjects": ["s.>"], "allow_direct": True, "allow_msg_schedules": True}
        for name, more in (("S", config), ("T", {"subjects": ["t"]})):
            asked = {"name": name, "storage": "memory", **more}
            self.ask(f"$JS.API.STREAM.CREATE.{name}", asked)
        self.victim.send(b"".join(b"PUB s.%d.x 1\r\nx\r\n" % number for number in range(MESSAGES)))
        consumer = {"durable_name": "C", "ack_policy": "explicit"}
        self.ask("$JS.API.CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": consumer})
        self.ask("$JS.API.STREAM.INFO.S")
        self.joinChannel()
        self.attackers: list[MemoryConnection] = []

    def client(self) -> MemoryConnection:
        return self._memory.connect(_CONNECT)

    def ask(self, subject: str, body: Any = b"") -> bytes:
        """The answer to a request of the victim, which must come at once."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.victim.send(b"PUB %b _R.a %d\r\n%b\r\n" % (subject.encode(), len(payload), payload))
        return self.victim.receive()

    def joinChannel(self) -> None:
        """Connect a client of NATS Streaming, and publish messages to a channel."""
        self.victim.send(b"SUB hb 2\r\n")
        request = protocol.ConnectRequest(clientID="v", heartbeatInbox="hb", connID=b"v")
        self.ask("_STAN.discover.c", request.SerializeToString())
        for number in range(300):
            message = protocol.PubMsg(clientID="v", guid=f"{number}", subject="ch", data=b"x")
            payload = message.SerializeToString()
            self.victim.send(b"PUB _STAN.pub.c.ch %d\r\n%b\r\n" % (len(payload), payload))
        self.victim.receive()

    # Time.

    def turn(self, *calls: Callable[[], object]) -> float:
        """
        Let one turn of the reactor happen.

        @param calls: calls made in this turn, as those for sockets are.
        @return: the CPU seconds that the turn took.
        """
        reactor = self.reactor
        begun = time.thread_time()
        for call in calls:
            call()
        due = [delayed for delayed in reactor.calls if delayed.getTime() <= reactor.seconds()]
        for delayed in sorted(due, key=DelayedCall.getTime):
            if delayed.active():
                reactor.calls.remove(delayed)
                delayed.called = 1
                delayed.func(*delayed.args, **delayed.kw)
        took = time.thread_time() - begun
        self.longest = max(self.longest, took)
        return took

    def until(self, isDone: Callable[[], object], *calls: Callable[[], object]) -> float:
        """
        @return: the CPU seconds until a condition holds that a call brings about.
        """
        took = self.turn(*calls)
        for _ in range(20_000):
            if isDone():
                return took
            took += self.turn()
        raise AssertionError("this never happens")

    def answer(self, client: MemoryConnection, request: bytes) -> bytes:
        """The answer, of any length, to a request of a client that reads its input."""
        received = bytearray()

        def isDone() -> bool:
            received.extend(client.transport.take())
            head, isWhole, body = received.partition(b"\r\n")
            return bool(isWhole) and len(body) >= int(head.split()[-1]) + 2

        *pieces, last = [request[place : place + CHUNK] for place in range(0, len(request), CHUNK)]
        for piece in pieces:
            self.turn(lambda piece=piece: client.send(piece))  # type: ignore[misc]
        self.until(isDone, lambda: client.send(last))
        return bytes(received)

    def attack(self, data: bytes, inbox: bytes = b"", turns: int = 30) -> None:
        """
        Send data as a client that does not read its input.

        @param inbox: the subject that the client subscribes to.
        @param turns: the most turns that pass while there is work.
        """
        attacker = self.client()
        if inbox:
            attacker.send(b"SUB %b 1\r\n" % inbox)
        attacker.taking = False
        self.attackers.append(attacker)
        gc.collect()
        gc.disable()
        for place in range(0, len(data), CHUNK):
            piece = data[place : place + CHUNK]
            self.turn(lambda piece=piece: attacker.send(piece))  # type: ignore[misc]
        for _ in range(turns):
            self.turn()

    # What others see.

    def pinged(self) -> float:
        """The CPU seconds until the victim receives its PONG."""
        self.victim.transport.take()
        return self._answered(b"PING\r\n", b"PONG")

    def published(self, subject: str) -> float:
        """The CPU seconds until a message of the victim is acknowledged."""
        return self._answered(b"PUB %b _R.p 1\r\nx\r\n" % subject.encode(), b'"seq":')

    def _answered(self, request: bytes, answer: bytes) -> float:
        received = bytearray()

        def isDone() -> bool:
            received.extend(self.victim.transport.take())
            return answer in received

        return self.until(isDone, lambda: self.victim.send(request))

    def loggedIn(self) -> float:
        """The CPU seconds until a new client is logged in."""
        joined = self._memory.connect()
        line = b"CONNECT %b\r\nPING\r\n" % json.dumps(_CONNECT).encode()
        return self.until(lambda: b"PONG" in joined.transport.take(), lambda: joined.send(line))

    def healthy(self) -> float:
        """The CPU seconds until C{/healthz} is answered."""
        return self.fetched("/healthz", b'{"status":"ok"}')

    def fetched(self, path: str, part: bytes) -> float:
        """
        The CPU seconds until a page has come.

        @param part: of its text.
        """
        factory = self.reactor.tcpServers[-1][1]
        page: Any = factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 50000))
        transport = StringTransport()
        page.makeConnection(transport)
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
        took = self.until(
            lambda: transport.disconnecting,
            lambda: page.dataReceived(request),
        )
        assert part in transport.value()
        page.connectionLost(None)
        return took

    def stopped(self) -> float:
        """The CPU seconds until the broker has stopped."""
        begun = time.thread_time()
        gc.enable()
        self._memory.stop()
        return time.thread_time() - begun


def requests(subject: str, body: bytes, reply: bytes, count: int = 100) -> bytes:
    """Several requests in a row; C{#} in the subject stands for the number of each request."""
    return b"".join(
        b"PUB %b %b %d\r\n%b\r\n"
        % (subject.replace("#", str(number)).encode(), reply, len(body), body)
        for number in range(count)
    )


def encoded(*bodies: Any) -> Sequence[bytes]:
    return [body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies]
