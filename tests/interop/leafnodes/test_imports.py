"""
Leafnodes get messages through the imports of the hub's account.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.leafnodes.brokers import Broker
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, OURS_PURE, PATIENCE, REAL, Flavour

#: The exporter, and an importer that calls the messages something else.
HUB = """
    E { users: [ {user: e, password: e} ], exports: [ {stream: "s.>"} ] }
    J {
        users: [ {user: j, password: j} ]
        imports: [ {stream: {account: E, subject: "s.>"}, to: "t.>"} ]
    }
"""

SPOKE = "J { users: [ {user: j, password: j} ] }"


@pytest.mark.parametrize(
    ("hub", "spoke"),
    [(REAL, REAL), (OURS_FAST, REAL), (OURS_PURE, OURS_FAST)],
    ids=lambda flavour: flavour.name,
)
def test_heardOnce(hub: Flavour, spoke: Flavour, tmp_path: Path) -> None:
    """Each message comes once, under its subject in the importing account, plain and in a group."""
    above = Broker(hub, tmp_path, "hub", accounts=HUB).start()
    url = f"nats-leaf://j:j@127.0.0.1:{above.leafPort}"
    remotes = f'remotes: [ {{url: "{url}", account: J}} ]'
    below = Broker(spoke, tmp_path, "spoke", remotes, False, accounts=SPOKE)
    with _linked(above, below, above) as (listener, publisher):
        ears = [listener.subscribe(b"t.>"), listener.subscribe(b"t.a", b"q")]
        listener.flush()
        _hears(listener, publisher, ears)


#: The exporter and the importer, in the hub and as the leafnode has them.
BOTH = """
    E { users: [ {user: e, password: e} ], exports: [ {stream: "s.>"}, {service: "svc"} ] }
    J {
        users: [ {user: j, password: j} ]
        imports: [
            {stream: {account: E, subject: "s.>"}, to: "t.>"}
            {service: {account: E, subject: "svc"}, to: "ask"}
        ]
    }
"""
NEITHER = "E { users: [ {user: e, password: e} ] }, J { users: [ {user: j, password: j} ] }"
OPPOSITE = """
    E {
        users: [ {user: e, password: e} ]
        imports: [ {stream: {account: J, subject: "t.>"}, to: "s.>"} ]
    }
    J { users: [ {user: j, password: j} ], exports: [ {stream: "t.>"} ] }
"""

PAIRS = [(REAL, REAL), (OURS_FAST, REAL), (REAL, OURS_FAST), (OURS_PURE, OURS_FAST)]


@pytest.mark.parametrize("cluster", ["", 'cluster { name: EDGE, listen: "127.0.0.1:-1" }'])
@pytest.mark.parametrize("accounts", [NEITHER, OPPOSITE], ids=["neither", "opposite"])
@pytest.mark.parametrize(("hub", "spoke"), PAIRS, ids=lambda flavour: flavour.name)
def test_bothAccounts(
    hub: Flavour, spoke: Flavour, accounts: str, cluster: str, tmp_path: Path
) -> None:
    """
    A server with a leafnode connection in both accounts receives in one account the messages that
    it publishes in the other, once, and its requests are answered. This holds also if its imports
    are opposite to the hub's.
    """
    above = Broker(hub, tmp_path, "hub", accounts=BOTH).start()
    urls = [(user, f"nats-leaf://{user}:{user}@127.0.0.1:{above.leafPort}") for user in "ej"]
    remotes = [f'{{url: "{url}", account: {user.upper()}}}' for user, url in urls]
    more = f"remotes: [ {', '.join(remotes)} ]"
    below = Broker(spoke, tmp_path, "spoke", more, False, top=cluster, accounts=accounts)
    with _linked(above, below, below) as (listener, publisher):
        ears = [listener.subscribe(b"t.>"), listener.subscribe(b"t.a", b"q")]
        requests, answers = publisher.subscribe(b"svc"), listener.subscribe(b"answer")
        _hears(listener, publisher, ears)
        assert [listener.arrived(ear) for ear in ears] == [[], []]
        listener.publish(b"ask", b"?", b"answer")
        ((reply, _, body),) = publisher.messages(requests, 1)
        publisher.publish(reply, body)
        assert listener.take(answers, 1) == [b"?"]


@contextmanager
def _linked(above: Broker, below: Broker, source: Broker) -> Iterator[tuple[Client, Client]]:
    """
    Start the leafnode, with a subscriber there and a publisher at the source. No server may log a
    warning, and both are stopped.
    """
    try:
        below.start()
        listener, publisher = Client(below, "j"), Client(source, "e")
        yield listener, publisher
        assert above.complaints() + below.complaints() == []
        for client in (listener, publisher):
            client.close()
    finally:
        below.stop()
        above.stop()


def _hears(listener: Client, publisher: Client, ears: list[bytes]) -> None:
    """Check that each subscription gets all published messages in order."""
    _settled(listener, publisher, ears)
    for number in range(10):
        publisher.publish(b"s.a", b"%d" % number)
    for ear in ears:
        assert listener.take(ear, 10) == [b"%d" % number for number in range(10)]


def _settled(listener: Client, publisher: Client, ears: list[bytes]) -> None:
    """Wait until messages pass, and none is in flight any more."""
    deadline = time.monotonic() + PATIENCE
    heard = [0, 0]
    while 0 in heard:
        assert time.monotonic() < deadline, "nothing passes"
        publisher.publish(b"s.a", b"first")
        publisher.flush()
        time.sleep(0.1)
        listener.flush()
        for place, ear in enumerate(ears):
            heard[place] += len(listener.arrived(ear))
