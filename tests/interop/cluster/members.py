"""
Clusters of real processes, natsbroker and nats-server mixed, with a client of each member.

Every member listens on loopback at ports that the kernel chose, and keeps these at a restart. A
round of L{Mesh.sync} returns when every member has handled all earlier lines of the others.
Warnings and errors in the logs are detected.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.interop.linked import Circle, LinkedServer, filled
from tests.interop.servers import OLD, OURS, REAL, Flavour

CONFIG = """
server_name: $NAME
$TOP
accounts {
    A { users: [ {user: a, password: a} ] }
    B { users: [ {user: b, password: b} ] }
}
cluster {
    name: C1, listen: "127.0.0.1:$PORT"
    authorization { user: u, password: p }
    routes: [ $ROUTES ]
    $MORE
}
"""

#: The same for the classic dialect, which has no accounts.
PLAIN_CONFIG = re.sub(r"accounts \{.*?\n\}\n", "", CONFIG, flags=re.DOTALL)

#: What real servers of different ages say of each other: the older one refuses a route for one
#: account, and the other one may find its second attempt refused as well.
BETWEEN_OTHERS = ("dedicated route for account", "Authorization Violation", "authentication error")


class Member(LinkedServer):
    """
    A member of a cluster.

    @ivar routePort: its port for routes.
    """

    EXPECTED = (
        *LinkedServer.EXPECTED,
        "Error trying to connect to route",  # what the test has stopped, or not started yet
    )

    def __init__(
        self,
        flavour: Flavour,
        directory: Path,
        name: str,
        routes: Sequence[int],
        more: str = "",
        top: str = "",
        template: str = CONFIG,
    ) -> None:
        """
        @param routes: the route ports of members that its settings name.
        @param more: text for the C{cluster} block.
        @param top: text for the top of the file.
        @param template: the file.
        """
        super().__init__(flavour, directory, name)
        self.routePort = -1
        if flavour.path:
            # The oldest servers do not tell which ports the kernel chose.
            self.port, self.routePort = _freePorts(2)
        self._routes = list(routes)
        self._more = more
        self._top = top
        self._template = template
        self._describe()

    def _describe(self) -> None:
        urls = ", ".join(f'"nats-route://u:p@127.0.0.1:{port}"' for port in self._routes)
        self._config = filled(
            self._template,
            NAME=self.name,
            PORT=self.routePort,
            ROUTES=urls,
            MORE=self._more,
            TOP=self._top,
        )

    def start(self) -> Member:
        super().start()
        match = self.waitForLog(r"Listening for route connections on \S+:(\d+)")
        self.routePort = int(match[1])
        self._describe()
        return self

    def reconfigure(self, more: str) -> None:
        """
        Write another C{cluster} block, for a reload.
        """
        self._more = more
        self._describe()
        assert self._config is not None
        self.writeConfig(self._config)


def _freePorts(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(listener.getsockname()[1]) for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class Mesh(Circle):
    """
    A cluster with a client at each member, in account A.

    @ivar members: the processes.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        super().__init__([(member, "a") for member in members])
        self.members = list(members)

    def restarted(self, count: int) -> None:
        """Restart one member after the other, and check each time that all messages arrive."""
        for place in range(len(self.members)):
            others = [client for number, client in enumerate(self.clients) if number != place]
            ears = [client.subscribe(b"still.*") for client in others]
            self.members[place].restart()
            self.connect(place)
            self.form()
            for client in self.clients:
                for number in range(count):
                    client.publish(b"still.x", b"%d" % number)
            self.sync()
            expected = sorted([b"%d" % number for number in range(count)] * len(self.clients))
            for client, sid in zip(others, ears, strict=True):
                assert sorted(client.arrived(sid)) == expected
                client.unsubscribe(sid)

    def complaints(self) -> list[str]:
        """
        @return: the lines that members logged besides notices.
        """
        names = {member.flavour.name for member in self.members}
        allowed = BETWEEN_OTHERS if {OLD.name, REAL.name} <= names else ()
        return [
            line
            for member in self.members
            for line in member.complaints(allowed if member.flavour not in OURS else ())
        ]

    def close(self) -> None:
        """Close the clients, and stop the members."""
        super().close()
        together([member.stop for member in self.members])


def together(calls: Sequence[Callable[[], object]]) -> None:
    """
    Run calls that mostly wait at the same time, such as starting and stopping servers.

    @raise Exception: an exception of one of the calls, after all have ended.
    """
    with ThreadPoolExecutor(max(len(calls), 1)) as pool:
        done = [pool.submit(call) for call in calls]
    for error in done:
        error.result()


def formed(
    flavours: Sequence[Flavour],
    directory: Path,
    more: str | Mapping[str, str] = "",
    template: str = CONFIG,
) -> Mesh:
    """
    Start a cluster in which the settings of all members name only the first.

    @param more: text for the C{cluster} block of all members, or of some by their names.
    @param template: the configuration file.
    """
    members: list[Member] = []
    try:
        for place, flavour in enumerate(flavours):
            home = directory / f"n{place}"
            home.mkdir()
            routes = [members[0].routePort] if members else []
            block = more if isinstance(more, str) else more.get(f"n{place}", "")
            members.append(Member(flavour, home, f"n{place}", routes, block, template=template))
            if place == 0:
                members[0].start()
        together([member.start for member in members[1:]])
        mesh = Mesh(members)
        for place in range(len(members)):
            mesh.connect(place)
        mesh.form()
    except BaseException:
        for member in members:
            print(f"log of {member.name}, {member.flavour.name}:\n{member.log()}")
            member.stop()
        raise
    return mesh
