"""
The monitoring pages, compared with nats-server's: the same keys in the same order with values of
the same types, and the same refusals. A table lists each difference with its reason.
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.request import urlopen

import pytest

from natsbroker.config.model import Monitoring, Settings
from tests.interop.certificates import writeCertificates
from tests.interop.conftest import StartServer
from tests.interop.pages import Difference, inOrder
from tests.interop.servers import OURS, PATIENCE, REAL, WORKERS, Flavour, Server
from tests.monitoring.staging import Stage

CONFIG = """
server_name: mon
accounts {
  A { users: [ { user: "a@A", password: "pw" } ] }
  $SYS { users: [ { user: "s@$SYS", password: "pw" } ] }
}
"""

#: What nats-server shows and we do not, by where it stands, with the reason.
ABSENT = {
    "/varz git_commit": "of the Go program",
    "/varz disk_io_wait_stats": "of the semaphore in front of Go's disk operations",
}

#: What we show and nats-server does not.
EXTRA = {"/varz natsbroker": "our own version; version is nats-server's"}

#: What a process of ours shows, with the worker of each row if it has several.
EXTRA_OF_PROCESS = {
    *EXTRA,
    *(f"{page}.worker" for page in ("/connz connections", "/subsz subscriptions_list") if WORKERS),
}


PAGES = [
    "/varz",
    "/connz",
    "/connz?subs=1&auth=1",
    "/connz?subs=detail&auth=true",
    "/connz?state=closed",
    "/connz?state=closed&subs=1&auth=1",
    "/connz?state=CLOSED&subs=detail&auth=T&sort=stop",
    "/connz?state=all&sort=uptime",
    "/connz?state=any&limit=1&offset=1",
    "/connz?offset=99",
    "/connz?cid=99",
    "/connz?acc=A",
    "/connz?user=nobody",
    "/subsz",
    "/subsz?acc=A",
    "/subsz?subs=1&test=bar",
    "/subsz?subs=1&test=foo.1",
    "/subsz?subs=1&test=nobody",
    "/subscriptionsz",
    "/accountz",
    "/accountz?acc=A",
    "/accstatz",
    "/accstatz?unused=1",
    "/jsz",
    "/jsz?accounts=1&config=1",
    "/routez",
    "/gatewayz",
    "/leafz",
    "/ipqueuesz",
    "/healthz",
    "/healthz?details=1",
    "/healthz?js-enabled-only=1&js-server-only=0",
    "/healthz?account=A&stream=NOPE",
]

REFUSALS = [
    "/connz?sort=bogus",
    "/connz?sort=stop",
    "/connz?sort=reason&state=all",
    "/connz?state=bogus",
    "/connz?subs=bogus",
    "/connz?auth=yes",
    "/connz?limit=abc",
    "/connz?limit=1.5",
    "/connz?limit=99999999999999999999",
    "/connz?limit=-9223372036854775809",
    "/connz?limit=1_0",
    "/connz?offset=%201",
    "/connz?offset=%22",
    "/connz?cid=notanint",
    "/connz?cid=-1",
    "/connz?cid=18446744073709551616",
    "/connz?auth=x&limit=x&sort=x",
    "/subsz?subs=2",
    "/subsz?test=foo.*",
    "/subsz?test=foo..bar",
    "/subsz?limit=x",
    "/healthz?details=x",
    "/healthz?js-enabled=x",
    "/healthz?stream=S",
    "/healthz?consumer=C",
    "/healthz?stream=S&details=1",
    "/accountz?acc=NOPE",
    "/ipqueuesz?all=x",
    "/raftz",
    "/accstatz?unused=x",
    "/jsz?streams=x",
    "/routez?subs=x",
    "/leafz?subs=x",
    "/gatewayz?accs=x",
    "/nope",
    "/expvarz",
    "/varz/",
    "/VARZ",
]


class Side(Protocol):
    """
    A server with its monitoring port.
    """

    def populate(self) -> None:
        """Connect one client with two subscriptions and a message, and one that disconnects."""

    def get(self, path: str) -> tuple[int, str, bytes]:
        """
        @return: status, content type and body.
        """


HELLO = {"user": "a@A", "pass": "pw", "name": "n", "lang": "py", "version": "1", "verbose": False}
CONNECT = b"CONNECT " + json.dumps(HELLO).encode() + b"\r\n"
STAYING = b"SUB foo.* 1\r\nSUB bar q 2\r\nUNSUB 2 5\r\nPUB foo.1 2\r\nhi\r\nPING\r\n"
LEAVING = b"SUB gone 7\r\nSUB gone q 8\r\nPING\r\n"


class Process:
    """
    A server process.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._sockets: list[socket.socket] = []

    def populate(self) -> None:
        self._dial(STAYING)
        self._dial(LEAVING).close()
        self._server.waitForLog("Client connection closed")

    def _dial(self, lines: bytes) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._server.port), PATIENCE)
        self._sockets.append(connection)
        connection.sendall(CONNECT + lines)
        received = b""
        while b"PONG\r\n" not in received:
            received += connection.recv(65536)
        return connection

    def get(self, path: str) -> tuple[int, str, bytes]:
        asking = http.client.HTTPConnection("127.0.0.1", self._server.monitorPort, timeout=PATIENCE)
        asking.request("GET", path)
        response = asking.getresponse()
        body = response.read()
        asking.close()
        return response.status, response.headers["Content-Type"], body

    def close(self) -> None:
        """Close the clients."""
        for connection in self._sockets:
            connection.close()


