"""
Clients on sockets, which send and show every byte of the protocol.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import time

from tests.conformance.frames import splitFrames
from tests.interop.servers import CROSSING, PATIENCE, Server

__all__ = ["Client", "Leafnode"]

#: The options of a leafnode's CONNECT, but for its login.
_LEAF = {"version": "2.15.1", "headers": True, "proto": 1}


def _dialled(port: int) -> socket.socket:
    """A connection with TCP_NODELAY, so that small lines are sent at once."""
    connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Leafnode:
    """A leafnode on a socket, which has logged in, or was refused."""

    def __init__(self, server: Server, user: str = "a", password: str = "", name: str = "edge"):
        match = server.waitForLog(r"Listening for leafnode connections on \S+:(\d+)")
        self._socket = _dialled(int(match[1]))
        self._rest = b""
        login = {"user": user, "pass": password or user, "name": name}
        self._until(b"INFO")
        self.send(b"CONNECT " + json.dumps({**_LEAF, **login}).encode() + b"\r\n")
        self.flush()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def flush(self) -> None:
        """Wait until the server has handled all input, or has closed the connection."""
        try:
            self.send(b"PING\r\n")
            self._until(b"PONG")
        except ConnectionError:
            pass  # it was refused, and its last words were cut off

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _until(self, word: bytes) -> None:
        line = b""
        while not line.startswith(word):
            while b"\r\n" not in self._rest:
                data = self._socket.recv(1 << 16)
                if not data:
                    return
                self._rest += data
            line, _, self._rest = self._rest.partition(b"\r\n")


class Client:
    """
    A client on a socket.

    @ivar got: the messages by sid that were not taken yet.
    @ivar info: the last INFO.
    """

    def __init__(self, member: Server, user: str = "a") -> None:
        self._socket = _dialled(member.port)
        self._rest = b""
        self._pongs = 0
        self._sids = itertools.count(1)
        self.got: dict[bytes, list[tuple[bytes, bytes, bytes]]] = {}
        self.info = b""
        self.send(
            b'CONNECT {"verbose":false,"pedantic":false,"protocol":1,"headers":true,'
            b'"no_responders":true,"user":"%b","pass":"%b"}\r\n' % (user.encode(), user.encode())
        )
        self.flush()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def subscribe(self, subject: bytes, queue: bytes = b"") -> bytes:
        """
        @return: the sid of a new subscription, which the server has handled.
        """
        sid = b"%d" % next(self._sids)
        self.got[sid] = []
        self.send(b"SUB %b %b %b\r\n" % (subject, queue, sid))
        self.flush()
        return sid

    def unsubscribe(self, sid: bytes, maximum: int = 0) -> None:
        """End a subscription, possibly after a number of messages."""
        self.send(b"UNSUB %b %d\r\n" % (sid, maximum) if maximum else b"UNSUB %b\r\n" % sid)
        self.flush()

    def publish(
        self, subject: bytes, body: bytes, reply: bytes = b"", headers: bytes = b""
    ) -> None:
        """Publish."""
        names = b"%b %b" % (subject, reply) if reply else subject
        if headers:
            sizes = b"%d %d" % (len(headers), len(headers) + len(body))
            self.send(b"HPUB %b %b\r\n%b%b\r\n" % (names, sizes, headers, body))
        else:
            self.send(b"PUB %b %d\r\n%b\r\n" % (names, len(body), body))

    def flush(self) -> None:
        """Wait until the server has handled all input."""
        wanted = self._pongs + 1
        self.send(b"PING\r\n")
        self._until(lambda: self._pongs >= wanted)

    def take(self, sid: bytes, count: int, patience: float = PATIENCE) -> list[bytes]:
        """
        @return: the bodies of the next messages of a subscription, as many as requested.
        @raise TimeoutError: with the received bodies, if there are fewer.
        """
        return [body for _, _, body in self.messages(sid, count, patience)]

    def messages(
        self, sid: bytes, count: int, patience: float = PATIENCE
    ) -> list[tuple[bytes, bytes, bytes]]:
        """
        @return: the next messages of a subscription as reply subject, headers and body.
        """
        self.waitFor(sid, count, patience)
        taken, self.got[sid] = self.got[sid][:count], self.got[sid][count:]
        return taken

    def waitFor(self, sid: bytes, count: int, patience: float = PATIENCE) -> None:
        """
        Wait until a subscription has this number of messages that were not taken.

        @raise TimeoutError: if they do not arrive.
        """
        try:
            self._until(lambda: len(self.got[sid]) >= count, patience)
        except TimeoutError as error:
            raise TimeoutError(f"{len(self.got[sid])} of {count}: {self.got[sid][-3:]}") from error

    def clear(self) -> None:
        """Forget all messages that were not taken."""
        for messages in self.got.values():
            messages.clear()

    def arrived(self, sid: bytes) -> list[bytes]:
        """
        @return: the bodies of all messages that have arrived.
        """
        time.sleep(CROSSING)
        self.flush()
        return self.take(sid, len(self.got[sid]))

    @property
    def port(self) -> int:
        """The port of the client's end."""
        return int(self._socket.getsockname()[1])

    def hangUp(self) -> None:
        """Close the connection, also for a thread that waits for an answer."""
        with contextlib.suppress(OSError):  # The server was faster.
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _until(self, done: object, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not done():  # type: ignore[operator]
            self._socket.settimeout(max(deadline - time.monotonic(), 0.01))
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the server has closed the connection")
            frames, self._rest = splitFrames(self._rest + data)
            for frame in frames:
                self._frame(frame)

    def _frame(self, frame: bytes) -> None:
        line, _, rest = frame.partition(b"\r\n")
        words = line.split()
        if words[0] == b"PONG":
            self._pongs += 1
        elif words[0] == b"PING":
            self.send(b"PONG\r\n")
        elif words[0] == b"INFO":
            self.info = line
        elif words[0] in (b"MSG", b"HMSG"):
            sizes = 2 if words[0] == b"HMSG" else 1
            reply = words[3] if len(words) == 4 + sizes else b""
            header = int(words[-2]) if sizes == 2 else 0
            self.got[words[2]].append((reply, rest[:header], rest[header:-2]))
        else:
            raise AssertionError(f"the server says {frame!r}")
