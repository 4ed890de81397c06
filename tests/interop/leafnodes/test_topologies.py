"""
More than a hub and a spoke: chains, hubs of several spokes, hubs in a cluster, and loops,
natsbroker and nats-server mixed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.leafnodes.brokers import Broker, Ends, remoteTo
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, REAL, Flavour

COUNT = 50

#: Makes and starts a server: flavour, name, what it dials, and more.
Make = Callable[..., Broker]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """
    Makes servers, which are stopped when the test ends; their logs are shown if it fails.
    """
    made: list[Broker] = []

    def start(flavour: Flavour, name: str, more: str = "", **options: str) -> Broker:
        broker = Broker(flavour, tmp_path, name, more, **options)  # type: ignore[arg-type]
        made.append(broker)
        return broker.start()

    yield start
    for broker in made:
        broker.stop()
        print(f"log of {broker.name}, {broker.flavour.name}:\n{broker.log()}")


def checked(ends: Ends) -> None:
    """Check that a message of any client reaches all clients once, and one member of a group."""
    ends.form()
    ears = [client.subscribe(b"top.*") for client in ends.clients]
    members = [client.subscribe(b"top.>", b"q") for client in ends.clients[::2]]
    ends.sync()
    sent = []
    for number in range(COUNT):
        for place, client in enumerate(ends.clients):
            sent.append(b"%d %d" % (place, number))
            client.publish(b"top.x", sent[-1])
    ends.sync()
    ends.sync()
    for client, ear in zip(ends.clients, ears, strict=True):
        assert sorted(client.arrived(ear)) == sorted(sent)
    pairs = zip(ends.clients[::2], members, strict=True)
    chosen = [body for client, member in pairs for body in client.arrived(member)]
    assert sorted(chosen) == sorted(sent)


@pytest.mark.parametrize(
    "flavours",
    [
        (REAL, OURS_FAST, REAL, OURS_FAST),
        (OURS_FAST, REAL, OURS_FAST, REAL),
    ],
    ids=lambda flavours: "-".join(x.name for x in flavours),
)
def test_chain(make: Make, flavours: tuple[Flavour, ...]) -> None:
    """
    Four brokers in a row receive each other's messages. When the one at one end is stopped, its
    interest is removed at the other end.
    """
    brokers: list[Broker] = []
    for place, flavour in enumerate(flavours):
        more = remoteTo(brokers[-1].leafPort, "a", "A") if brokers else ""
        brokers.append(make(flavour, f"n{place}", more))
    ends = Ends([(broker, "a") for broker in brokers])
    checked(ends)
    first, last = ends.clients[0], ends.clients[3]
    ear = first.subscribe(b"gone")
    ends.sync()
    last.publish(b"gone", b"1")
    ends.sync()
    assert first.arrived(ear) == [b"1"]
    first.unsubscribe(ear)
    ends.sync()
    inbox = last.subscribe(b"_INBOX.gone")
    last.publish(b"gone", b"2", b"_INBOX.gone")
    ((_, headers, _),) = last.messages(inbox, 1)
    assert headers.startswith(b"NATS/1.0 503")
    ends.close()


@pytest.mark.parametrize(
    "hub, spokes", [(OURS_FAST, REAL), (REAL, OURS_FAST), (OURS_FAST, OURS_FAST)]
)
def test_isolated(make: Make, hub: Flavour, spokes: Flavour) -> None:
    """
    A spoke that requests isolation does not get the interest of another spoke, while its own
    interest is sent and traffic with the hub is as usual.
    """
    middle = make(hub, "hub")
    remote = remoteTo(middle.leafPort, "a", "A", "request_isolation: true")
    alone = make(spokes, "alone", remote)
    other = make(OURS_FAST, "other", remoteTo(middle.leafPort, "a", "A"))
    inner, outer = (Ends([(spoke, "a"), (middle, "a")]) for spoke in (alone, other))
    pairs = inner, outer
    for pair in pairs:
        pair.form()
    (first, top), (second, _) = inner.clients, outer.clients
    told, untold = first.subscribe(b"told"), second.subscribe(b"untold")
    both = second.subscribe(b"both")
    atHub = top.subscribe(b"both")
    for pair in pairs:
        pair.sync()
    first.publish(b"untold", b"1")
    first.publish(b"both", b"2")
    second.publish(b"told", b"3")
    for pair in (*pairs, *pairs):
        pair.sync()
    assert (second.arrived(untold), first.arrived(told)) == ([], [b"3"])
    assert top.arrived(atHub) == second.arrived(both) == [b"2"]
    for pair in pairs:
        pair.close()


@pytest.mark.parametrize("hub, spokes", [(OURS_FAST, REAL), (REAL, OURS_FAST)])
def test_siblings(make: Make, hub: Flavour, spokes: Flavour) -> None:
    """Two spokes of one hub receive each other's messages through it."""
    middle = make(hub, "hub")
    remote = remoteTo(middle.leafPort, "a", "A")
    others = [make(spokes, "one", remote), make(OURS_FAST, "two", remote)]
    ends = Ends([(broker, "a") for broker in (others[0], middle, others[1])])
    checked(ends)
    ends.close()


