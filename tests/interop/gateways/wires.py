"""
A gateway on a socket that the test plays, which records the lines of a server.

It sends nothing by itself, except PONG if the test wants that. The server's output is split into
frames.
"""

from __future__ import annotations

import base64
import json
import socket
import time
from types import TracebackType
from typing import Any

from tests.conformance.frames import splitFrames
from tests.interop.servers import PATIENCE

CONNECT = {"verbose": False, "pedantic": False, "tls_required": False, "user": "u", "pass": "p"}


def info(name: str, port: int, **changes: Any) -> bytes:
    """The INFO line of a gateway on a port."""
    document = {
        "server_id": f"ID-{name}",
        "server_name": f"fake-{name}",
        "version": "2.15.1",
        "proto": 1,
        "host": "127.0.0.1",
        "port": port,
        "headers": True,
        "max_payload": 1048576,
        "gateway": name,
        "gateway_urls": [f"127.0.0.1:{port}"],
        "gateway_url": f"127.0.0.1:{port}",
        "gateway_nrp": True,
        **changes,
    }
    return b"INFO %b\r\n" % json.dumps(document).encode()


def connect(name: str, **changes: Any) -> bytes:
    """The CONNECT line of a gateway."""
    options = {**CONNECT, "name": f"ID-{name}", "gateway": name, **changes}
    return b"CONNECT %b\r\n" % json.dumps(options).encode()


class Wire:
    """
    One connection.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._rest = b""
        self.frames: list[bytes] = []
        self.closed = False

    def say(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def hear(self, seconds: float = 0.0) -> None:
        """The next message, if one arrives in time."""
        if self.closed:
            return
        self._socket.settimeout(max(seconds, 0.001))
        try:
            data = self._socket.recv(1 << 20)
        except TimeoutError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.closed = True
            return
        frames, self._rest = splitFrames(self._rest + data)
        for frame in frames:
            self.frames.append(frame)
            if frame == b"PING\r\n":
                self.say(b"PONG\r\n")

    def until(self, done: Any, what: str = "") -> None:
        """Receive frames until a condition holds."""
        deadline = time.monotonic() + PATIENCE
        while not done():
            if self.closed or time.monotonic() > deadline:
                raise TimeoutError(f"{what}: {self.frames[-5:]}, closed: {self.closed}")
            self.hear(0.05)

    def heard(self, start: bytes) -> list[bytes]:
        """The lines since the last call that begin with a prefix."""
        return [frame for frame in self.frames if frame.startswith(start)]

    def pong(self) -> None:
        """Wait until the server has handled the earlier input."""
        count = len(self.heard(b"PONG"))
        self.say(b"PING\r\n")
        self.until(lambda: len(self.heard(b"PONG")) > count, "PONG")

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class FakeGateway:
    """
    A cluster that the test plays.

    @ivar port: its port.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE)
        self.port = int(self._listener.getsockname()[1])
        self._wires: list[Wire] = []

    def __enter__(self) -> FakeGateway:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for wire in self._wires:
            wire.close()
        self._listener.close()

    def accept(self, **changes: Any) -> Wire:
        """
        Wait to be dialled, and send INFO and CONNECT.

        @return: the server's outbound connection, over which it sends messages and we send
            interest.
        """
        wire = self.answer()
        wire.say(info(self.name, self.port, **changes))
        wire.until(lambda: len(wire.heard(b"INFO")) == 1, "INFO")
        return wire

    def answer(self) -> Wire:
        """Wait to be dialled, and send nothing."""
        connection, _ = self._listener.accept()
        wire = Wire(connection)
        self._wires.append(wire)
        return wire

    def dial(self, port: int, **changes: Any) -> Wire:
        """
        @return: the server's inbound connection, over which we send messages and it sends interest.
        """
        wire = self.knock(port)
        wire.say(connect(self.name) + info(self.name, self.port, **changes))
        return wire

    def knock(self, port: int) -> Wire:
        """Dial the server, and send nothing."""
        wire = Wire(socket.create_connection(("127.0.0.1", port), PATIENCE))
        self._wires.append(wire)
        wire.until(lambda: wire.frames, "INFO")
        return wire


def command(name: str, number: int, account: bytes) -> bytes:
    """The INFO before or after all interest of an account."""
    payload = base64.b64encode(account).decode()
    document = {"gateway": name, "gateway_cmd": number, "gateway_cmd_payload": payload}
    return b"INFO %b\r\n" % json.dumps(document).encode()