class Memory:
    """
    A broker in memory.
    """

    def __init__(self) -> None:
        monitoring = Monitoring(http_port=-1)
        self._stage = Stage(Settings(monitoring=monitoring), required=True)

    def populate(self) -> None:
        self._dial(STAYING)
        self._stage.world.clock.advance(0.5)
        self._dial(LEAVING).transport.hangUp()
        self._stage.world.clock.advance(0.5)

    def _dial(self, lines: bytes) -> Any:
        wire = self._stage.world.dial()
        assert b"PONG\r\n" in wire.ask(CONNECT + lines)
        return wire

    def get(self, path: str) -> tuple[int, str, bytes]:
        response = self._stage.get(path)
        return response.status, response.headers["content-type"], response.body


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """
    nats-server, populated.
    """
    directory = tmp_path_factory.mktemp("monitored")
    server = Server(REAL, directory, CONFIG, ["-m", "-1", "-D"]).start()
    side = Process(server)
    side.populate()
    yield side
    side.close()
    server.stop()


@pytest.fixture(scope="module")
def memory() -> Memory:
    """
    Our pages over a broker in memory, populated.
    """
    side = Memory()
    side.populate()
    return side


def pageOf(path: str) -> str:
    """
    The name of a page in the tables.
    """
    return path.partition("?")[0].replace("/subscriptionsz", "/subsz")


def assertSameShape(
    path: str, real: Side, ours: Side, extra: Collection[str] = EXTRA
) -> Difference:
    """Compare a page. Differences must be in the tables."""
    status, kind, there = real.get(path)
    ourStatus, ourKind, here = ours.get(path)
    assert (ourStatus, ourKind) == (status, kind)
    difference = Difference(pageOf(path), set(), set(), [], [])
    difference.compare(json.loads(there), json.loads(here))
    assert difference.missing - ABSENT.keys() == set()
    assert difference.extra - set(extra) == set()
    assert (difference.types, difference.order) == ([], [])
    return difference


@pytest.mark.parametrize("path", PAGES)
def test_sameKeys(path: str, real: Process, memory: Memory) -> None:
    """A page has nats-server's keys, types and order, except for differences in the tables."""
    assertSameShape(path, real, memory)


def test_tablesAreNeeded(real: Process, memory: Memory) -> None:
    """Every line of the tables belongs to an existing difference."""
    missing: set[str] = set()
    extra: set[str] = set()
    for path in PAGES:
        difference = assertSameShape(path, real, memory)
        missing |= difference.missing
        extra |= difference.extra
    assert missing == ABSENT.keys()
    assert extra == EXTRA.keys()


@pytest.mark.parametrize("path", REFUSALS)
def test_sameRefusals(path: str, real: Process, memory: Memory) -> None:
    """An invalid request is refused with nats-server's status and text."""
    assert memory.get(path) == real.get(path)


#: Members of a list's head.
SAME_IN_LISTS = ["num_connections", "total", "offset", "limit"]

#: Members of /varz that say nothing about the program or the moment.
SAME_IN_VARZ = """
    proto auth_required max_connections ping_interval ping_max http_host http_port http_base_path
    https_port auth_timeout max_control_line max_payload max_pending cluster gateway leaf mqtt
    websocket jetstream tls_timeout write_deadline connections total_connections routes remotes
    leafnodes in_msgs in_bytes in_client_msgs in_client_bytes out_msgs out_bytes out_client_msgs
    out_client_bytes slow_consumers stale_connections slow_consumer_stats stale_connection_stats
    system_account
"""

#: Values that the same clients must lead to on both sides.
SAME: list[tuple[str, Callable[[Any], Any]]] = [
    ("/varz", lambda page: {key: page[key] for key in SAME_IN_VARZ.split()}),
    ("/connz?subs=1&auth=1", lambda page: rowsOf(page["connections"])),
    ("/connz?subs=detail", lambda page: rowsOf(page["connections"])),
    ("/connz?state=closed&auth=1", lambda page: rowsOf(page["connections"])),
    ("/connz?state=closed&subs=1", lambda page: rowsOf(page["connections"])),
    ("/connz?state=all&limit=1&offset=1", lambda page: [page[key] for key in SAME_IN_LISTS]),
    ("/connz?cid=99", lambda page: [page[key] for key in SAME_IN_LISTS]),
    ("/connz?user=nobody", lambda page: [page[key] for key in SAME_IN_LISTS]),
    ("/connz?offset=-5&limit=-5", lambda page: [page[key] for key in SAME_IN_LISTS]),
    ("/subsz?subs=1&test=foo.1", lambda page: rowsOf(page["subscriptions_list"])),
    ("/subsz?subs=1&test=foo.1", lambda page: [page[key] for key in SAME_IN_LISTS[1:]]),
    ("/accountz", lambda page: sorted(set(page["accounts"]) & {"A", "$G", "$SYS"})),
]

