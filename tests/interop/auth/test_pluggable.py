"""
The built-in authorization plugins in broker processes, with nats-py: an htpasswd file, a service
over HTTPS, and checkers of C{twisted.cred}.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import bcrypt
import nats
import pytest
from nats.errors import Error

from tests.interop.certificates import writeCertificates
from tests.interop.conftest import StartServer
from tests.interop.servers import CHECKOUT, OURS_FAST, PATIENCE, Server

ACCOUNTS = """
accounts {
    SHOP { users: [ {user: anna, permissions { publish: "orders.>", subscribe: ">" }} ] }
}
"""


async def _talk(url: str, credentials: dict[str, Any], subject: str) -> str:
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def tell(what: object) -> None:
        if not outcome.done():
            outcome.set_result(str(what) if isinstance(what, Exception) else "heard")

    options: dict[str, Any] = {"allow_reconnect": False, "connect_timeout": PATIENCE}
    try:
        client = await nats.connect(url, error_cb=tell, **options, **credentials)
    except (Error, OSError):
        return "not let in"
    try:
        await client.subscribe(">", cb=tell)
        await client.publish(subject, b"hello")
        return await asyncio.wait_for(outcome, PATIENCE)
    finally:
        await client.close()


def talk(url: str, user: str, password: str, subject: str = "orders.1") -> str:
    """
    Log in, and publish to oneself.

    @return: the received message, or the error.
    """
    return asyncio.run(_talk(url, {"user": user, "password": password}, subject))


class TestHtpasswd:
    """Users in an htpasswd file."""

    def entry(self, name: str, password: str) -> str:
        """A line as C{htpasswd -B} writes it."""
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(5)).decode()
        return f"{name}:{hashed.replace('$2b$', '$2y$')}\n"

    def test_login(self, startServer: StartServer, tmp_path: Path) -> None:
        """
        A user in the file is accepted under its name. A changed file takes effect without a reload,
        also for connected users.
        """
        path = tmp_path / "users"
        path.write_text(self.entry("anna", "apple") + self.entry("carl", "cherry"))
        text = f"authorization {{ plugin: htpasswd, file: '{path}' }}\n{ACCOUNTS}"
        server = startServer(OURS_FAST, text)
        assert talk(server.url, "anna", "apple") == "heard"
        assert "permissions violation" in talk(server.url, "anna", "apple", "other").lower()
        assert talk(server.url, "carl", "cherry", "other") == "heard"
        assert talk(server.url, "anna", "cherry") == "not let in"
        assert talk(server.url, "dora", "") == "not let in"
        asyncio.run(self._cut(server, path))
        assert talk(server.url, "carl", "cherry") == "not let in"
        assert talk(server.url, "dora", "date") == "heard"

    async def _cut(self, server: Server, path: Path) -> None:
        gone = asyncio.Event()

        async def closed() -> None:
            gone.set()

        client = await nats.connect(
            server.url, user="carl", password="cherry", allow_reconnect=False, closed_cb=closed
        )
        path.write_text(self.entry("anna", "apple") + self.entry("dora", "date"))
        await asyncio.wait_for(gone.wait(), PATIENCE)
        assert client.is_closed

    def test_missing(self, startServer: StartServer, tmp_path: Path) -> None:
        """The broker does not start without the file, and reports the reason."""
        text = f"authorization {{ plugin: htpasswd, file: '{tmp_path}/missing' }}"
        with pytest.raises(RuntimeError, match=r"cannot read .*missing: No such file"):
            startServer(OURS_FAST, text)


class Service(ThreadingHTTPServer):
    """
    Decides about logins.

    @ivar asked: the requests so far.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RequestResponder)
        self.asked: list[Any] = []
        self.held = threading.Event()


