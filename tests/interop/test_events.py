"""
The events of the system account, compared with nats-server's for the same clients and leafnodes:
the same subjects, keys and types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.monitored import AskingClient
from tests.interop.pages import placesOf
from tests.interop.plainclients import Client, Leafnode
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour, Server

CONFIG = """
server_name: mon
system_account: "$SYS"
accounts {
  A { users: [ { user: a, password: a } ] }
  C { users: [ { user: c, password: c } ], limits { max_connections: 1 } }
  $SYS { users: [ { user: s, password: s } ] }
}
leafnodes { listen: "127.0.0.1:-1" }
gateway { name: here, listen: "127.0.0.1:-1" }
"""

#: The subjects, and of which kinds of connection there are events.
EVENTS = {
    "$SYS.ACCOUNT.*.CONNECT": ("Client", "Leafnode"),
    "$SYS.ACCOUNT.*.DISCONNECT": ("Client", "Leafnode"),
    "$SYS.SERVER.*.CLIENT.AUTH.ERR": ("Client", "Leafnode"),
    "$SYS.ACCOUNT.*.LEAFNODE.CONNECT": ("",),
    "$SYS.ACCOUNT.*.SERVER.CONNS": ("",),
    "$SYS.SERVER.ACCOUNT.*.CONNS": ("",),
    "$SYS.SERVER.*.STATSZ": ("",),
    "$SYS.SERVER.*.SHUTDOWN": ("",),
}

CASES = [(subject, kind) for subject, kinds in EVENTS.items() for kind in kinds]

#: An -ERR, or a connection that was reset before it could be read.
REFUSED = (AssertionError, ConnectionError)

#: What nats-server knows later than natsbroker: it measures with a PING after the login.
LATER = {"client.rtt"}

#: Its keys are the names of features.
NAMES = ("server.feature_flags", "feature_flags")


class Ear:
    """
    A client in the system account that receives all events.

    @ivar events: the events by subject and kind of connection.
    """

    def __init__(self, server: Server) -> None:
        self._client = AskingClient(server, "s")
        self._sids = {subject: self._client.subscribe(subject.encode()) for subject in EVENTS}
        self.events: dict[tuple[str, str], list[Any]] = {case: [] for case in CASES}

    def hear(self, subject: str, kind: str = "") -> None:
        """Wait for an event, and record it."""
        while True:
            ((_, _, body),) = self._client.messages(self._sids[subject], 1, PATIENCE)
            event = json.loads(body)
            seen = event.get("client", {}).get("kind", "")
            self.events[subject, seen].append(event)
            if seen == kind:
                return


def heard(flavour: Flavour, directory: Path) -> dict[tuple[str, str], list[Any]]:
    """
    All events of a server, from its first client to its end.
    """
    server = Server(flavour, directory, CONFIG, ["-m", "-1"]).start()
    try:
        ear = Ear(server)
        ear.hear("$SYS.SERVER.*.STATSZ")
        client = Client(server, "a")
        client.subscribe(b"foo")
        client.publish(b"foo", b"hi")
        client.flush()
        ear.hear("$SYS.ACCOUNT.*.SERVER.CONNS")
        ear.hear("$SYS.SERVER.ACCOUNT.*.CONNS")
        edge = Leafnode(server)
        edge.send(b"LS+ foo\r\nLMSG foo 2\r\nhi\r\n")
        edge.flush()
        ear.hear("$SYS.ACCOUNT.*.LEAFNODE.CONNECT")
        Leafnode(server, password="wrong").close()
        with pytest.raises(REFUSED):
            Client(server, "nobody")
        first = Client(server, "c")
        with pytest.raises(REFUSED):
            Client(server, "c")
        for gone in (client, edge, first):
            gone.close()
        for subject in ("$SYS.ACCOUNT.*.CONNECT", "$SYS.ACCOUNT.*.DISCONNECT"):
            for kind in EVENTS[subject]:
                ear.hear(subject, kind)
        for kind in ("Leafnode", "Client"):
            ear.hear("$SYS.SERVER.*.CLIENT.AUTH.ERR", kind)
    finally:
        server.stop()
    ear.hear("$SYS.SERVER.*.SHUTDOWN")
    return ear.events


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """The events of nats-server, and those of natsbroker."""
    real = heard(REAL, tmp_path_factory.mktemp("real"))
    yield real, heard(OURS_FAST, tmp_path_factory.mktemp("ours"))


def comparedPlaces(events: list[Any]) -> set[str]:
    """The places of events, without those that depend on the moment."""
    return {place for place in placesOf(events, NAMES) if place.partition(":")[0] not in LATER}


@pytest.mark.parametrize(("subject", "kind"), CASES)
def test_sameKeys(subject: str, kind: str, both: tuple[Any, Any]) -> None:
    """An event has nats-server's keys and types."""
    there, here = (side[subject, kind] for side in both)
    assert there and here
    assert comparedPlaces(here) == comparedPlaces(there)


@pytest.mark.parametrize("kind", ["Client", "Leafnode"])
def test_sameOrder(kind: str, both: tuple[Any, Any]) -> None:
    """The keys of an event, and of the connection in it, are in nats-server's order."""
    for subject in ("$SYS.ACCOUNT.*.CONNECT", "$SYS.ACCOUNT.*.DISCONNECT"):
        there, here = (side[subject, kind][0] for side in both)
        here["client"].pop("rtt", None)
        there["client"].pop("rtt", None)
        assert (list(here), list(here["client"])) == (list(there), list(there["client"]))
