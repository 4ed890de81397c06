"""
Hubs and spokes as real processes, natsbroker and nats-server mixed, with a client of each.

Servers listen on loopback at ports that the kernel chose, and keep these over restarts. Warnings
and errors in a server's log are detected. L{Ends.sync} returns when each server has handled the
earlier lines of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.interop.linked import Circle, LinkedServer, filled
from tests.interop.servers import Flavour, Server

CONFIG = """
server_name: $NAME
$TOP
accounts {
    A { users: [ {user: a, password: a} ] }
    B { users: [ {user: b, password: b} ] }
    $ACCOUNTS
}
leafnodes {
    $LISTEN
    $MORE
}
"""


class Broker(LinkedServer):
    """
    A server with leafnodes.

    @ivar leafPort: its port for leafnodes; 0 for none.
    """

    EXPECTED = (
        *LinkedServer.EXPECTED,
        "Error trying to connect as leafnode",  # what the test has stopped, or not started yet
    )

    def __init__(
        self,
        flavour: Flavour,
        directory: Path,
        name: str,
        more: str = "",
        listens: bool = True,
        top: str = "",
        accounts: str = "",
    ) -> None:
        """
        @param more: text for the C{leafnodes} block.
        @param top: text for the top of the file.
        @param accounts: text for the C{accounts} block.
        """
        home = directory / name
        home.mkdir()
        super().__init__(flavour, home, name)
        self.leafPort = -1 if listens else 0
        self._values = {"NAME": name, "TOP": top, "MORE": more, "ACCOUNTS": accounts}
        self._describe()

    def _describe(self) -> None:
        listen = f'listen: "127.0.0.1:{self.leafPort}"' if self.leafPort else ""
        self._config = filled(CONFIG, **self._values, LISTEN=listen)

    def start(self) -> Broker:
        super().start()
        if self.leafPort:
            match = self.waitForLog(r"Listening for leafnode connections on \S+:(\d+)")
            self.leafPort = int(match[1])
        self._describe()
        return self

    def reconfigure(self, more: str) -> None:
        """
        Write another C{leafnodes} block, for a reload or a restart.
        """
        self._values["MORE"] = more
        self._describe()
        self.writeConfig(self._config or "")

    def remote(self, user: str = "a", account: str = "B", more: str = "") -> str:
        """The remote block with which others dial this broker."""
        return remoteTo(self.leafPort, user, account, more)


def remoteTo(port: int, user: str = "a", account: str = "B", more: str = "") -> str:
    """A C{remotes} list with one remote."""
    login = f"{user}:{user}@" if user else ""
    return (
        f'remotes: [ {{url: "nats-leaf://{login}127.0.0.1:{port}", account: {account}, {more}}} ]'
    )


class Ends(Circle):
    """Clients of servers that messages pass between."""

    def __init__(self, servers: Sequence[tuple[Server, str]]) -> None:
        """
        @param servers: the servers, each with the user of its client.
        """
        super().__init__(servers)
        for place in range(len(servers)):
            self.connect(place)
