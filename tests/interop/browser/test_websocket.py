"""
nats.js in a web page, which connects over WebSocket from the origins that the broker allows.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.interop.browser.chromium import Browser, chromium
from tests.interop.prepare import JS
from tests.interop.servers import OURS_FAST, missing
from tests.interop.websocket.listeners import WebSocketServer

_PAGE = """<!DOCTYPE html><title>page</title><link rel="icon" href="data:,">
<script type="module">
import nats from "./nats.mjs";
globalThis.nats = nats;
document.body.append("loaded");
</script>
<body></body>
"""

_TALK = """
const [url] = given;
const connection = await nats.wsconnect({ servers: url, reconnect: false, timeout: 20000 });
const headers = nats.headers();
headers.set("A", "1");
connection.subscribe("service", {
  callback: (error, message) => message.respond(`${message.string()}!`),
});
const numbers = connection.subscribe("numbers", { max: 200 });
for (let number = 0; number < 200; number++) {
  connection.publish("numbers", String(number), { headers });
}
const heard = [];
for await (const message of numbers) heard.push(`${message.string()} ${message.headers.get("A")}`);
const large = connection.subscribe("large", { max: 1 });
connection.publish("large", new Uint8Array(500_000).fill(7));
const sizes = [];
for await (const message of large) sizes.push(message.data.filter((byte) => byte === 7).length);
const answer = await connection.request("service", "hello", { timeout: 20000 });
await connection.drain();
return { heard, sizes, answer: answer.string() };
"""

_KNOCK = """
const [url] = given;
try {
  const connection = await nats.wsconnect({ servers: url, reconnect: false, timeout: 20000 });
  await connection.close();
  return "connected";
} catch (error) {
  return "refused";
}
"""


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *values: Any) -> None:
        """
        Log no requests.
        """


@contextmanager
def _served(directory: Path) -> Iterator[str]:
    """
    @return: the origin that serves a directory.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _writePage(directory: Path) -> None:
    """Write the page, and the client for it, because npm has the client for Node.js only."""
    bundler = JS / "node_modules" / ".bin" / "esbuild"
    client = JS / "node_modules" / "@nats-io" / "nats-core" / "lib" / "mod.js"
    if not bundler.exists() or not client.exists():
        missing("no esbuild or no @nats-io/nats-core")
    options = ("--bundle", "--format=esm", "--platform=browser", "--log-level=error")
    target = f"--outfile={directory / 'nats.mjs'}"
    subprocess.run([bundler, client, *options, target], check=True)
    (directory / "index.html").write_text(_PAGE)


def _listening(directory: Path, origin: str, compression: bool) -> WebSocketServer:
    flag = str(compression).lower()
    name = f"compressed-{flag}"
    block = f'no_tls: true, allowed_origins: ["{origin}"], compression: {flag}'
    return WebSocketServer(OURS_FAST, directory, name, block).start()


def _talk(browser: Browser, server: WebSocketServer) -> None:
    talk = browser.wait(_TALK, f"ws://127.0.0.1:{server.webSocketPort}")
    assert talk["heard"] == [f"{number} 1" for number in range(200)]
    assert (talk["sizes"], talk["answer"]) == ([500_000], "hello!")


def test_javaScriptInPage(tmp_path: Path) -> None:
    """
    nats.js publishes, subscribes and requests in a page, with and without compression. A page of
    another origin is refused.
    """
    site = tmp_path / "site"
    site.mkdir()
    _writePage(site)
    servers: list[WebSocketServer] = []
    with _served(site) as origin, _served(site) as other, chromium(tmp_path) as browser:
        try:
            for compression in (False, True):
                servers.append(_listening(tmp_path, origin, compression))
            browser.open(origin, "body:not(:empty)")
            for server in servers:
                _talk(browser, server)
            assert browser.messages() == []
            browser.open(other, "body:not(:empty)")
            url = f"ws://127.0.0.1:{servers[0].webSocketPort}"
            assert browser.wait(_KNOCK, url) == "refused"
            assert "403" in browser.messages()[0]
        finally:
            for server in servers:
                server.stop()
