"""Pages over HTTP, and all failures to get one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from natsbroker.monitoring.top import pages
from natsbroker.monitoring.top.pages import MissingPage, PageError, readPage, serverURL

ANSWERS = {
    "/base/varz?a=b": (200, b'{"server_id": "S"}'),
    "/none?": (404, b"404 page not found"),
    "/refused?": (400, b"Error decoding\x1b[0m"),
    "/silent?": (500, b""),
    "/page?": (200, b"<html>"),
    "/deep?": (200, b"[" * 100_000),
    "/list?": (200, b"[]"),
    "/long?": (200, b" " * 200),
}


class Handler(BaseHTTPRequestHandler):
    """Answers requests from a table."""

    def do_GET(self) -> None:
        status, body = ANSWERS[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing is logged."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a server."""
    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy is asked."""
    monkeypatch.setenv("no_proxy", "*")


def test_document(server: str) -> None:
    """A page is a JSON object, below the path of the URL."""
    assert readPage(f"{server}/base", "/varz", {"a": "b"}) == {"server_id": "S"}


def test_missing(server: str) -> None:
    """A missing page raises an error of its own."""
    with pytest.raises(MissingPage, match="no page /none"):
        readPage(server, "/none", {})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/refused", r"/refused is refused \(400\): Error decoding\\x1b\[0m$"),
        ("/silent", r"/silent is refused \(500\)$"),
        ("/page", "/page is not JSON: is http://127.0.0.1:[0-9]+ a monitoring port"),
        ("/deep", "/deep is not JSON"),
        ("/list", "/list has no JSON object"),
        ("/long", "/long is longer than 0 MB"),
    ],
)
def test_otherAnswers(path: str, text: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A refusal, an answer of another program, and an endless answer raise errors with the reason.
    """
    if path == "/long":
        monkeypatch.setattr(pages, "MOST_BYTES", 100)
    with pytest.raises(PageError, match=text):
        readPage(server, path, {})


def test_unreachable() -> None:
    """A port without a listener is an error with its reason."""
    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        port = made.server_port
    with pytest.raises(PageError, match=f"http://127.0.0.1:{port} cannot be reached: Connection"):
        readPage(f"http://127.0.0.1:{port}", "/varz", {})


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:8222", "http://localhost:8222"),
        ("https://a.example/nats/", "https://a.example/nats"),
        ("http://[::1]:8222", "http://[::1]:8222"),
    ],
)
def test_serverURL(text: str, url: str) -> None:
    """The server may be given as a URL, or as host and port."""
    assert serverURL(text) == url


@pytest.mark.parametrize(
    "text",
    ["", "nats://a:4222", "file:///etc/passwd", "http://a:x", "http://u:p@a", "http://a?b", "//a"],
)
def test_noURL(text: str) -> None:
    """Other texts are refused, and no password is repeated."""
    with pytest.raises(ValueError) as refused:
        serverURL(text)
    assert "u:p" not in str(refused.value)
