"""
An HTTP proxy that supports C{CONNECT}, in threads.
"""

from __future__ import annotations

import base64
import socket
import threading
from types import TracebackType


class ConnectProxy:
    """
    @ivar port: its port.
    @ivar asked: the requested addresses.
    """

    def __init__(self, user: str = "", password: str = "") -> None:
        """
        @param user: the required user; empty for no login.
        """
        self._login = base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.asked: list[str] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> ConnectProxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for opened in (self._listener, *self._open):
            opened.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            data = client.recv(4096)
            if not data:
                return
            head += data
        first, *headers = head.decode().split("\r\n")
        target = first.split(" ")[1]
        self.asked.append(target)
        if self._login and f"Proxy-Authorization: Basic {self._login}" not in headers:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            client.close()
            return
        host, _, port = target.rpartition(":")
        peer = socket.create_connection((host, int(port)))
        self._open.append(peer)
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for ends in ((client, peer), (peer, client)):
            threading.Thread(target=_pass, args=ends, daemon=True).start()


def _pass(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        target.close()
