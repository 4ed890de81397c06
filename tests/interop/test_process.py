"""
natsbroker as a process, compared with nats-server. Programs that start a server rely on this
behaviour.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.servers import ALL, CHECKOUT, OURS, OURS_FAST, PATIENCE, REAL, Flavour, Server

eachFlavour = pytest.mark.parametrize("flavour", ALL, ids=lambda flavour: flavour.name)
eachOfOurs = pytest.mark.parametrize("flavour", OURS, ids=lambda flavour: flavour.name)
realAndOurs = pytest.mark.parametrize(
    "flavour", (REAL, OURS_FAST), ids=lambda flavour: flavour.name
)

CONNECT = b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n'


def command(flavour: Flavour, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command line that ends by itself."""
    return subprocess.run(
        [*flavour.command(), *arguments],
        cwd=CHECKOUT,
        env={**os.environ, **flavour.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


class Client:
    """
    A client over a socket.
    """

    def __init__(self, server: Server, hello: bytes = CONNECT) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        self._file = self._socket.makefile("rb")
        self.info = json.loads(self.line()[5:])
        self._socket.sendall(hello)

    def line(self) -> bytes:
        """The next line; empty at the end."""
        return self._file.readline()

    def until(self, start: bytes) -> bytes:
        """The next line with this beginning; empty if there is none."""
        for line in self._file:
            if line.startswith(start):
                return line
        return b""

    def close(self) -> None:
        """Leave."""
        self._file.close()
        self._socket.close()


class TestCommands:
    """Command lines that end by themselves."""

    @realAndOurs
    def test_version(self, flavour: Flavour) -> None:
        """The first line of the version has the corresponding nats-server release."""
        done = command(flavour, "--version")
        assert done.returncode == 0
        assert re.match(r"nats-server: v2\.\d+\.\d+\n", done.stdout)

    @realAndOurs
    def test_valid(self, flavour: Flavour, tmp_path: Path) -> None:
        """The flag -t reports a valid file."""
        path = tmp_path / "x.conf"
        path.write_text("port: -1")
        done = command(flavour, "-t", "-c", str(path))
        assert done.returncode == 0
        assert done.stderr.startswith(f"nats-server: configuration file {path} is valid (sha256:")

    @realAndOurs
    def test_invalid(self, flavour: Flavour, tmp_path: Path) -> None:
        """A mistake in the file is reported with its position."""
        path = tmp_path / "x.conf"
        path.write_text("port: -1\nbogus: 1")
        done = command(flavour, "-t", "-c", str(path))
        assert done.returncode == 1
        assert re.match(rf'nats-server: {path}:2:[01]: unknown field "bogus"\n', done.stderr)

    @realAndOurs
    @pytest.mark.parametrize("arguments", [["-p", "PORT"], ["-p", "-1", "-m", "PORT"]])
    def test_portInUse(self, flavour: Flavour, arguments: Sequence[str]) -> None:
        """A port in use ends the start with an error that names it."""
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            port = str(taken.getsockname()[1])
            given = [port if argument == "PORT" else argument for argument in arguments]
            done = command(flavour, "-a", "127.0.0.1", *given)
        assert done.returncode == 1
        [line] = [line for line in done.stderr.splitlines() if "[FTL]" in line]
        assert f"127.0.0.1:{port}" in line
        assert "bind: address already in use" in line

    @realAndOurs
    def test_pidFile(self, flavour: Flavour, tmp_path: Path) -> None:
        """A pid file that cannot be written ends the start."""
        path = tmp_path / "missing" / "pid"
        done = command(flavour, "-a", "127.0.0.1", "-p", "-1", "-P", str(path))
        assert done.returncode == 1
        text = f"[FTL] Could not write pidfile: open {path}: no such file or directory\n"
        assert text in done.stderr

    @realAndOurs
    def test_logFile(self, flavour: Flavour, tmp_path: Path) -> None:
        """A log file that cannot be written ends the start."""
        path = tmp_path / "missing" / "log"
        done = command(flavour, "-a", "127.0.0.1", "-p", "-1", "-l", str(path))
        assert done.returncode == 1
        assert f"error opening file: open {path}: no such file or directory\n" in done.stderr

    def test_notThereYet(self) -> None:
        """A flag of an unsupported feature is refused, never ignored."""
        done = command(OURS_FAST, "-a", "127.0.0.1", "-p", "-1", "--streaming", "--ft_group", "x")
        assert done.returncode == 1
        assert "not supported yet" in done.stderr


class TestFiles:
    """Files of a running server."""

    @eachOfOurs
    def test_portsFile(self, flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
        """
        The ports file is named after program and process, has the addresses of the listeners, and
        is removed at the end.
        """
        server = startServer(flavour, arguments=["-m", "-1", "--ports_file_dir", str(tmp_path)])
        path = tmp_path / f"natsbroker_{server.pid}.ports"
        assert json.loads(path.read_text()) == {
            "nats": [f"nats://127.0.0.1:{server.port}"],
            "monitoring": [f"http://127.0.0.1:{server.monitorPort}"],
        }
        assert server.stop() == 0
        assert not path.exists()

    @realAndOurs
    def test_pidFile(self, flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
        """The pid file has the id of the process, which can be stopped with it."""
        path = tmp_path / "pid"
        server = startServer(flavour, arguments=["-P", str(path)])
        assert path.read_text() == str(server.pid)
        assert command(flavour, "--signal", f"quit={path}").returncode == 0
        assert server.exitStatus() == 0


class TestAddresses:
    """The addresses of a server."""

    @realAndOurs
    @pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
    def test_anywhere(self, flavour: Flavour, startServer: StartServer) -> None:
        """
        A listener on 0.0.0.0 includes IPv6's loopback address, for clients and for the pages, whose
        port C{-m} opens on the address of C{-a}. A client over IPv4 still has an IPv4 address.
        """
        server = startServer(flavour, arguments=["-a", "0.0.0.0", "-m", "-1"])
        assert "Listening for client connections on 0.0.0.0:" in server.log()
        assert "Starting http monitor on 0.0.0.0:" in server.log()
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, server.port), PATIENCE) as client:
                info = json.loads(client.makefile("rb").readline()[5:])
                assert (info["client_ip"], info["host"]) == (host, "0.0.0.0")
            with socket.create_connection((host, server.monitorPort), PATIENCE) as page:
                page.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                assert b" 200 OK" in page.makefile("rb").readline()


class TestSignals:
    """Signals to a running server."""

    @eachFlavour
    @pytest.mark.parametrize(("name", "word"), [("TERM", "terminated"), ("INT", "interrupt")])
    def test_stop(self, flavour: Flavour, startServer: StartServer, name: str, word: str) -> None:
        """TERM and INT disconnect the clients without an error, and the exit code is 0."""
        server = startServer(flavour)
        client = Client(server)
        assert client.line() == b"PONG\r\n"
        server.signal(name)
        assert server.exitStatus() == 0
        assert client.until(b"-ERR") == b""
        client.close()
        server.waitForLog(rf'\[INF\] Trapped "{word}" signal\n')
        server.waitForLog(r"\[INF\] Initiating Shutdown\.\.\.\n")
        server.waitForLog(r"\[INF\] Server Exiting\.\.\n")

    @eachFlavour
    def test_reload(self, flavour: Flavour, startServer: StartServer) -> None:
        """HUP applies changed settings, and clients stay connected."""
        server = startServer(flavour, "max_payload: 1000")
        client = Client(server)
        assert client.info["max_payload"] == 1000
        server.writeConfig("max_payload: 500\ndebug: true")
        server.signal("HUP")
        server.waitForLog(r"\[INF\] Reloaded server configuration \(sha256:")
        server.waitForLog(r"\[INF\] Reloaded: debug = true\n")
        server.waitForLog(r"\[INF\] Reloaded: max_payload = 500\n")
        other = Client(server)
        assert other.info["max_payload"] == 500
        assert client.line() == b"PONG\r\n"
        client.close()
        other.close()

    @eachFlavour
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (
                "server_name: two\nmax_payload: 500",
                r"config reload not supported for ServerName: old=one, new=two\n",
            ),
            (
                "server_name: one\nmax_payload: 500\nbogus: 1",
                r'\S+:3:[01]: unknown field "bogus"\n',
            ),
        ],
    )
    def test_reloadRefused(
        self, flavour: Flavour, startServer: StartServer, text: str, reason: str
    ) -> None:
        """A reload with an impossible or invalid change is reported, and nothing changes."""
        server = startServer(flavour, "server_name: one\nmax_payload: 1000")
        server.writeConfig(text)
        server.signal("HUP")
        server.waitForLog(r"\[ERR\] Failed to reload server configuration: " + reason)
        client = Client(server)
        assert client.info["max_payload"] == 1000
        assert client.line() == b"PONG\r\n"
        client.close()

    @eachFlavour
    def test_reopen(self, flavour: Flavour, startServer: StartServer) -> None:
        """USR1 is accepted also without a log file."""
        server = startServer(flavour)
        server.signal("USR1")
        server.waitForLog(r"\[INF\] File log re-open ignored, not a file logger\n")

    @eachFlavour
    def test_lameDuckAlone(self, flavour: Flavour, startServer: StartServer) -> None:
        """USR2 without clients ends the process at once, with code 0."""
        server = startServer(flavour)
        server.signal("USR2")
        assert server.exitStatus() == 0
        server.waitForLog(r"\[INF\] Entering lame duck mode, stop accepting new clients\n")

    @eachFlavour
    def test_lameDuck(self, flavour: Flavour, startServer: StartServer) -> None:
        """
        With a client, lame duck mode notifies it, refuses new clients, and ends after the grace
        period.
        """
        times = 'lame_duck_grace_period: "300ms"\nlame_duck_duration: "30s"'
        server = startServer(flavour, times)
        client = Client(server)
        assert client.line() == b"PONG\r\n"
        server.signal("USR2")
        while not (told := json.loads(client.until(b"INFO ")[5:])).get("ldm"):
            pass
        assert told["client_id"] == client.info["client_id"]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        assert client.until(b"-ERR") == b""
        client.close()
        assert server.exitStatus() == 0
        server.waitForLog(r"\[INF\] Closing existing clients\n")


