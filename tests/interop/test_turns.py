"""
The time for which one client delays another, in CPU time of the broker.

The processes are real, so that a turn's counted share of work is compared with its actual cost.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST, PATIENCE, Server

#: What the broker may work while a client waits for its PONG, and for its end after SIGTERM, in
#: seconds. On a quiet machine a PONG takes less than 0.02, and a pass of the garbage collector over
#: 100,000 subscriptions up to 0.05. Beside other tests, which share the processor's caches, the
#: same work has cost twice that.
WAIT = 0.1
END = 0.5

#: A server has nothing to do if it works less than this for a PING, so often in turn.
CALM = 0.002
TIMES = 30


def work(server: Server) -> float:
    """The CPU seconds that a server has used."""
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
        """
        Send, and wait until the input was handled. A PING may follow the PONG, because the server
        sends one two seconds after the connection began.
        """
        self.socket.sendall(data + b"PING\r\n")
        got = b""
        while b"PONG\r\n" not in got:
            more = self.socket.recv(1 << 20)
            assert more, got[-200:]
            got = got[-20:] + more

    def flood(self, data: bytes) -> threading.Thread:
        """Send, and discard the output up to the PONG, in a thread."""
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
    """A number of lines of a form, in which C{#} stands for the number of each."""
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
def test_otherClientsPing(server: Server, hello: bytes, first: bytes, flood: bytes) -> None:
    """A PING of another client is answered in time, whatever one client sends."""
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
    """A client with many subscriptions that disconnects delays no other client."""
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
    """A broker in the middle of a flood can be stopped in time."""
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


def portOf(server: Server, what: str) -> str:
    """The port of a server for links."""
    match = re.search(rf"Listening for {what}s? connections on \S+:(\d+)", server.log())
    assert match is not None
    return match[1]


def calm(servers: list[Server], least: float) -> None:
    """
    Send PINGs to servers until they have no more work, and check that all are answered in time.

    @param least: the least work of each before that, in seconds.
    """
    clients = [Client(server) for server in servers]
    ends = [work(server) + least for server in servers]
    count, deadline = 0, time.monotonic() + PATIENCE
    while count < TIMES or any(
        work(server) < end for server, end in zip(servers, ends, strict=True)
    ):
        assert time.monotonic() < deadline, [work(server) for server in servers]
        used = []
        for server, client in zip(servers, clients, strict=True):
            before = work(server)
            client.ask(b"")
            used.append(work(server) - before)
        assert max(used) < WAIT
        count = count + 1 if max(used) < CALM else 0
        time.sleep(0.002)
    for client in clients:
        client.socket.close()


ROUTE = ("route", 200_000, b"SUB e.# #\r\n", 'cluster { name: C, listen: "127.0.0.1:-1", $REST }')
LINKS = [
    pytest.param(*ROUTE, "routes: [nats-route://127.0.0.1:$PORT]", id="route"),
    pytest.param(
        "gateway",
        100_000,
        b"SUB e.# g #\r\n",
        'gateway { name: G$NUMBER, listen: "127.0.0.1:-1", $REST }',
        "gateways: [{name: G0, url: nats://127.0.0.1:$PORT}]",
        id="gateway",
    ),
    pytest.param(
        "leafnode",
        100_000,
        b"SUB e.# #\r\n",
        "leafnodes { $REST }",
        "remotes: [{url: nats-leaf://127.0.0.1:$PORT}]",
        id="leafnode",
    ),
]


@pytest.mark.parametrize(("kind", "count", "form", "block", "rest"), LINKS)
def test_links(
    startServer: StartServer, kind: str, count: int, form: bytes, block: str, rest: str
) -> None:
    """A new link with very many subscriptions delays no client, at either end."""
    listening = 'listen: "127.0.0.1:-1"' if kind == "leafnode" else ""
    first = startServer(OURS_FAST, block.replace("$NUMBER", "0").replace("$REST", listening))
    crowd = Client(first)
    with closing(crowd.socket):
        crowd.ask(lines(count, form))
        dialling = rest.replace("$PORT", portOf(first, kind))
        second = startServer(OURS_FAST, block.replace("$NUMBER", "1").replace("$REST", dialling))
        calm([first, second], 0.05)


def test_gatewaySwitch(startServer: StartServer) -> None:
    """Sending all subscriptions to another cluster after many refusals delays no client."""
    block = (
        'gateway { name: G$NUMBER, listen: "127.0.0.1:-1", interest { plugin: switching }, $REST }'
    )
    first = startServer(OURS_FAST, block.replace("$NUMBER", "0").replace("$REST", ""))
    crowd = Client(first)
    with closing(crowd.socket):
        crowd.ask(lines(100_000, b"SUB e.# #\r\n"))
        dialling = f"gateways: [{{name: G0, url: nats://127.0.0.1:{portOf(first, 'gateway')}}}]"
        config = block.replace("$NUMBER", "1").replace("$REST", dialling)
        second = startServer(OURS_FAST, config, ["-D"])
        second.waitForLog("Outbound gateway connection")
        publisher = Client(second)
        with closing(publisher.socket):
            publisher.ask(lines(3000, b"PUB unwanted.# 0\r\n\r\n"))
            calm([first, second], 0.05)
        second.waitForLog("switching account .* to interest-only mode complete")


def test_reload(startServer: StartServer) -> None:
    """A reload, which checks all subscriptions and clients again, delays no client."""
    text = """
authorization {
    users: [
        { user: u, password: p, permissions: { subscribe: { deny: "$DENIED" } } }
        { user: v, password: p }
    ]
}
no_auth_user: v
"""
    server = startServer(OURS_FAST, text.replace("$DENIED", "x"))
    crowd = [Client(server, b',"user":"u","pass":"p"') for _ in range(400)]
    crowd[0].ask(lines(200_000, b"SUB e.# #\r\n"))
    server.writeConfig(text.replace("$DENIED", "y"))
    server.signal("HUP")
    calm([server], 0.1)
    for client in crowd:
        client.socket.close()
