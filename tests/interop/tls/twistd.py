"""
C{twistd natsbroker} with an endpoint that does TLS by itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.servers import CHECKOUT, OURS_FAST, PATIENCE

__all__ = ["Twistd", "twistd"]

RUN = "from twisted.scripts.twistd import run; run()"


class Twistd:
    """
    A process.

    @ivar port: its port for clients.
    @ivar pid: its id.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid
        self.waitForLog("Server is ready")
        listening = self.waitForLog(r"Listening for client connections on \S+:(\d+)")
        self.port = int(listening[1])

    def waitForLog(self, pattern: str) -> re.Match[str]:
        """
        @return: the match in its log, once there is one.
        """
        waiting = threading.Event()
        for _ in range(int(PATIENCE / 0.05)):
            text = self._log.read_text() if self._log.exists() else ""
            if (match := re.search(pattern, text)) is not None:
                return match
            assert self._process.poll() is None, text
            waiting.wait(0.05)
        raise TimeoutError(f"{pattern!r} is not in the log:\n{self._log.read_text()}")


@contextmanager
def twistd(place: Path, certificates: Path, *options: str) -> Iterator[Twistd]:
    """
    @param place: a folder for its log.
    @param certificates: the folder of the server's certificate.
    @param options: further options of C{twistd natsbroker}.
    """
    described = (
        f"ssl:0:privateKey={certificates}/server-key.pem:certKey={certificates}/server.pem"
        ":interface=127.0.0.1"
    )
    log = place / "twistd.log"
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", RUN, "--nodaemon", "--pidfile=", f"--logfile={log}"),
            *("natsbroker", "--client", described, *options),
        ],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), **OURS_FAST.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Twistd(process, log)
    finally:
        process.terminate()
        process.wait(PATIENCE)
