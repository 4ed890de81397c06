"""
How long one client keeps another one waiting, in processor time of the broker.

The processes are real, so a turn's share of work, which is counted, is compared with what it costs.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST, PATIENCE, Server

#: What the broker may work while a client waits for its PONG, and for its end after SIGTERM, in
#: seconds.
WAIT = 0.02
END = 0.5


def work(server: Server) -> float:
    """The seconds of processor time that a server has used."""
    return int(Path(f"/proc/{server.pid}/schedstat").read_text().split()[0]) / 1e9


class Client:
    """
    A client over a socket.
    """

    def __init__(self, server: Server, hello: bytes = b"") -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        self.socket.recv(1 << 16)
        self.ask(b'CONNECT {"verbose":false,"pedantic":false%b}\r\n' % hello)

    def ask(self, data: bytes) -> None:
        """Send, and wait until it was handled."""
        self.socket.sendall(data + b"PING\r\n")
        got = b""
        while not got.endswith(b"PONG\r\n"):
            more = self.socket.recv(1 << 20)
            assert more, got[-200:]
            got = got[-20:] + more

    def flood(self, data: bytes) -> threading.Thread:
        """Send, and throw away what comes up to the PONG, in a thread."""
        thread = threading.Thread(target=self._flood, args=(data,), daemon=True)
        thread.start()
        return thread

    def _flood(self, data: bytes) -> None:
        try:
            self.ask(data)
        except (OSError, AssertionError):
            # It was cut, or the test is over.
            return


@pytest.fixture
def server(startServer: StartServer) -> Iterator[Server]:
    """A broker."""
    yield startServer(OURS_FAST)


def lines(count: int, form: bytes) -> bytes:
    """So many lines of a form, in which C{#} stands for the number."""
    return b"".join(form.replace(b"#", b"%d" % number) for number in range(count))


NO_ECHO = b',"echo":false'

FLOODS = [
    pytest.param(b"", lines(20000, b"SUB e #\r\n"), b"PUB e 0\r\n\r\n" * 200, id="fan-out"),
    pytest.param(NO_ECHO, lines(50000, b"SUB e #\r\n"), b"PUB e 0\r\n\r\n" * 500, id="echo off"),
    pytest.param(b"", lines(5000, b"SUB e g# #\r\n"), b"PUB e 0\r\n\r\n" * 300, id="groups"),
    pytest.param(b"", b"", b"SUB a..b 1\r\n" * 20000, id="errors"),
    pytest.param(b"", b"", lines(100000, b"SUB e.# #\r\n"), id="subscriptions"),
]


@pytest.mark.parametrize(("hello", "first", "flood"), FLOODS)
def test_others(server: Server, hello: bytes, first: bytes, flood: bytes) -> None:
    """Another client's PING is answered in time, whatever one client sends."""
    noisy, other = Client(server, hello), Client(server)
    with closing(noisy.socket), closing(other.socket):
        noisy.ask(first)
        thread = noisy.flood(flood)
        while thread.is_alive():
            before = work(server)
            other.ask(b"")
            assert work(server) - before < WAIT
            thread.join(0.005)


def test_leaving(server: Server) -> None:
    """A client that leaves with many subscriptions keeps none waiting."""
    noisy, other = Client(server), Client(server)
    with closing(other.socket):
        noisy.ask(lines(100000, b"SUB e.# #\r\n"))
        noisy.socket.close()
        begun = work(server)
        while work(server) - begun < 0.1:
            before = work(server)
            other.ask(b"")
            assert work(server) - before < WAIT


def test_end(server: Server) -> None:
    """A broker in the middle of a flood ends when it has to."""
    noisy = Client(server)
    with closing(noisy.socket):
        noisy.ask(lines(20000, b"SUB e #\r\n"))
        thread = noisy.flood(b"PUB e 0\r\n\r\n" * 1000)
        begun = work(server)
        while work(server) - begun < 0.05:
            assert thread.is_alive()
        before = work(server)
        server.signal("TERM")
        with suppress(ProcessLookupError, FileNotFoundError):
            while True:
                assert work(server) - before < END
        assert server.exitStatus() == 0
