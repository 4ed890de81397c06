"""
Key updates within a TLS 1.3 connection, requested by OpenSSL's own client.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.interop.tls.conftest import BLOCK, Serve


@contextmanager
def opensslClient(port: int) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The input and output of C{openssl s_client}. The line C{K} updates the keys of both sides."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_3", "-crlf"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdin and process.stdout
    try:
        yield process.stdin, process.stdout
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def awaitLine(output: IO[bytes], wanted: bytes) -> None:
    """Read up to a line with this beginning."""
    for line in output:
        if line.startswith(wanted):
            return
    raise AssertionError(f"ended without {wanted!r}")


def test_updatesInBetween(serve: Serve) -> None:
    """Messages pass in both directions after each key update."""
    server = serve(BLOCK % "handshake_first: true")
    with opensslClient(server.port) as (say, hear):
        awaitLine(hear, b"INFO ")
        for line in (b'CONNECT {"verbose":false}', b"SUB a 1", b"PING"):
            say.write(line + b"\n")
        say.flush()
        awaitLine(hear, b"PONG")
        for number in range(3):
            say.write(b"K\n")
            say.flush()
            awaitLine(hear, b"KEYUPDATE")
            say.write(b"PUB a 5\nword%d\nPING\n" % number)
            say.flush()
            awaitLine(hear, b"word%d" % number)
            awaitLine(hear, b"PONG")
