"""
Sessions over real sockets in a poller, without a reactor.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from natsbroker import hot
from natsbroker.clients.session import ClientSession
from natsbroker.config.model import Settings
from natsbroker.wire.grants import Security
from tests.support import COMPILED, QUIET, Doorkeeper, Names, World, using

__all__ = ["Client", "Room", "SocketPeer", "body", "publish", "room"]

_MESSAGE = re.compile(rb"(?:MSG (\S+) (\S+) (\d+)|HMSG (\S+) (\S+) \d+ (\d+))\r\n")


class SocketPeer:
    """
    A session's transport over one end of a socket pair in a poller.
    """

    host, port, connectionType, certificate = "127.0.0.1", 1, "STANDARD", None
    tls: Security | None = None
    credentials: Mapping[str, str] = MappingProxyType({})
    forwardedFor = ""
    isSecured = False
    isUnnamed = False

    def __init__(self, world: World, poller: Any, end: socket.socket) -> None:
        self._socket = end
        self.isOpen = True
        self.session = ClientSession(world.context, self)
        self.connection = hot.Connection(
            poller,
            end.fileno(),
            self.session.decoder,
            self.session.outbox,
            self.session.proceed,
            self.session.writeBlocked,
            self._unblocked,
            self._ended,
            self._gone,
            self.session.internalFailure,
        )
        self._closing = False
        self.connection.watch()
        self.session.opened()

    def write(self, data: bytes) -> None:
        """Never called: the outbox has a socket."""
        raise RuntimeError("the outbox is attached")

    def finish(self) -> None:
        """Close the connection after all output was sent."""
        self._closing = True
        self.connection.setReading(False)
        if not self.session.outbox.pending:
            self._lost(True)

    def abort(self) -> None:
        """Close the connection."""
        self._lost(False)

    def pauseReading(self) -> None:
        """Read no input for now."""
        self.connection.setReading(False)

    def resumeReading(self) -> None:
        """Read input again."""
        self.connection.setReading(not self._closing)

    def useLane(self, lane: Any) -> None:
        """Have the poller use the lane."""
        if hasattr(self, "connection"):
            self.connection.lane = lane

    def _unblocked(self) -> None:
        self.session.writeProgressed()
        if self._closing:
            self._lost(True)

    def _ended(self) -> None:
        self.connection.setReading(False)
        self.session.inputEnded()

    def _gone(self) -> None:
        self._lost(False)

    def _lost(self, orderly: bool) -> None:
        if self.isOpen:
            self.isOpen = False
            self.connection.forget()
            self._socket.close()
            self.session.lost()


class Client:
    """
    The client's end of a connection.

    @ivar heard: everything received so far.
    """

    def __init__(self, room: Room, hello: bytes = QUIET, sendBuffer: int = 0) -> None:
        ours, self._socket = socket.socketpair()
        ours.setblocking(False)
        self._socket.setblocking(False)
        if sendBuffer:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sendBuffer)
        self._room = room
        self._unsent = b""
        self.heard = b""
        self.peer = SocketPeer(room.world, room.poller, ours)
        self.say(hello)
        room.run()
        self.listen()
        self.heard = b""

    def say(self, data: bytes) -> None:
        """Send data, as soon as the socket takes it."""
        self._unsent += data
        self.push()

    def push(self) -> bool:
        """Send what the socket takes, and return whether that was everything."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        except OSError:
            self._unsent = b""
        return True

    def listen(self, most: int = 1 << 30) -> int:
        """Receive at most that many bytes, and return how many they were."""
        begin = len(self.heard)
        try:
            while len(self.heard) - begin < most:
                data = self._socket.recv(min(most, 1 << 20))
                if not data:
                    break
                self.heard += data
        except OSError:
            pass
        return len(self.heard) - begin

    def messages(self) -> list[tuple[bytes, bytes]]:
        """The subjects and bodies of everything received, which must be whole messages."""
        places, place = [], 0
        while place < len(self.heard):
            line = _MESSAGE.match(self.heard, place)
            assert line is not None, self.heard[place : place + 60]
            end = line.end() + int(line[3] or line[6])
            assert self.heard[end : end + 2] == b"\r\n"
            places.append((line[1] or line[4], self.heard[line.end() : end]))
            place = end + 2
        return places

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class Room:
    """A broker, and the poller that serves its connections."""

    def __init__(
        self, limits: Settings | None = None, authorizer: Doorkeeper | None = None
    ) -> None:
        self.world = World(limits, authorizer)
        self.poller = hot.Poller(self.world.context.batch)
        self.clients: list[Client] = []

    def client(self, hello: bytes = QUIET, sendBuffer: int = 0) -> Client:
        """Connect one more client."""
        made = Client(self, hello, sendBuffer)
        self.clients.append(made)
        return made

    def run(self) -> None:
        """Let the poller and the broker handle what is ready."""
        self.poller.run()
        self.world.settle()

    def settle(self) -> None:
        """Let the poller run until all output has been sent and received."""
        isQuiet = False
        while not isQuiet:
            self.run()
            isQuiet = all([client.push() for client in self.clients])
            isQuiet = not any([client.listen() for client in self.clients]) and isQuiet
            isQuiet = isQuiet and not any(
                client.peer.session.outbox.pending for client in self.clients
            )

    def close(self) -> None:
        """Close all connections."""
        for client in self.clients:
            client.close()
        for _ in range(100):
            if not any(client.peer.isOpen for client in self.clients):
                break
            self.poller.run()
            self.world.clock.advance(0.2)
        self.poller.close()


@contextmanager
def room(limits: Settings | None = None, authorizer: Doorkeeper | None = None) -> Iterator[Room]:
    """A room that is closed afterwards."""
    names: Names | None = COMPILED
    assert names is not None
    with using(names):
        made = Room(limits, authorizer)
        try:
            yield made
        finally:
            made.close()


def body(publisher: int, number: int, size: int) -> bytes:
    """A body that only this publisher has sent."""
    return (b"%d/%d " % (publisher, number) * (size // 4 + 1))[:size]


def publish(subject: bytes, data: bytes) -> bytes:
    """The frame of a publish."""
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(data), data)
