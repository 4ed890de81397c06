"""
Clients that break off during a handshake, and clients that do not read.

The long form of the first: C{NATSBROKER_HANDSHAKES=10000 pytest
tests/interop/tls/test_pressure.py}.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from pathlib import Path

from tests.interop.servers import PATIENCE, REAL, Flavour, Server
from tests.interop.tls.conftest import BLOCK, Serve
from tests.interop.tls.hellos import ANY, hello
from tests.interop.tls.wire import CONNECT, Wire, shakeHands

HANDSHAKES = int(os.environ.get("NATSBROKER_HANDSHAKES", "400"))

#: How much more memory a server may hold than before, in KiB, when all is over.
GROWTH = 24 << 10


def descriptors(server: Server) -> int:
    """
    @return: the number of open files and sockets of a server.
    """
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def memory(server: Server, field: str = "VmRSS") -> int:
    """
    @return: the resident memory of a server, in KiB.
    """
    text = Path(f"/proc/{server.pid}/status").read_text()
    match = re.search(rf"{field}:\s+(\d+) kB", text)
    assert match is not None
    return int(match[1])


def settled(server: Server, count: int) -> bool:
    """
    Wait until a server has closed all connections.

    @param count: the number of its descriptors before.
    """
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if server.monitor("/varz")["connections"] == 0 and descriptors(server) <= count:
            return True
        time.sleep(0.05)
    return False


def breakOff(server: Server, begin: bytes, number: int) -> None:
    """Connect, do a part of the handshake, and disconnect by a close or by a reset."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        if number % 4:
            connection.sendall(begin[: number * 37 % len(begin) + 1])
        if number % 3 == 0:
            connection.recv(4096)
        if number % 2:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def test_brokenOff(serve: Serve, flavour: Flavour) -> None:
    """Handshakes that break off anywhere leave no socket and no memory behind."""
    server = serve(BLOCK % "timeout: 5")
    begin = hello(ANY)[2]
    for number in range(100):
        breakOff(server, begin, number)
    assert settled(server, 1 << 16)
    count, before = descriptors(server), memory(server)
    for number in range(HANDSHAKES):
        breakOff(server, begin, number)
    assert settled(server, count + 2)
    assert flavour is REAL or memory(server) - before < GROWTH
    with shakeHands(server.port, ANY) as wire:
        assert wire.ask(CONNECT % b"") == b"PONG\r\n"


def test_slow(serve: Serve, flavour: Flavour) -> None:
    """
    A subscriber that does not read its TLS connection is disconnected as a slow consumer. Its
    waiting bytes are limited, encrypted or not, and no other client waits.
    """
    server = serve(BLOCK % "" + "max_pending: 1MB\nwrite_deadline: 2s\n")
    body = b"x" * 65536
    chunk = b"PUB flood %d\r\n%b\r\n" % (len(body), body) * 16
    with shakeHands(server.port, ANY) as slow, shakeHands(server.port, ANY) as quick:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        assert slow.ask(CONNECT % b"" + b"SUB flood 1\r\n") == b"PONG\r\n"
        assert quick.ask(CONNECT % b"") == b"PONG\r\n"
        before = memory(server)
        since = server.logLength()
        for _ in range(48):
            assert quick.ask(chunk) == b"PONG\r\n"
        server.waitForLog("Slow Consumer Detected", since)
        # How soon nats-server gives memory back is up to Go.
        assert flavour is REAL or memory(server, "VmHWM") - before < (64 << 10)
        assert quick.ask() == b"PONG\r\n"
        with shakeHands(server.port, ANY) as other:
            assert other.ask(CONNECT % b"" + b"SUB flood 2\r\nPUB flood 2\r\nhi\r\n").startswith(
                b"MSG flood 2 2\r\nhi\r\n"
            )


def test_stopsInTime(serve: Serve) -> None:
    """An unfinished handshake delays no other client, and ends at its timeout."""
    server = serve(BLOCK % "timeout: 0.6")
    begin = hello(ANY)[2]
    count = descriptors(server)
    wires = [Wire(server.port) for _ in range(20)]
    for wire in wires:
        wire.send(begin[:100])
    assert settled(server, count + 1)
    for wire in wires:
        wire.socket.close()
