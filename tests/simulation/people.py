"""
Clients of the simulated brokers, and the records of each: its subscriptions, publishes and
messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.protocol import ClientFactory, Protocol

from natsbroker.testing.simulation.network import Host

__all__ = ["Person", "Publication", "WantedPattern"]

_HELLO = b'CONNECT {"verbose":false,"headers":true,"no_responders":false,"name":"%d"}\r\n'

_TOKEN = re.compile(rb"<(\d+):(\d+)>")


@dataclass
class Publication:
    """
    A published message.

    @ivar person: who published it.
    @ivar number: which of the person's it is.
    @ivar when: at what time.
    """

    person: int
    number: int
    subject: bytes
    when: float

    @property
    def key(self) -> tuple[int, int]:
        """The publisher and number of the message."""
        return self.person, self.number


@dataclass
class WantedPattern:
    """
    A subscription of a client.

    @ivar maximum: after how many messages it ends; 0 for never.
    @ivar limited: when that was said.
    @ivar ended: when the person gave it up, or was cut off; C{None} while it is in force.
    @ivar got: the messages, in the order of their coming.
    """

    person: int
    sid: int
    pattern: bytes
    queue: bytes
    began: float
    maximum: int = 0
    limited: float = 0.0
    ended: float | None = None
    got: list[tuple[int, int]] = field(default_factory=list)


class Person(Protocol):
    """
    A client.

    @ivar number: its name; never used twice.
    @ivar broker: which broker it is a client of.
    @ivar host: the machine that it is at.
    @ivar wishes: its subscriptions, by their sids.
    @ivar left: when its connection ended; C{None} while it is there.
    @ivar errors: what the broker complained of.
    """

    def __init__(self, number: int, broker: int, host: Host) -> None:
        self.number = number
        self.broker = broker
        self.wishes: dict[int, WantedPattern] = {}
        self.published: list[Publication] = []
        self.errors: list[bytes] = []
        self.isConnected = False
        self.left: float | None = None
        self.host = host
        self._buffer = b""

    def dial(self, address: str, port: int) -> None:
        """Connect."""
        factory = ClientFactory()
        factory.noisy = False
        factory.buildProtocol = lambda _: self  # type: ignore[method-assign,assignment]
        factory.clientConnectionFailed = self._failed  # type: ignore[method-assign]
        self.host.connectTCP(address, port, factory)

    def _failed(self, connector: Any, reason: Any) -> None:
        self.left = self.host.seconds()

    def connectionMade(self) -> None:
        """Send CONNECT."""
        self.isConnected = True
        self._write(self.hello())

    def hello(self) -> bytes:
        """Its CONNECT."""
        return _HELLO % self.number

    def connectionLost(self, reason: Any = None) -> None:
        """Note the end of all subscriptions."""
        self.isConnected = False
        self.left = self.host.seconds()
        for wish in self.wishes.values():
            wish.ended = wish.ended or self.left

    @property
    def isHere(self) -> bool:
        """Whether the client is connected."""
        return self.isConnected and self.left is None

    def _write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    # What it does.

    def subscribe(self, pattern: bytes, queue: bytes = b"") -> None:
        """Subscribe to a pattern."""
        sid = len(self.wishes) + 1
        self.wishes[sid] = WantedPattern(self.number, sid, pattern, queue, self.host.seconds())
        group = queue + b" " if queue else b""
        self._write(b"SUB %b %b%d\r\n" % (pattern, group, sid))

    def unsubscribe(self, wish: WantedPattern, maximum: int = 0) -> None:
        """Unsubscribe, at once or after a number of messages."""
        if maximum:
            wish.maximum = maximum
            wish.limited = self.host.seconds()
            self._write(b"UNSUB %d %d\r\n" % (wish.sid, maximum))
        else:
            wish.ended = self.host.seconds()
            self._write(b"UNSUB %d\r\n" % wish.sid)

    def publish(self, subject: bytes, size: int, headers: bool = False) -> None:
        """Publish a message whose payload has the number of the client and its own."""
        told = Publication(self.number, len(self.published), subject, self.host.seconds())
        self.published.append(told)
        body = b"<%d:%d>" % told.key + b"." * size
        if headers:
            head = b"NATS/1.0\r\nA: b\r\n\r\n"
            total = len(head) + len(body)
            self._write(b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, len(head), total, head, body))
        else:
            self._write(b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body))

    def leave(self) -> None:
        """Disconnect."""
        assert self.transport is not None
        self.transport.loseConnection()

    # What comes.

    def dataReceived(self, data: bytes) -> None:
        """Read lines and messages."""
        self._buffer += data
        while True:
            line, separator, rest = self._buffer.partition(b"\r\n")
            if not separator:
                return
            words = line.split(b" ")
            if words[0] in (b"MSG", b"HMSG"):
                size = int(words[-1])
                if len(rest) < size + 2:
                    return
                if rest[size : size + 2] != b"\r\n":
                    raise AssertionError(f"a message of another size than {line!r} says")
                self._got(words, rest[:size])
                rest = rest[size + 2 :]
            elif words[0] == b"PING":
                self._write(b"PONG\r\n")
            elif words[0] == b"-ERR":
                self.errors.append(line)
            elif words[0] == b"INFO":
                self.greeted(line)
            elif words[0] != b"PONG":
                raise AssertionError(f"the broker said {line!r}")
            self._buffer = rest

    def greeted(self, line: bytes) -> None:
        """Note the broker's INFO. It says nothing that matters here."""

    def _got(self, words: list[bytes], body: bytes) -> None:
        token = _TOKEN.search(body)
        if token is None:
            raise AssertionError(f"a message that nobody published: {body[:100]!r}")
        person, number = int(token[1]), int(token[2])
        self.wishes[int(words[2])].got.append((person, number))
