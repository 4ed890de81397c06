"""
Hubs and spokes as real processes: natsbroker and nats-server, and clients of each.

Promises: every server listens on loopback at ports that the kernel chose, and keeps them when it is
restarted; what it logged besides notices is found; a round of L{settle} returns when each of two
servers has worked off what the other had told it before.
Must never know: what a test does with them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from tests.interop.cluster.members import Client
from tests.interop.servers import PATIENCE, Flavour, Server

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

#: What a real server may say besides notices.
EXPECTED = (
    "Plaintext passwords detected",
    "Error trying to connect as leafnode",  # what the test has stopped, or not started yet
    "Error trying to connect to leafnode",
)


class Broker(Server):
    """
    A server with leafnodes.

    @ivar name: its name.
    @ivar leafPort: where it listens for leafnodes; 0 for nowhere.
    """

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
        @param more: for the C{leafnodes} block.
        @param top: for the top of the file.
        @param accounts: for the C{accounts} block.
        """
        home = directory / name
        home.mkdir()
        super().__init__(flavour, home)
        self.name = name
        self.leafPort = -1 if listens else 0
        self._values = {"$NAME": name, "$TOP": top, "$MORE": more, "$ACCOUNTS": accounts}
        self._before = ""
        self._describe()

    def _describe(self) -> None:
        listen = f'listen: "127.0.0.1:{self.leafPort}"' if self.leafPort else ""
        text = CONFIG
        for key, value in {**self._values, "$LISTEN": listen}.items():
            text = text.replace(key, value)
        self._config = text

    def start(self) -> Broker:
        """See L{Server.start}."""
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
        self._values["$MORE"] = more
        self._describe()
        self.writeConfig(self._config or "")

    def restart(self) -> None:
        """See L{Server.restart}."""
        self._before += self.log()
        super().restart()

    def complaints(self, allowed: Sequence[str] = ()) -> list[str]:
        """
        @return: the lines of the log that are no notices, and that nobody expects.
        """
        known = (*EXPECTED, *allowed)
        log = self._before + self.log()
        lines = [line for line in log.splitlines() if re.search(r"\[(ERR|WRN|FTL)\]", line)]
        return [line for line in lines if not any(each in line for each in known)]

    def remote(self, user: str = "a", account: str = "B", more: str = "") -> str:
        """
        How others dial this one.
        """
        return remoteTo(self.leafPort, user, account, more)


def remoteTo(port: int, user: str = "a", account: str = "B", more: str = "") -> str:
    """
    A C{remotes} list of one.
    """
    login = f"{user}:{user}@" if user else ""
    return (
        f'remotes: [ {{url: "nats-leaf://{login}127.0.0.1:{port}", account: {account}, {more}}} ]'
    )


class Ends:
    """
    Clients of servers that messages pass between.

    @ivar clients: one of each.
    """

    def __init__(self, servers: Sequence[tuple[Server, str]]) -> None:
        """
        @param servers: with the user of each client.
        """
        self._servers = list(servers)
        self._round = 0
        self.clients: list[Client] = []
        self._inboxes: list[bytes] = []
        for server, user in servers:
            client = Client(server, user)
            self.clients.append(client)
            self._inboxes.append(client.subscribe(b"settle"))

    def reconnect(self, place: int) -> None:
        """Connect a client anew."""
        self.clients[place].close()
        client = self.clients[place] = Client(*self._servers[place])
        self._inboxes[place] = client.subscribe(b"settle")

    def form(self) -> None:
        """
        Wait until everybody hears everybody.

        @raise TimeoutError: if that does not come to pass.
        """
        deadline = time.monotonic() + PATIENCE
        count = range(len(self.clients))
        missing = {(one, other) for one in count for other in count}
        self._round += 1
        while missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no message passes from and to {sorted(missing)}")
            for place, client in enumerate(self.clients):
                client.publish(b"settle", b"%d %d" % (self._round, place))
                client.flush()
            time.sleep(0.05)
            for place, client in enumerate(self.clients):
                for body in client.arrived(self._inboxes[place]):
                    number, sender = map(int, body.split())
                    if number == self._round:
                        missing.discard((sender, place))
        self.settle()

    def settle(self) -> None:
        """
        Wait until every server has worked off what every other one told it before.
        """
        self._round += 1
        for place, client in enumerate(self.clients):
            client.flush()
            client.publish(b"settle", b"%d %d" % (self._round, place))
        for place, client in enumerate(self.clients):
            wanted = {b"%d %d" % (self._round, sender) for sender in range(len(self.clients))}
            while wanted:
                (body,) = client.take(self._inboxes[place], 1)
                wanted.discard(body)

    def close(self) -> None:
        """Go."""
        for client in self.clients:
            client.close()
