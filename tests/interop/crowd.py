"""
Many clients at once, in a process of their own: C{python -m tests.interop.crowd PORT CLIENTS}.

Every client connects, subscribes to a subject of its own and gets an answer to its PING. When all
are connected, another client publishes a message to each. The output is JSON with the number of
clients that were served at each stage. With C{--storm} the clients do not wait for one another:
each disconnects when it was served. With C{--websocket PORT} they connect over WebSocket.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import sys
import time
from dataclasses import dataclass

#: How many connections may be on their way at a time: less than any listen backlog.
AT_ONCE = 100

#: After this many seconds without any progress the rest is given up.
PATIENCE = 30.0

HELLO = b'CONNECT {"verbose":false}\r\nSUB crowd.%d 1\r\nPING\r\n'
GREETING = b"PUB crowd.%d 5\r\nhello\r\n"
MESSAGE = b"MSG crowd.%d 1 5\r\nhello\r\n"

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
UPGRADED = b"\r\n\r\n"

#: The header of a short frame with a payload of this length, whose mask changes nothing.
FRAME = b"\x82%c\0\0\0\0"


@dataclass
class Client:
    """
    One client.

    @ivar waitsFor: the end of the output that it still has to receive.
    """

    number: int
    socket: socket.socket
    waitsFor: bytes
    received: bytes = b""


class Crowd:
    """
    Clients on one selector.

    @ivar failed: the numbers of failures, by kind.
    """

    def __init__(self, port: int, webSocketPort: int = 0) -> None:
        """
        @param webSocketPort: the port for clients over WebSocket, if there is one.
        """
        self._address = ("127.0.0.1", port)
        self._isWebSocket = bool(webSocketPort)
        self._clientAddress = ("127.0.0.1", webSocketPort or port)
        self._selector = selectors.DefaultSelector()
        self._waiting = 0
        self.clients: list[Client] = []
        self.failed: dict[str, int] = {}

    def connect(self, count: int, stay: bool) -> int:
        """
        @param stay: whether clients stay connected after their answer.
        @return: the number of clients that were answered.
        """
        started = served = 0
        while started < count or self._waiting:
            while started < count and self._waiting < AT_ONCE:
                self._start(started)
                started += 1
            done = self._turn()
            if done is None:
                break
            served += len(done)
            if not stay:
                for client in done:
                    client.socket.close()
        return served

    def receive(self) -> int:
        """
        Publish one message to all connected clients.

        @return: the number of clients that received theirs.
        """
        for client in self.clients:
            client.received, client.waitsFor = b"", MESSAGE % client.number
            self._selector.register(client.socket, selectors.EVENT_READ, client)
        self._waiting = len(self.clients)
        with socket.create_connection(self._address, PATIENCE) as publisher:
            publisher.sendall(b'CONNECT {"verbose":false}\r\n')
            publisher.sendall(b"".join(GREETING % client.number for client in self.clients))
            served = 0
            while self._waiting and (done := self._turn()) is not None:
                served += len(done)
        return served

    def close(self) -> None:
        """Disconnect all clients."""
        for client in self.clients:
            client.socket.close()

    def _start(self, number: int) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(self._clientAddress)
        client = Client(number, connection, UPGRADED if self._isWebSocket else b"PONG\r\n")
        self._selector.register(connection, selectors.EVENT_WRITE, client)
        self._waiting += 1

    def _turn(self) -> list[Client] | None:
        """
        @return: the clients that have received what they waited for; C{None} if none makes
            progress.
        """
        events = self._selector.select(PATIENCE)
        if not events:
            self._fail("silence", self._waiting)
            return None
        return [key.data for key, mask in events if self._serve(key.data, mask)]

    def _serve(self, client: Client, mask: int) -> bool:
        try:
            if mask & selectors.EVENT_WRITE:
                if error := client.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(error, "connect")
                client.socket.send(UPGRADE if self._isWebSocket else HELLO % client.number)
                self._selector.modify(client.socket, selectors.EVENT_READ, client)
                return False
            if not (data := client.socket.recv(4096)):
                raise ConnectionResetError("closed by the server")
        except OSError as error:
            self._leave(client)
            self._fail(str(error), 1)
            client.socket.close()
            return False
        client.received += data
        if client.waitsFor not in client.received:
            return False
        if client.waitsFor == UPGRADED:
            hello = HELLO % client.number
            client.socket.send(FRAME % (0x80 | len(hello)) + hello)
            client.received, client.waitsFor = b"", b"PONG\r\n"
            return False
        self._leave(client)
        if client.waitsFor == b"PONG\r\n":
            self.clients.append(client)
        return True

    def _leave(self, client: Client) -> None:
        self._selector.unregister(client.socket)
        self._waiting -= 1

    def _fail(self, kind: str, count: int) -> None:
        self.failed[kind] = self.failed.get(kind, 0) + count


def main(arguments: list[str]) -> None:
    """
    The command line.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("clients", type=int)
    parser.add_argument("--storm", action="store_true")
    parser.add_argument("--websocket", type=int, default=0, metavar="PORT")
    options = parser.parse_args(arguments)
    crowd = Crowd(options.port, options.websocket)
    began = time.monotonic()
    result: dict[str, object] = {"answered": crowd.connect(options.clients, not options.storm)}
    result["seconds"] = round(time.monotonic() - began, 2)
    if not options.storm:
        result["received"] = crowd.receive()
        crowd.close()
    result["failed"] = crowd.failed
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