def twistd(folder: Path, *arguments: str) -> list[str]:
    """The command line of C{twistd natsbroker} in the foreground."""
    start = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()"]
    return [*start, "--nodaemon", "--pidfile=", "--rundir", str(folder), "natsbroker", *arguments]


class TestTwistd:
    """C{twistd natsbroker}."""

    def test_cannotStart(self, tmp_path: Path, startServer: StartServer) -> None:
        """A failed start under twistd ends with code 1 and a reason, without a traceback."""
        taken = startServer(OURS_FAST).port
        (tmp_path / "x.conf").write_text("authorization { plugin: nobody_has_this }")
        (tmp_path / "s.conf").write_text(f"streaming {{ store: file, dir: '{tmp_path}/x.conf' }}")
        local = "tcp:0:interface=127.0.0.1"
        for arguments, reason in (
            (["-p", f"tcp:{taken}:interface=127.0.0.1"], "bind: address already in use"),
            (["-c", str(tmp_path / "x.conf")], '"nobody_has_this"'),
            (["-p", local, "-c", str(tmp_path / "s.conf")], "s.conf:1:26: streaming.dir: "),
        ):
            done = subprocess.run(
                twistd(tmp_path, *arguments),
                env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            said = done.stdout + done.stderr
            assert done.returncode == 1, said
            assert reason in said and "Traceback" not in said

    def test_serves(self, tmp_path: Path) -> None:
        """The broker under twistd serves clients, and ends on a signal."""
        process = subprocess.Popen(
            twistd(tmp_path, "--client", "tcp:0:interface=127.0.0.1"),
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            port = 0
            for line in process.stdout:
                match = re.search(r"Listening for client connections on \S+:(\d+)", line)
                port = int(match[1]) if match else port
                if "Server is ready" in line:
                    break
            server = Server(OURS_FAST, tmp_path, port=port)
            client = Client(server)
            assert client.line() == b"PONG\r\n"
            client.close()
        finally:
            process.terminate()
            process.stdout.read()
            process.stdout.close()
            process.wait(PATIENCE)


def test_connectedWhileLoading() -> None:
    """A client that connects before the reactor is imported is served once the broker is ready."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    program = f"""
import os, socket, sys
from natsbroker import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "twisted.internet.reactor":
            sys.meta_path.remove(self)
            client = socket.create_connection(("127.0.0.1", {port}))
            if not os.fork():
                print(client.makefile("rb").readline()[:4].decode(), flush=True)
                os.kill(os.getppid(), 15)
                os._exit(0)

sys.meta_path.insert(0, Finder())
main.run()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "-a", "127.0.0.1", "-p", str(port)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout == "INFO\n", done.stderr
