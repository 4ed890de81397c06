"""
Leafnodes that reach their hub through an HTTP proxy.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.interop.certificates import writeCertificates
from tests.interop.conftest import StartServer
from tests.interop.leafnodes.tunnels import ConnectProxy
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour, Server

TLS = 'tls {{ cert_file: "{0}/server.pem", key_file: "{0}/server-key.pem" {1} }}'

HUB = """
server_name: hub
leafnodes {{ listen: "127.0.0.1:-1", {0} }}
websocket {{ listen: "127.0.0.1:-1", {1} }}
"""

SPOKE = """
server_name: spoke
leafnodes {{ reconnect: "200ms", remotes: [ {{ url: "{0}", {1}
    proxy {{ url: "http://127.0.0.1:{2}", username: u, password: "{3}" }} }} ] }}
"""

PAGES = ["-m", "-1"]


def portOf(server: Server, what: str) -> int:
    """
    @return: the port of a listener.
    """
    return int(server.waitForLog(rf"Listening for {what}\S*?:(\d+)")[1])


def hasLeaf(server: Server) -> bool:
    """
    @return: whether a leafnode connects.
    """
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if server.monitor("/leafz")["leafnodes"]:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("kind", ["nats", "nats tls", "ws", "wss"])
@pytest.mark.parametrize(
    "hub, spoke",
    [(REAL, OURS_FAST), (OURS_FAST, REAL), (OURS_FAST, OURS_FAST)],
    ids=lambda flavour: flavour.name,
)
def test_proxy(
    hub: Flavour, spoke: Flavour, kind: str, startServer: StartServer, tmp_path: Path
) -> None:
    """
    Connections of all kinds pass through the proxy, which gets the address of the hub and a login.
    """
    writeCertificates(tmp_path)
    isTLS = kind in ("nats tls", "wss")
    tls = TLS.format(tmp_path, "") if isTLS else ""
    text = HUB.format(tls, tls or "no_tls: true")
    ear = startServer(hub, text, PAGES)
    isFramed = kind.startswith("ws")
    what = r"websocket clients on wss?://" if isFramed else "leafnode connections on "
    port = portOf(ear, what)
    url = f"{'tls' if kind == 'nats tls' else kind}://localhost:{port}"
    client = f'tls {{ ca_file: "{tmp_path}/ca.pem" }}' if isTLS else ""
    with ConnectProxy("u", "right") as proxy:
        mouth = startServer(spoke, SPOKE.format(url, client, proxy.port, "right"), PAGES)
        assert hasLeaf(ear) and hasLeaf(mouth)
        assert proxy.asked[0] == f"localhost:{port}"


@pytest.mark.parametrize("spoke", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)
def test_refusal(spoke: Flavour, startServer: StartServer) -> None:
    """If the proxy refuses, the log has its reason."""
    with ConnectProxy("u", "right") as proxy:
        text = SPOKE.format("ws://localhost:1", "", proxy.port, "wrong")
        mouth = startServer(spoke, text, PAGES)
        mouth.waitForLog("proxy CONNECT failed: 407 Proxy Authentication Required")
        assert not mouth.monitor("/leafz")["leafnodes"]
