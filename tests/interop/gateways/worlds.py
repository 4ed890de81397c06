"""
Super-clusters of real processes, natsbroker and nats-server mixed, with a client of each server.

Servers listen on loopback at ports that the kernel chose, and keep these over restarts. After
L{World.sync} every server knows the earlier subscriptions of all clients, and every earlier message
has arrived or never will. Warnings and errors in a server's log are detected.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.linked import LinkedServer, filled
from tests.interop.plainclients import Client
from tests.interop.servers import PATIENCE, Flavour

CONFIG = """
server_name: $NAME
http: "127.0.0.1:-1"
accounts {
    A { users: [ {user: a, password: a} ] }
    B { users: [ {user: b, password: b} ] }
    $ACCOUNTS
}
$CLUSTER
gateway {
    name: $GATEWAY, listen: "127.0.0.1:$PORT"
    authorization { user: u, password: p }
    gateways: [ $REMOTES ]
    $MORE
}
$TOP
"""

CLUSTER = """
cluster {
    name: $GATEWAY, listen: "127.0.0.1:$PORT"
    authorization { user: r, password: s }
    routes: [ $ROUTES ]
}
"""

#: Whether everything is tried with every kind of server; by default one of each kind will do.
EVERYTHING = os.environ.get("GATEWAYS", "") == "all"


@dataclass(frozen=True)
class Plan:
    """
    One server of a super-cluster.

    @ivar gateway: the name of its cluster.
    @ivar remotes: the names of the clusters in its settings.
    @ivar more: text for its C{gateway} block.
    @ivar top: text for the top of its file.
    @ivar accounts: text for its C{accounts} block.
    """

    flavour: Flavour
    gateway: str
    remotes: Sequence[str] = ()
    more: str = ""
    top: str = ""
    accounts: str = ""


class Site(LinkedServer):
    """
    One server.

    @ivar gateway: the name of its cluster.
    @ivar gatewayPort: its port for gateways.
    """

    EXPECTED = (
        *LinkedServer.EXPECTED,
        "Error connecting to explicit gateway",  # what the test has stopped, or not started yet
        "Error connecting to implicit gateway",
        "Error trying to connect to explicit gateway",
        "Error trying to connect to implicit gateway",
        "Error trying to connect to route",
    )

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        name: str,
        remotes: Mapping[str, int],
        routes: Sequence[int] | None,
    ) -> None:
        """
        @param remotes: the gateway ports of clusters by their names.
        @param routes: the route ports of other members of its cluster; C{None} without a cluster.
        """
        super().__init__(plan.flavour, directory, name)
        self.gateway = plan.gateway
        self.gatewayPort = -1
        self.routePort = -1
        self.more = plan.more
        self._plan = plan
        self._remotes = dict(remotes)
        self._routes = routes
        self.describe()

    def describe(self) -> None:
        """Write the configuration for the next start."""
        remotes = ", ".join(
            f'{{name: {name}, url: "nats://u:p@127.0.0.1:{port}"}}'
            for name, port in self._remotes.items()
        )
        cluster = ""
        if self._routes is not None:
            urls = ", ".join(f'"nats-route://r:s@127.0.0.1:{port}"' for port in self._routes)
            cluster = filled(CLUSTER, GATEWAY=self.gateway, PORT=self.routePort, ROUTES=urls)
        self._config = filled(
            CONFIG,
            NAME=self.name,
            CLUSTER=cluster,
            GATEWAY=self.gateway,
            PORT=self.gatewayPort,
            REMOTES=remotes,
            MORE=self.more,
            TOP=self._plan.top,
            ACCOUNTS=self._plan.accounts,
        )

    def start(self) -> Site:
        super().start()
        match = self.waitForLog(r"Listening for gateways connections on \S+:(\d+)")
        self.gatewayPort = int(match[1])
        if self._routes is not None:
            match = self.waitForLog(r"Listening for route connections on \S+:(\d+)")
            self.routePort = int(match[1])
        self.describe()
        return self

    def modes(self, account: str = "A") -> dict[str, dict[str, Any]]:
        """
        @return: the mode of an account towards each cluster that the server reaches.
        """
        page: Any = self.monitor(f"/gatewayz?acc_name={account}")
        return {
            name: (link.get("accounts") or [{}])[0]
            for name, link in (page["outbound_gateways"] or {}).items()
        }


class World:
    """
    A super-cluster with a client at each server.

    @ivar sites: the processes.
    @ivar clients: their clients in account A, at the same indexes.
    """

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites = list(sites)
        self.clients: list[Client] = [Client(site) for site in sites]
        self._round = 0

    def connect(self, place: int) -> None:
        """Connect a client to a server again."""
        self.clients[place].close()
        self.clients[place] = Client(self.sites[place])

    def client(self, place: int, user: str) -> Client:
        """
        @return: one more client, which the test closes.
        """
        return Client(self.sites[place], user)

    def sync(self, clients: Sequence[Client] | None = None, patience: float = PATIENCE) -> None:
        """
        Wait until all clients receive each other's messages, including earlier ones.

        Interest of queue groups is always sent after all earlier interest, and a group gets
        messages only from servers that know it. A server whose messages arrive therefore knows the
        rest too.

        @raise TimeoutError: if that does not happen in time.
        """
        clients = self.clients if clients is None else clients
        self._round += 1
        number = self._round
        groups = []
        for place, client in enumerate(clients):
            groups.append(client.subscribe(b"sync.%d.%d.*" % (number, place), b"s%d" % number))
        missing = {
            (sender, place) for sender in range(len(clients)) for place in range(len(clients))
        }
        deadline = time.monotonic() + patience
        while missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no message passes between {sorted(missing)}")
            for sender, place in missing:
                subject = b"sync.%d.%d.%d" % (number, place, sender)
                clients[sender].publish(subject, b"%d" % sender)
            for client in clients:
                client.flush()
            pause = time.monotonic() + 0.05
            while missing and time.monotonic() < pause:
                for place, client in enumerate(clients):
                    for body in client.arrived(groups[place]):
                        missing.discard((int(body), place))
                time.sleep(0.005)
        for place, client in enumerate(clients):
            client.unsubscribe(groups[place])

    def complaints(self, allowed: Sequence[str] = ()) -> list[str]:
        """
        @return: the lines that servers logged besides notices.
        """
        return [line for site in self.sites for line in site.complaints(allowed)]

    def close(self) -> None:
        """Close the clients, and stop the servers."""
        for client in self.clients:
            client.close()
        for site in self.sites:
            site.stop()


def until(done: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """
    Wait until a condition holds.

    @raise TimeoutError: if that does not happen in time.
    """
    deadline = time.monotonic() + patience
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


def started(
    plans: Sequence[Plan], directory: Path, ports: Mapping[str, int] | None = None
) -> list[Site]:
    """
    Start servers one after the other. The settings of each name the clusters of its plan that have
    started, and the members of its own cluster.

    @param ports: the gateway ports of other clusters, or of proxies for them, by their names.
    """
    sites: list[Site] = []
    known = dict(ports or {})
    try:
        for place, plan in enumerate(plans):
            home = directory / f"s{place}"
            home.mkdir()
            mates = [site.routePort for site in sites if site.gateway == plan.gateway]
            isCluster = sum(other.gateway == plan.gateway for other in plans) > 1
            remotes = {name: known[name] for name in plan.remotes if name in known}
            name = f"{plan.gateway}-{place}".lower()
            site = Site(plan, home, name, remotes, mates if isCluster else None)
            sites.append(site)
            site.start()
            known.setdefault(plan.gateway, site.gatewayPort)
    except BaseException:
        for site in sites:
            print(f"log of {site.name}, {site.flavour.name}:\n{site.log()}")
            site.stop()
        raise
    return sites


def formed(plans: Sequence[Plan], directory: Path, ports: Mapping[str, int] | None = None) -> World:
    """
    Start servers one after the other, and wait until all clients receive each other's messages.
    """
    sites = started(plans, directory, ports)
    try:
        world = World(sites)
        world.sync()
    except BaseException:
        for site in sites:
            print(f"log of {site.name}, {site.flavour.name}:\n{site.log()}")
            site.stop()
        raise
    return world