class RequestResponder(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Service

    def do_POST(self) -> None:
        """Accept Anna, let Hans wait for ever, answer nonsense for Sally, and deny others."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.headers["Authorization"], asked))
        connect = asked["connect"]
        if connect.get("user") == "hans":
            self.server.held.wait(PATIENCE)
        answer: Any = {"user": "sally", "permissions": "all"}
        if (connect.get("user"), connect.get("pass")) == ("anna", "apple"):
            publish = {"allow": ["orders.>", "_INBOX.>"]}
            answer = {"user": "anna", "account": "SHOP", "permissions": {"publish": publish}}
        isKnown = answer["user"] == connect.get("user")
        body = json.dumps(answer).encode() if isKnown else b""
        self.send_response(200 if isKnown else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


class TestHTTPS:
    """Logins that a service over HTTPS decides."""

    @pytest.fixture
    def service(self, tmp_path: Path) -> Iterator[Service]:
        """The service, with a certificate of the tests' authority."""
        writeCertificates(tmp_path)
        service = Service()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server-key.pem")
        service.socket = context.wrap_socket(service.socket, server_side=True)
        thread = threading.Thread(target=service.serve_forever, daemon=True)
        thread.start()
        yield service
        service.held.set()
        service.shutdown()
        service.server_close()
        thread.join(PATIENCE)

    def text(self, service: Service, host: str, more: str) -> str:
        """A configuration with this service."""
        url = f"https://{host}:{service.server_address[1]}/ask"
        return (
            f"authorization {{ plugin: http, url: '{url}', {more}, "
            f"headers {{ Authorization: 'Bearer x' }} }}\n{ACCOUNTS}"
        )

    def test_login(self, service: Service, startServer: StartServer, tmp_path: Path) -> None:
        """
        The grants of the service apply. Denied users and invalid grants are refused, and an answer
        is remembered.
        """
        more = f"ca_file: '{tmp_path}/ca.pem', cache: '1m'"
        server = startServer(OURS_FAST, self.text(service, "localhost", more))
        assert talk(server.url, "anna", "apple") == "heard"
        assert "permissions violation" in talk(server.url, "anna", "apple", "other").lower()
        assert len(service.asked) == 1
        header, asked = service.asked[0]
        assert header == "Bearer x"
        assert (asked["host"], asked["connect"]["lang"]) == ("127.0.0.1", "python3")
        assert talk(server.url, "anna", "banana") == "not let in"
        assert talk(server.url, "sally", "x") == "not let in"
        server.waitForLog("The authorization service failed, logins are denied")

    def test_serviceHangs(self, service: Service, startServer: StartServer, tmp_path: Path) -> None:
        """Other clients are served while the service does not answer about one."""
        more = f"ca_file: '{tmp_path}/ca.pem'"
        server = startServer(OURS_FAST, self.text(service, "localhost", more))
        waiting = threading.Thread(target=talk, args=(server.url, "hans", "x"))
        waiting.start()
        while not service.asked:
            time.sleep(0.01)
        assert talk(server.url, "anna", "apple") == "heard"
        waiting.join(PATIENCE)
        server.waitForLog("The authorization service failed, logins are denied")

    @pytest.mark.parametrize(
        ("host", "hasAuthority"), [("localhost", False), ("localhost.localdomain", True)]
    )
    def test_verified(
        self,
        service: Service,
        startServer: StartServer,
        tmp_path: Path,
        host: str,
        hasAuthority: bool,
    ) -> None:
        """Nothing is sent to a service whose certificate is not trusted or has another name."""
        more = f"ca_file: '{tmp_path}/ca.pem'" if hasAuthority else "cache: 0"
        server = startServer(OURS_FAST, self.text(service, host, more))
        assert talk(server.url, "anna", "apple") == "not let in"
        assert service.asked == []
        server.waitForLog("The authorization service failed, logins are denied")


class TestTwistd:
    """The command C{twistd natsbroker --auth}."""

    def test_login(self, tmp_path: Path) -> None:
        """A user in the file of a checker is accepted."""
        users = tmp_path / "users"
        users.write_text("anna:apple\ncarl:cherry\n")
        (tmp_path / "x.conf").write_text(ACCOUNTS)
        command = [sys.executable, "-m", "twisted", "natsbroker", "--auth", f"file:{users}"]
        command += ["--client", "tcp:0:interface=127.0.0.1", "--ports_file_dir", str(tmp_path)]
        command += ["-c", str(tmp_path / "x.conf")]
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(command, cwd=CHECKOUT, stdout=log, stderr=log)
            try:
                url = self._url(tmp_path)
                assert talk(url, "anna", "apple") == "heard"
                assert "permissions violation" in talk(url, "anna", "apple", "other").lower()
                assert talk(url, "carl", "cherry", "other") == "heard"
                assert talk(url, "carl", "apple") == "not let in"
                assert asyncio.run(_talk(url, {"token": "apple"}, "x")) == "not let in"
                assert asyncio.run(_talk(url, {}, "x")) == "not let in"
            finally:
                process.terminate()
                process.wait(PATIENCE)

    def test_cannotStart(self, tmp_path: Path) -> None:
        """A broker that fails to start under twistd ends the process, and reports the reason."""
        path = tmp_path / "x.conf"
        path.write_text(f"authorization {{ plugin: htpasswd, file: '{tmp_path}/missing' }}")
        command = [sys.executable, "-m", "twisted", "natsbroker", "-c", str(path)]
        command += ["--client", "tcp:0:interface=127.0.0.1"]
        done = subprocess.run(
            command, cwd=CHECKOUT, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert "cannot read" in done.stdout + done.stderr

    def _url(self, directory: Path) -> str:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for path in directory.glob("*.ports"):
                return str(json.loads(path.read_text())["nats"][0])
            time.sleep(0.05)
        raise AssertionError((directory / "log").read_text())
