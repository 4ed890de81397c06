"""
Measures whether the time of a refusal shows which users exist: C{python -m
tests.authorization.timing [--logins N] [--flavour FLAVOUR]}.

The module starts a server and logs in with wrong passwords, in turn as users that exist and as
users that do not, and prints the medians and their ratio. On a quiet machine the ratio is between
0.95 and 1.05. A measurement is not a test: on a busy machine it means nothing, so continuous
integration counts the work instead (L{tests.authorization.test_enumeration}). The time is measured
by a client, from CONNECT to the end of the connection.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

import bcrypt

from tests.interop.servers import ALL, OURS_FAST, PATIENCE, Server

COST = 8


def config(kind: str) -> str:
    """
    @param kind: C{plain} or C{bcrypt}.
    """
    users = []
    for number in range(20):
        secret = f"secret{number}"
        if kind == "bcrypt":
            secret = bcrypt.hashpw(secret.encode(), bcrypt.gensalt(COST)).decode()
        users.append(f'{{user: known{number:02}, password: "{secret}"}}')
    return f"authorization {{ timeout: 30, users: [ {', '.join(users)} ] }}\n"


def refusal(server: Server, user: str) -> float:
    """
    @return: how many seconds a refusal takes.
    """
    said = json.dumps({"verbose": False, "user": user, "pass": "wrong0"}).encode()
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.recv(65536)
        began = time.perf_counter()
        connection.sendall(b"CONNECT " + said + b"\r\n")
        while connection.recv(65536):
            pass
        return time.perf_counter() - began


def measure(server: Server, logins: int) -> tuple[float, float]:
    """
    @return: the medians for users that exist and for users that do not.
    """
    times: dict[str, list[float]] = {"known": [], "other": []}
    for _ in range(logins):
        for kind in random.sample(sorted(times), 2):
            times[kind].append(refusal(server, f"{kind}{random.randrange(20):02}"))
    return statistics.median(times["known"]), statistics.median(times["other"])


def main() -> int:
    """
    The command line.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.authorization.timing")
    parser.add_argument("--logins", type=int, default=400)
    parser.add_argument("--flavour", choices=[entry.name for entry in ALL], default=OURS_FAST.name)
    options = parser.parse_args()
    flavour = next(entry for entry in ALL if entry.name == options.flavour)
    for kind in ("plain", "bcrypt"):
        with tempfile.TemporaryDirectory() as place:
            server = Server(flavour, Path(place), config(kind)).start()
            try:
                known, other = measure(server, options.logins)
            finally:
                server.stop()
        print(
            f"{kind}: known {known * 1e3:.3f} ms, other {other * 1e3:.3f} ms, "
            f"ratio {known / other:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
