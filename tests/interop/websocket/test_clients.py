"""
Unmodified clients over WebSocket.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.interop.certificates import writeCertificates
from tests.interop.prepare import JS
from tests.interop.programs import DEADLINE
from tests.interop.servers import OURS_FAST, REAL, Flavour, missing
from tests.interop.websocket.listeners import WebSocketServer

_TLS = 'tls { cert_file: "$DIR/server.pem", key_file: "$DIR/server-key.pem" }, compression: true'

_MAPPED = """
    tls {
        cert_file: "$DIR/server.pem", key_file: "$DIR/server-key.pem"
        ca_file: "$DIR/ca.pem", verify_and_map: true
    }
"""

_USERS = "authorization { users: [ {user: alice@example.com, connection_types: [WEBSOCKET]} ] }"


def test_javaScript(tmp_path: Path) -> None:
    """nats.js publishes, subscribes and requests, in clear text and with TLS and compression."""
    node = shutil.which("node")
    if node is None or not (JS / "node_modules" / "ws").is_dir():
        missing("no Node.js or no clients for it")
    plain = WebSocketServer(OURS_FAST, tmp_path, "plain")
    secure = WebSocketServer(OURS_FAST, tmp_path, "secure", _TLS)
    writeCertificates(secure.directory)
    try:
        plain.start()
        secure.start()
        urls = [
            f"ws://127.0.0.1:{plain.webSocketPort}",
            f"wss://127.0.0.1:{secure.webSocketPort}",
        ]
        ended = subprocess.run(
            [node, str(JS / "websockets.mjs"), "@nats-io/nats-core", *urls],
            env={**os.environ, "NODE_EXTRA_CA_CERTS": str(secure.directory / "ca.pem")},
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
    finally:
        plain.stop()
        secure.stop()
    assert ended.returncode == 0, ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line.pop("tls_required") for line in lines] == [False, True]
    expected = {
        "count": 200,
        "isOrdered": True,
        "sizes": [100_000],
        "answer": "hello!",
        "max_payload": 1048576,
        "closed": True,
    }
    assert lines == [expected, expected]


@pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)
def test_python(flavour: Flavour, tmp_path: Path) -> None:
    """
    nats-py connects with TLS, its certificate names the user, and C{/connz} shows a client over
    WebSocket.
    """
    if importlib.util.find_spec("aiohttp") is None:
        missing("nats-py speaks WebSocket with aiohttp, which is not installed")
    server = WebSocketServer(flavour, tmp_path, "server", _MAPPED, rest=_USERS)
    writeCertificates(server.directory)
    authority = str(server.directory / "ca.pem")

    async def use() -> tuple[list[bytes], object]:
        import nats

        tls = ssl.create_default_context(cafile=authority)
        tls.load_cert_chain(server.directory / "client.pem", server.directory / "client-key.pem")
        url = f"wss://localhost:{server.webSocketPort}"
        connection = await nats.connect(url, tls=tls, allow_reconnect=False)
        subscription = await connection.subscribe("a")
        for number in range(50):
            await connection.publish("a", b"%d" % number)
        bodies = [(await subscription.next_msg(20)).data for _ in range(50)]
        page = await asyncio.to_thread(server.monitor, "/connz?auth=1")
        await connection.close()
        return bodies, page["connections"]

    try:
        server.start()
        bodies, connections = asyncio.run(use())
    finally:
        server.stop()
    assert bodies == [b"%d" % number for number in range(50)]
    assert isinstance(connections, list)
    (row,) = connections
    assert (row["kind"], row["type"], row["tls_version"]) == ("Client", "websocket", "1.3")
    assert row["authorized_user"] == "alice@example.com"
