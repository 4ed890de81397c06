"""
Servers that listen for WebSocket connections.
"""

from __future__ import annotations

from pathlib import Path

from tests.interop.servers import Flavour, Server

CONFIG = """
server_name: $NAME
http: "127.0.0.1:-1"
leafnodes {
    listen: "127.0.0.1:-1"
    $REMOTES
}
websocket {
    listen: "127.0.0.1:-1"
    $BLOCK
}
$REST
"""

PLAIN = "no_tls: true"


class WebSocketServer(Server):
    """
    @ivar webSocketPort: its port for WebSocket.
    """

    webSocketPort = 0

    def __init__(
        self,
        flavour: Flavour,
        directory: Path,
        name: str,
        block: str = PLAIN,
        remotes: str = "",
        rest: str = "",
    ) -> None:
        home = directory / name
        home.mkdir()
        values = {"$NAME": name, "$BLOCK": block, "$REMOTES": remotes, "$REST": rest}
        text = CONFIG
        for key, value in values.items():
            text = text.replace(key, value)
        super().__init__(flavour, home, text)

    def start(self) -> WebSocketServer:
        super().start()
        self.webSocketPort = self._portOf(r"Listening for websocket clients on wss?://\S+:(\d+)")
        return self
