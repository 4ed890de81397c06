"""
Clients on sockets that log in with JWTs, with the server's answers and its last error.

An answer is the server's output up to the PONG or the end, within a limited time.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tests.auth.operator.chain import KeyPair, raw
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Server, requireRealServer

__all__ = ["Both", "Peer"]

Answer = TypeVar("Answer")

_ERROR = re.compile(rb"-ERR '([^\r]*)'\r\n")


class Both:
    """
    nats-server and ours with the same configuration.

    @ivar servers: nats-server and ours.
    """

    def __init__(self, directory: Path, config: str) -> None:
        """
        @param directory: a folder for files; C{$DIR} in the configuration is a folder of each
            server in it.
        """
        requireRealServer()
        self.servers: list[Server] = []
        for flavour in (REAL, OURS_FAST):
            folder = directory / flavour.name
            folder.mkdir()
            self.servers.append(Server(flavour, folder, config).start())

    def compare(self, play: Callable[[Server], Answer]) -> Answer:
        """
        Do the same at both servers.

        @return: the result, which must be the same at both.
        """
        theirs, ours = (play(server) for server in self.servers)
        assert ours == theirs
        return ours

    def stop(self) -> None:
        """Stop both servers."""
        for server in self.servers:
            server.stop()


class Peer:
    """
    A client that sends what the test gives it.

    @ivar info: the fields of its INFO.
    """

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        self._unread = b""
        self.info: dict[str, Any] = json.loads(self._until(b"\r\n")[len(b"INFO ") :])

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def settle(self, patience: float) -> None:
        """Set the longest wait for data, in seconds."""
        self._socket.settimeout(patience)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def login(
        self, jwt: str = "", user: KeyPair | None = None, options: Mapping[str, Any] | None = None
    ) -> str:
        """
        Log in.

        @param user: the signer of the nonce; C{None} for no signature.
        @param options: further options of CONNECT.
        @return: C{""} if the login is accepted, or else the error.
        """
        hello: dict[str, Any] = {"verbose": False, "pedantic": False, "protocol": 1}
        if jwt:
            hello["jwt"] = jwt
        if user is not None:
            hello["sig"] = raw(user.sign(self.info["nonce"].encode()))
        return self.ask(b"CONNECT %b\r\n" % json.dumps({**hello, **(options or {})}).encode())

    def ask(self, data: bytes) -> str:
        """
        Send bytes and a PING.

        @return: the first error up to the PONG or the end; C{""} if there is none.
        """
        self.send(data + b"PING\r\n")
        said = self._until(b"PONG\r\n")
        errors = _ERROR.findall(said)
        if errors:
            return str(errors[0].decode())
        return "" if said.endswith(b"PONG\r\n") else "closed"

    def send(self, data: bytes) -> None:
        """Send bytes. A connection that the server has closed is detected by reading."""
        try:
            self._socket.sendall(data)
        except ConnectionError:
            pass  # what it said before can be read

    def end(self) -> str:
        """
        Wait until the server closes the connection.

        @return: the last error before that.
        """
        while self._read():
            pass
        errors = _ERROR.findall(self._unread)
        return errors[-1].decode() if errors else ""

    def message(self) -> tuple[str, bytes]:
        """
        Wait for a message, and ignore other output before it.

        @return: its subject and body.
        """
        while True:
            words = self._until(b"\r\n").split()
            if not words:
                raise EOFError("no message came")
            if words[0] == b"MSG":
                return words[1].decode(), self._exactly(int(words[-1]))

    def request(self, subject: str, body: bytes | str = b"") -> bytes:
        """Send a request, and wait for the first answer."""
        data = body.encode() if isinstance(body, str) else body
        inbox = b"_INBOX.%d" % self.info["client_id"]
        self.send(b"SUB %b 999\r\nUNSUB 999 1\r\n" % inbox)
        self.send(b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), inbox, len(data), data))
        return self.message()[1]

    def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size + 2 and self._read():
            pass
        body, self._unread = self._unread[:size], self._unread[size + 2 :]
        return body

    def _until(self, mark: bytes) -> bytes:
        """
        All output up to and including a mark, or all available output if the mark does not come in
        time.
        """
        while mark not in self._unread and self._read():
            pass
        before, marked, self._unread = self._unread.partition(mark)
        return before + marked

    def _read(self) -> bool:
        try:
            data = self._socket.recv(65536)
        except ConnectionError:
            data = b""
        self._unread += data
        return bool(data)
