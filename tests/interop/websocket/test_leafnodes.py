"""
A leafnode of nats-server over WebSocket, and nats-server as the hub of one.
"""

from __future__ import annotations

from pathlib import Path

from tests.interop.linked import Circle
from tests.interop.servers import OURS_FAST, REAL
from tests.interop.websocket.listeners import PLAIN, WebSocketServer

COUNT = 200


def _remote(hub: WebSocketServer, more: str = "") -> str:
    return f'remotes: [ {{ url: "ws://a:a@127.0.0.1:{hub.webSocketPort}"\n{more} }} ]'


_USERS = "authorization { users: [ {user: a, password: a} ] }"


def test_bothWays(tmp_path: Path) -> None:
    """
    A nats-server spoke, natsbroker and a nats-server hub in a row exchange messages over WebSocket.
    One side uses masks, and the other uses compression without masks. Each message arrives once and
    in order.
    """
    compressed = f"{PLAIN}, compression: true"
    hub = WebSocketServer(REAL, tmp_path, "hub", compressed, rest=_USERS)
    servers = [hub.start()]
    try:
        middle = WebSocketServer(
            OURS_FAST,
            tmp_path,
            "middle",
            remotes=_remote(hub, "ws_compression: true, ws_no_masking: true"),
            rest=_USERS,
        )
        servers.append(middle.start())
        spoke = WebSocketServer(REAL, tmp_path, "spoke", remotes=_remote(middle), rest=_USERS)
        servers.append(spoke.start())
        circle = Circle([(server, "a") for server in servers])
        for place in range(3):
            circle.connect(place)
        circle.form()
        ears = [client.subscribe(b"check.*") for client in circle.clients]
        circle.sync()
        for number in range(COUNT):
            for place, client in enumerate(circle.clients):
                client.publish(b"check.%d" % place, b"%d %d %b" % (place, number, b"x" * 300))
        circle.sync()
        for place, client in enumerate(circle.clients):
            heard = client.arrived(ears[place])
            for sender in range(3):
                numbers = [body.split()[1] for body in heard if body.startswith(b"%d " % sender)]
                assert numbers == [b"%d" % number for number in range(COUNT)]
        circle.close()
        assert "lid_ws" in middle.log()
        assert "lid_ws" in hub.log()
    finally:
        for server in reversed(servers):
            server.stop()
