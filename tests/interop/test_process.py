"""
What programs that launch nats-server read and wait for: exit statuses, lines on stderr, files.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.servers import ALL, CHECKOUT, PATIENCE, Flavour, Server

flavours = pytest.mark.parametrize("flavour", ALL[:2], ids=lambda flavour: flavour.name)


def run(flavour: Flavour, *arguments: str) -> subprocess.CompletedProcess[str]:
    """
    @return: a server process that has ended by itself.
    """
    command = [*flavour.command(), *arguments]
    return subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def awaitFile(directory: Path, pattern: str) -> Path:
    """
    Wait for a file: nats-server writes its ports file beside everything else.

    @return: the one file of that name, once something is in it.
    """
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = [path for path in directory.glob(pattern) if path.stat().st_size]
        if found:
            (only,) = found
            return only
        time.sleep(0.005)
    raise TimeoutError(f"no {pattern} in {directory}")


@flavours
def test_version(flavour: Flavour) -> None:
    """The version is told as C{nats-server: v} and three numbers."""
    done = run(flavour, "--version")
    assert re.match(r"nats-server: v\d+\.\d+\.\d+", done.stdout)
    assert done.returncode == 0


@flavours
def test_configCheck(flavour: Flavour, tmp_path: Path) -> None:
    """A configuration file is checked without starting; a mistake is told with file and line."""
    good, bad = tmp_path / "good.conf", tmp_path / "bad.conf"
    good.write_text("port: -1\n")
    bad.write_text("port: -1\nbogus: 1\n")
    assert run(flavour, "-t", "-c", str(good)).returncode == 0
    done = run(flavour, "-t", "-c", str(bad))
    assert done.returncode == 1
    assert f'{bad}:2:1: unknown field "bogus"' in done.stderr


@flavours
def test_badConfig(flavour: Flavour, tmp_path: Path) -> None:
    """A server does not start on a bad or missing configuration file."""
    (tmp_path / "bad.conf").write_text("port: {\n")
    assert run(flavour, "-c", str(tmp_path / "bad.conf")).returncode == 1
    assert run(flavour, "-c", str(tmp_path / "none.conf")).returncode == 1


@flavours
def test_portInUse(flavour: Flavour) -> None:
    """A server that cannot listen says C{[FTL]} with the reason, and its status is 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(flavour, "-a", "127.0.0.1", "-p", str(port))
    assert done.returncode == 1
    assert re.search(rf"\[FTL\] Error listening on port: 127.0.0.1:{port}, .*in use", done.stderr)
    assert "Server is ready" not in done.stderr


@flavours
@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_stops(flavour: Flavour, name: str, startServer: StartServer) -> None:
    """A server stops cleanly when asked to."""
    server = startServer(flavour)
    server.signal(name)
    assert server.exitStatus() == 0


@flavours
def test_files(flavour: Flavour, tmp_path: Path, startServer: StartServer) -> None:
    """The pid and ports files name the process that was started and where it listens."""
    pid = tmp_path / "pid"
    arguments = ["-m", "-1", "-P", str(pid), "--ports_file_dir", str(tmp_path)]
    server: Server = startServer(flavour, arguments=arguments)
    assert int(pid.read_text()) == server.pid
    ports = awaitFile(tmp_path, f"*_{server.pid}.ports")
    assert json.loads(ports.read_text()) == {
        "nats": [server.url],
        "monitoring": [f"http://127.0.0.1:{server.monitorPort}"],
    }
    server.stop()
    assert not ports.exists()


@flavours
def test_pages(flavour: Flavour, startServer: StartServer) -> None:
    """The monitoring pages that test suites poll count connections and subscriptions."""
    server = startServer(flavour, arguments=["-m", "-1"])
    idle = server.monitor("/subsz")["num_subscriptions"]
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"CONNECT {}\r\nSUB foo 1\r\nPING\r\n")
        reply = b""
        while not reply.endswith(b"PONG\r\n"):
            reply += client.recv(4096)
        assert server.monitor("/healthz") == {"status": "ok"}
        assert server.monitor("/varz")["connections"] == 1
        assert server.monitor("/connz")["num_connections"] == 1
        assert server.monitor("/subsz")["num_subscriptions"] == int(str(idle)) + 1
