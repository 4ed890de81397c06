"""
Guests that send no CONNECT where C{no_auth_user} is set, and the time for which they may be silent,
compared with nats-server.
"""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import pytest

from tests.interop.auth.peers import Both
from tests.interop.servers import PATIENCE, Server

#: The seconds for a login.
TIMEOUT = 0.4

#: Between the end of that and the PING that finds out who is still there.
MARGIN = 0.6

FIRST = (
    *(b"", b"C", b"c", b"CONNECT {", b"CONNECT {}\r\n", b"P", b"PING\r\n", b"PONG\r\n"),
    *(b"+OK\r\n", b"INFO {}\r\n", b"\r\n", b"-ERR 'x'\r\n", b"S", b"SUB foo", b"I", b"CFOO\r\n"),
    *(b"PUB foo 5\r\nhe", b"CONNECT {}\r\nSUB foo 1\r\n", b"PONG\r\nCONNECT {}\r\n"),
    b'CONNECT {"user":"guest","pass":"x"}\r\n',
)

GUEST = "authorization { timeout: %s, users: [{user: guest, password: x}] }\nno_auth_user: guest\n"
ELSEWHERE = GUEST.replace("password: x", 'password: x, allowed_connection_types: ["WEBSOCKET"]')
NOBODY = GUEST.replace("no_auth_user: guest\n", "")
OPEN = "authorization { timeout: %s }\n"


def answers(server: Server) -> dict[bytes, bytes]:
    """
    @return: the output after the first bytes, and later after a PING.
    """
    peers = {first: socket.create_connection(("127.0.0.1", server.port)) for first in FIRST}
    for first, peer in peers.items():
        peer.sendall(first)
    time.sleep(TIMEOUT + MARGIN)
    rests = {}
    for first, peer in peers.items():
        with peer:
            rests[first] = _rest(peer, b"\r\nPING\r\n" if first[-1:] != b"\n" else b"PING\r\n")
    return rests


def _rest(peer: socket.socket, last: bytes) -> bytes:
    """All output for a client that sends one more line and then nothing."""
    peer.settimeout(PATIENCE)
    said = b""
    try:
        peer.sendall(last)
        peer.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it was closed, and what it said before is there
    try:
        while data := peer.recv(1 << 16):
            said += data
    except ConnectionError:
        pass  # likewise
    return re.sub(rb"INFO .*?\r\n", b"", said)


@pytest.mark.parametrize("config", [GUEST, ELSEWHERE, NOBODY, OPEN])
def test_beginnings(config: str, tmp_path: Path) -> None:
    """Both servers answer unusual first bytes in the same way and at the same time."""
    both = Both(tmp_path, config % TIMEOUT)
    try:
        compared = both.compare(answers)
    finally:
        both.stop()
    if config is not OPEN:
        assert b"Authentication Timeout" in compared[b""]
        assert b"Authentication Timeout" in compared[b"C"]