#: What differs from run to run.
VARYING = {
    "cid",
    "port",
    "start",
    "stop",
    "last_activity",
    "rtt",
    "uptime",
    "idle",
    "pending_bytes",
}


def rowsOf(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without values that differ between runs."""
    kept = [{key: entry[key] for key in entry if key not in VARYING} for entry in rows]
    for row in kept:
        for key, order in (("subscriptions_list_detail", inOrder), ("subscriptions_list", sorted)):
            if key in row:
                row[key] = order(row[key])
        for subscription in row.get("subscriptions_list_detail", []):
            del subscription["cid"]
    return kept


@pytest.mark.parametrize(("path", "part"), SAME, ids=[path for path, _ in SAME])
def test_sameValues(path: str, part: Callable[[Any], Any], real: Process, memory: Memory) -> None:
    """The same clients produce the same figures."""
    ours = part(json.loads(memory.get(path)[2]))
    assert ours == part(json.loads(real.get(path)[2]))


@pytest.mark.parametrize("flavour", OURS, ids=lambda flavour: flavour.name)
class TestProcess:
    """The monitoring port of a broker that is started like nats-server."""

    def test_urllib(self, flavour: Flavour, startServer: StartServer) -> None:
        """Plain C{urllib} can read /varz and /healthz, as test suites of client libraries do."""
        server = startServer(flavour, arguments=["-m", "-1"])
        varz = server.monitor("/varz")
        assert varz["port"] == server.port
        assert varz["connections"] == 0
        assert tuple(map(int, str(varz["version"]).split(".")[:2])) >= (2, 14)
        assert server.monitor("/healthz") == {"status": "ok"}

    def test_curl(self, flavour: Flavour, startServer: StartServer) -> None:
        """Plain C{curl} can read /varz and /healthz."""
        curl = shutil.which("curl")
        if curl is None:
            pytest.skip("curl is not installed")
        server = startServer(flavour, arguments=["-m", "-1"])
        url = f"http://localhost:{server.monitorPort}/healthz"
        done = subprocess.run(
            [curl, "-sf4", url], capture_output=True, timeout=PATIENCE, check=True
        )
        assert json.loads(done.stdout) == {"status": "ok"}

    def test_address(self, flavour: Flavour, startServer: StartServer) -> None:
        """The monitoring port is on the address of clients."""
        server = startServer(flavour, arguments=["-m", "-1"])
        server.waitForLog(r"Starting http monitor on 127\.0\.0\.1:\d+")
        with urlopen(f"http://127.0.0.1:{server.monitorPort}/", timeout=PATIENCE) as index:
            assert b"/varz" in index.read()

    def test_sameKeys(self, flavour: Flavour, real: Process, startServer: StartServer) -> None:
        """The pages of a process have nats-server's keys, like those of the broker in memory."""
        ours = Process(startServer(flavour, CONFIG, ["-m", "-1", "-D"]))
        ours.populate()
        for path in PAGES:
            assertSameShape(path, real, ours, EXTRA_OF_PROCESS)
        ours.close()


@pytest.mark.parametrize("flavour", [REAL, *OURS], ids=lambda flavour: flavour.name)
def test_certificates(flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
    """
    The expiry of each listener's certificate is shown, and doubled slashes in a path are accepted.
    """
    writeCertificates(tmp_path)
    files = f"cert_file: '{tmp_path}/server.pem', key_file: '{tmp_path}/server-key.pem'"
    tls = f"tls {{ {files}, ca_file: '{tmp_path}/ca.pem' }}"
    config = f"""
        {tls}, cluster {{ name: hub, listen: "127.0.0.1:-1", {tls} }}
        leafnodes {{ listen: "127.0.0.1:-1", {tls} }}
        websocket {{ listen: "127.0.0.1:-1", {tls} }}
    """
    server = startServer(flavour, config, ["-m", "-1"])
    varz: Any = server.monitor("//varz")
    parts = [varz, *(varz[name] for name in ("cluster", "leaf", "websocket"))]
    (end,) = {part["tls_cert_not_after"] for part in parts}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", end)


@pytest.mark.parametrize("flavour", [REAL, *OURS], ids=lambda flavour: flavour.name)
def test_guestsAndNames(flavour: Flavour, startServer: StartServer) -> None:
    """Users are shown although guests need no login, and a cluster without a port has its name."""
    config = """
        accounts { A { users: [ {user: a, password: a} ] } }, no_auth_user: a
        cluster { name: hub }
    """
    varz = startServer(flavour, config, ["-m", "-1"]).monitor("/varz")
    assert (varz["auth_required"], varz["cluster"]) == (True, {"name": "hub"})