@pytest.mark.parametrize("hubs", [(REAL, OURS_FAST), (REAL, REAL)])
def test_twoUplinks(make: Make, hubs: tuple[Flavour, Flavour]) -> None:
    """A spoke of two hubs gets the messages of both, each once."""
    one, two = (make(flavour, f"hub{place}") for place, flavour in enumerate(hubs))
    login = "nats-leaf://a:a@127.0.0.1"
    more = (
        f'remotes: [ {{url: "{login}:{one.leafPort}", account: A}}, '
        f'{{url: "{login}:{two.leafPort}", account: A}} ]'
    )
    spoke = make(OURS_FAST, "spoke", more)
    above, below = Ends([(one, "a"), (spoke, "a")]), Ends([(two, "a"), (spoke, "a")])
    above.form()
    below.form()
    client, (left, right) = above.clients[1], (above.clients[0], below.clients[0])
    ears = [peer.subscribe(b"up.*") for peer in (client, left, right)]
    above.sync()
    below.sync()
    for number in range(COUNT):
        left.publish(b"up.1", b"l%d" % number)
        right.publish(b"up.2", b"r%d" % number)
        client.publish(b"up.3", b"c%d" % number)
    for ends in (above, below, above):
        ends.sync()
    heard = client.arrived(ears[0])
    assert sorted(heard) == sorted(b"%c%d" % (s, n) for s in b"lrc" for n in range(COUNT))
    for peer, ear in ((left, ears[1]), (right, ears[2])):
        own = [body for body in peer.arrived(ear) if body.startswith(b"c")]
        assert own == [b"c%d" % number for number in range(COUNT)]
    above.close()
    below.close()


CLUSTER = """
cluster {{
    name: C1, listen: "127.0.0.1:-1", pool_size: -1
    authorization {{ user: u, password: p }}
    routes: [ {routes} ]
}}
"""


@pytest.mark.parametrize(
    "members, spoke",
    [
        ((OURS_FAST, OURS_FAST), REAL),
        ((REAL, OURS_FAST), OURS_FAST),
        ((OURS_FAST, REAL), OURS_FAST),
    ],
    ids=lambda value: value.name if isinstance(value, Flavour) else "-".join(x.name for x in value),
)
def test_cluster(make: Make, members: tuple[Flavour, Flavour], spoke: Flavour) -> None:
    """
    A spoke of one member of a cluster receives messages of the other member, and learns its
    address.
    """
    first = make(members[0], "m0", top=CLUSTER.format(routes=""))
    port = first.waitForLog(r"Listening for route connections on \S+:(\d+)")[1]
    routes = f'"nats-route://u:p@127.0.0.1:{port}"'
    second = make(members[1], "m1", top=CLUSTER.format(routes=routes))
    leaf = make(spoke, "leaf", remoteTo(first.leafPort, "a", "A"))
    ends = Ends([(broker, "a") for broker in (first, second, leaf)])
    checked(ends)
    # The other member is where the spoke goes when its own is no more.
    ends.close()
    first.stop()
    rest = Ends([(second, "a"), (leaf, "a")])
    checked(rest)
    rest.close()


@pytest.mark.parametrize("flavour", [OURS_FAST, REAL])
def test_leafCluster(make: Make, flavour: Flavour) -> None:
    """A cluster of leafnodes, each connected to the hub, receives everything once."""
    hub = make(flavour, "hub")
    remote = remoteTo(hub.leafPort, "a", "A")
    first = make(OURS_FAST, "l0", remote, top=CLUSTER.format(routes=""))
    port = first.waitForLog(r"Listening for route connections on \S+:(\d+)")[1]
    routes = f'"nats-route://u:p@127.0.0.1:{port}"'
    second = make(REAL, "l1", remote, top=CLUSTER.format(routes=routes))
    ends = Ends([(broker, "a") for broker in (first, hub, second)])
    checked(ends)
    ends.close()


@pytest.mark.parametrize("flavours", [(OURS_FAST, REAL), (REAL, OURS_FAST)])
def test_loop(make: Make, flavours: tuple[Flavour, Flavour]) -> None:
    """
    Three brokers that are each other's hubs detect the loop, log it, and do not dial again at once.
    """
    one = make(flavours[0], "one")
    two = make(flavours[1], "two", remoteTo(one.leafPort, "a", "A"))
    three = make(flavours[0], "three", remoteTo(two.leafPort, "a", "A"))
    one.reconfigure(remoteTo(three.leafPort, "a", "A"))
    one.restart()
    for server in (one, two, three):
        if re.search("Loop detected for leafnode account", server.log()):
            break
    else:
        one.waitForLog("Loop detected for leafnode")
    client = Client(two)
    ear = client.subscribe(b"loop")
    client.publish(b"loop", b"1")
    assert client.arrived(ear) == [b"1"]
    client.close()


def test_sameCluster(make: Make) -> None:
    """A leafnode with the cluster name of its hub is refused."""
    for hub, spoke in ((OURS_FAST, REAL), (REAL, OURS_FAST)):
        place = f"{hub.name}-{spoke.name}"
        above = make(hub, f"hub-{place}", top=CLUSTER.format(routes=""))
        remote = remoteTo(above.leafPort, "a", "A")
        below = make(spoke, f"leaf-{place}", remote, top=CLUSTER.format(routes=""))
        for server in (above, below):
            server.waitForLog("remote leafnode has same cluster name")
