"""
A server that answers as a schema registry does.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["RegistryServer", "registryServer"]


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
        """What is answered."""
        self.asked.append((path, credentials))
        if self.failures:
            return self.failures.pop(0), b"{}"
        if path not in self.answers:
            return 404, b'{"error_code": 40403, "message": "Schema not found"}'
        return 200, json.dumps(self.answers[path]).encode()


@contextmanager
def registryServer() -> Iterator[RegistryServer]:
    """A server of the test."""
    found = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = found.answer(self.path, self.headers["Authorization"])
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
