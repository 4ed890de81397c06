"""
A server that answers as a schema registry does.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["RegistryServer", "certified", "registryServer"]


class RegistryServer:
    """
    @ivar url: where it is.
    @ivar answers: the fields of answers, by their paths.
    @ivar failures: the codes of the next answers.
    @ivar asked: the paths that were asked for, and the credentials.
    """

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, Any] = {}
        self.failures: list[int] = []
        self.asked: list[tuple[str, str | None]] = []

    def answer(self, path: str, credentials: str | None) -> tuple[int, bytes]:
        """The answer of the registry."""
        self.asked.append((path, credentials))
        if self.failures:
            return self.failures.pop(0), b"{}"
        if path not in self.answers:
            return 404, b'{"error_code": 40403, "message": "Schema not found"}'
        return 200, json.dumps(self.answers[path]).encode()


def certified(directory: Path) -> ssl.SSLContext:
    """The TLS settings of a server that requires certificates of the given authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem", directory / "server-key.pem")
    context.load_verify_locations(directory / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextmanager
def registryServer(context: ssl.SSLContext | None = None) -> Iterator[RegistryServer]:
    """
    A server of the test.

    @param context: how it talks TLS; C{None} for not at all.
    """
    node = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = node.answer(self.path, self.headers["Authorization"])
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None: ...

    class QuietServer(ThreadingHTTPServer):
        def handle_error(self, request: Any, address: Any) -> None:
            """Handshakes that fail are what tests are about."""

    server = QuietServer(("127.0.0.1", 0), Handler)
    if context is not None:
        # In the thread of each connection, not in the one that accepts.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    node.url = f"http{'s' * (context is not None)}://127.0.0.1:{server.server_address[1]}"
    try:
        yield node
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
