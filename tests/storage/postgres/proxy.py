"""
A connection to a database that can be cut where a test wants it.

The client's side of a cut connection ends as if the network had failed; what the server
was sent before, it was sent.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from pathlib import Path

__all__ = ["Proxy"]

_SOCKET = ".s.PGSQL.5432"


class Proxy:
    """
    Stands between clients and a server.

    @ivar source: the connection string for clients.
    @ivar cut: C{"before"}: the next commit is not passed on, and its connection cut; C{"after"}: it
        is passed on, and the connection cut when the server has answered. C{""}: neither.
    @ivar downAfterCut: whether no connection is accepted after that.
    @ivar isDown: whether no connection is accepted.
    @ivar cuts: how many there were.
    @ivar moves: while it is not set, nothing is passed on; connections are accepted all the same.
    """

    def __init__(self, server: Path, user: str) -> None:
        """
        @param server: the directory of the server's socket.
        """
        self._server = server
        self._directory = Path(tempfile.mkdtemp(prefix="natsbroker-proxy-"))
        self.source = f"host={self._directory} user={user} dbname=postgres"
        self.cut = ""
        self.downAfterCut = False
        self.isDown = False
        self.cuts = 0
        self.moves = threading.Event()
        self.moves.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._directory / _SOCKET))
        self._listener.listen()
        self._start(self._accept)

    def _start(self, call: object, *arguments: object) -> None:
        thread = threading.Thread(target=call, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.isDown:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._server / _SOCKET))
            self._pairs.append((client, server))
            self._start(self._toServer, client, server)
            self._start(self._toClient, client, server)

    def _toServer(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                if b"COMMIT\0" in data and self.cut == "before":
                    self._cutNow()
                    break
                self.moves.wait()
                server.sendall(data)
        except OSError:
            pass  # The other direction ended it.
        self._end(client, server)

    def _toClient(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := server.recv(65536):
                if b"COMMIT\0" in data and self.cut == "after":
                    self._cutNow()
                    break
                self.moves.wait()
                client.sendall(data)
        except OSError:
            pass  # The other direction ended it.
        self._end(client, server)

    def _cutNow(self) -> None:
        self.cut = ""
        self.isDown = self.downAfterCut
        self.cuts += 1

    def _end(self, client: socket.socket, server: socket.socket) -> None:
        for transport in (client, server):
            try:
                transport.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # It was over.

    def cutAll(self) -> None:
        """Cut every open connection."""
        for pair in self._pairs:
            self._end(*pair)

    def close(self) -> None:
        """
        End everything.
        """
        self.moves.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cutAll()
        for thread in self._threads:
            thread.join()
        for pair in self._pairs:
            for transport in pair:
                transport.close()
        shutil.rmtree(self._directory)
