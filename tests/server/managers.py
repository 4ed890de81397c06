"""
A service manager for tests, which receives the notifications of a process.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Manager:
    """
    @ivar environment: names its socket to a process.
    """

    def __init__(self, receiver: socket.socket, name: str) -> None:
        self.environment = {"NOTIFY_SOCKET": name}
        self._receiver = receiver

    def received(self) -> list[str]:
        """
        @return: the datagrams that have arrived since the last call.
        """
        chunks = []
        while True:
            try:
                chunks.append(self._receiver.recv(4096).decode("ascii"))
            except BlockingIOError:
                return chunks

    def await_(
        self, text: str, patience: float, hasEnded: Callable[[], object] = lambda: None
    ) -> None:
        """
        Wait until exactly one datagram has arrived, with a given text.

        @param hasEnded: gives something else than C{None} when none will come.
        """
        due = time.monotonic() + patience
        while not (lines := self.received()):
            assert hasEnded() is None and time.monotonic() < due, f"no {text}"
            time.sleep(0.02)
        assert lines == [text]


@contextmanager
def listeningManager(folder: Path, name: str = "") -> Iterator[Manager]:
    """
    @param folder: for its socket.
    @param name: as in C{NOTIFY_SOCKET}, instead of a path in the folder.
    """
    path = name or str(folder / "notify")
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(address)
        receiver.setblocking(False)
        yield Manager(receiver, path)
