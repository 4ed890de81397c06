"""
Processes that are started as by systemd, with open sockets and a socket for notifications. systemd
itself is not needed.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from tests.interop.servers import CHECKOUT, PATIENCE
from tests.server.managers import listeningManager

PASSING = """
import os, sys
given, names, *command = sys.argv[1:]
numbers = [int(number) for number in given.split(",")]
assert min(numbers) >= 3 + len(numbers)
for place, number in enumerate(numbers, 3):
    os.dup2(number, place)
    os.set_inheritable(number, False)
environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(numbers))}
os.execve(command[0], command, {**os.environ, **environment, "LISTEN_FDNAMES": names})
"""
"""Passes sockets as systemd does, and becomes a command."""


@contextmanager
def started(
    folder: Path, sockets: Sequence[socket.socket], names: str, *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """
    Start a Python program with passed sockets, and wait until it is ready.
    """
    numbers = [bound.fileno() for bound in sockets]
    passed = ",".join(map(str, numbers))
    with listeningManager(folder) as manager:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", PASSING, passed, names, sys.executable, *arguments],
            cwd=folder,
            env={"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/bin:/bin", **manager.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=numbers,
        )
        try:
            manager.await_("READY=1", PATIENCE, process.poll)
            yield process
            process.send_signal(signal.SIGTERM)
            manager.await_("STOPPING=1", PATIENCE)
            # twistd ends by the signal itself, which systemd takes for a success too.
            assert process.wait(PATIENCE) in (0, -signal.SIGTERM)
        finally:
            process.kill()
            assert process.stdout is not None
            print(process.stdout.read())
            process.stdout.close()
            process.wait()


def infoAt(listener: socket.socket) -> tuple[int, bool]:
    """
    @return: the port in INFO, and whether a PING is answered.
    """
    with socket.create_connection(listener.getsockname(), PATIENCE) as client:
        lines = client.makefile("rb")
        info = json.loads(lines.readline()[5:])
        client.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        answered = lines.readline() == b"PONG\r\n"
        lines.close()
    return info["port"], answered


def test_natsbroker(tmp_path: Path) -> None:
    """The command listens on the passed sockets instead of its configured addresses."""
    (tmp_path / "x.conf").write_text('listen: "127.0.0.1:1"\nhttp: "127.0.0.1:1"')
    clients = socket.create_server(("127.0.0.1", 0))
    pages = socket.create_server(("127.0.0.1", 0))
    # The client is there before the process.
    with clients, pages, socket.create_connection(clients.getsockname()) as early:
        arguments = ("-m", "natsbroker", "-c", "x.conf")
        with started(tmp_path, [pages, clients], "monitoring:client", *arguments):
            early.settimeout(PATIENCE)
            assert early.recv(5) == b"INFO "
            assert infoAt(clients) == (clients.getsockname()[1], True)
            host, port = pages.getsockname()
            with urlopen(f"http://{host}:{port}/healthz", timeout=PATIENCE) as answer:
                assert json.load(answer) == {"status": "ok"}
        # The next process finds the sockets as they were.
        socket.create_connection(clients.getsockname(), PATIENCE).close()


def test_twistd(tmp_path: Path) -> None:
    """With twistd, an endpoint of Twisted uses a passed socket by its name."""
    with socket.create_server(("127.0.0.1", 0)) as clients:
        twistd = str(Path(sys.executable).with_name("twistd"))
        endpoint = "systemd:domain=INET:name=client"
        arguments = ("-n", "--pidfile=", "natsbroker", "--client", endpoint)
        with started(tmp_path, [clients], "client", twistd, *arguments):
            assert infoAt(clients) == (clients.getsockname()[1], True)
