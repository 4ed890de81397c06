"""
All leafnode connections of a broker, and brokers that are connected by leafnodes.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from twisted.internet.task import Clock

from natsbroker.leafnodes.dialling import DialledLeaf
from natsbroker.wire.values import Kind
from tests.leafnodes.leaves import Broker


class TestBoth:
    """A hub and a spoke."""

    @pytest.fixture
    def pair(self) -> tuple[Broker, Broker]:
        """A hub and a spoke, whose account B is the hub's A."""
        clock = Clock()
        hub, spoke = Broker("hub", clock), Broker("spoke", clock, cluster="LC")
        spoke.join(hub, "B", "A")
        return hub, spoke

    def test_messages(self, pair: tuple[Broker, Broker]) -> None:
        """Messages pass in both directions, between the two accounts only."""
        hub, spoke = pair
        above, below = hub.subscribe(b"up.*"), spoke.subscribe(b"down.>", account="B")
        other = spoke.subscribe(b">", account="A")
        assert spoke.publish(b"up.x", account="B") == 1 and hub.publish(b"down.x.y") == 1
        hub.settle()
        assert (len(above.got), len(below.got), other.got) == (1, 1, [])

    def test_unsubscribing(self, pair: tuple[Broker, Broker]) -> None:
        """A message is not sent after the interest in it has ended."""
        hub, spoke = pair
        ear = hub.subscribe(b"foo")
        assert spoke.publish(b"foo", account="B") == 1
        ear.subscription.cancel()
        hub.settle()
        assert spoke.publish(b"foo", account="B") == 0

    def test_groups(self, pair: tuple[Broker, Broker]) -> None:
        """One member of a queue group gets a message, on the publisher's side if there is one."""
        hub, spoke = pair
        members = [hub.subscribe(b"foo", b"q"), spoke.subscribe(b"foo", b"q", "B")]
        for _ in range(10):
            hub.publish(b"foo", b"hub")
            spoke.publish(b"foo", b"spoke", "B")
        assert [{message.body for message, _ in member.got} for member in members] == [
            {b"hub"},
            {b"spoke"},
        ]
        assert [len(member.got) for member in members] == [10, 10]
        members[0].subscription.cancel()
        for _ in range(10):
            hub.publish(b"foo", b"hub")
        assert len(members[1].got) == 20

    def test_closed(self, pair: tuple[Broker, Broker]) -> None:
        """When one end closes, the other removes its interest, and the spoke dials again."""
        hub, spoke = pair
        hub.subscribe(b"foo")
        done: list[bool] = []
        hub.leafs.close(lambda: done.append(True))
        hub.settle()
        assert done and spoke.publish(b"foo", account="B") == 0
        assert len(spoke.redialled) == 1 and not hub.redialled
        hub.leafs.close(lambda: done.append(True))
        assert len(done) == 2

    def test_lameDuck(self, pair: tuple[Broker, Broker]) -> None:
        """A hub in lame duck mode announces that to spokes."""
        hub, spoke = pair
        hub.leafs.leave()
        hub.settle()
        assert hub.leafs.document()["ldm"] is True and len(spoke.leafs) == 1

    def test_urls(self, pair: tuple[Broker, Broker]) -> None:
        """A spoke receives changed addresses of its hub."""
        hub, spoke = pair
        (leaf,) = spoke.leafs
        assert isinstance(leaf, DialledLeaf)
        hub.leafs.useUrls(["10.0.0.1:1", "10.0.0.2:2"])
        hub.settle()
        assert [str(url) for url in leaf.target.urls][:2] == ["10.0.0.1:1", "10.0.0.2:2"]


def chain(*names: str) -> list[Broker]:
    """Brokers in a row, each of which is the hub of the one before."""
    clock = Clock()
    brokers = [Broker(name, clock, cluster=name) for name in names]
    for spoke, hub in itertools.pairwise(brokers):
        spoke.join(hub)
    return brokers


class TestTopologies:
    """More than two brokers."""

    def test_chain(self) -> None:
        """A message passes a chain of brokers from end to end once, in either direction."""
        brokers = chain("a", "b", "c", "d")
        ears = [broker.subscribe(b"foo") for broker in brokers]
        for broker in brokers:
            broker.publish(b"foo", broker.leafs.identity.server_name.encode())
        for ear in ears:
            assert sorted(message.body for message, _ in ear.got) == [b"a", b"b", b"c", b"d"]
        ears[0].subscription.cancel()
        ears[0].got.clear()
        brokers[3].settle()
        brokers[3].publish(b"foo")
        assert ears[0].got == []

    def test_chainOfGroups(self) -> None:
        """One member of a queue group along a chain gets each message."""
        brokers = chain("a", "b", "c", "d")
        members = [brokers[0].subscribe(b"foo", b"q"), brokers[3].subscribe(b"foo", b"q")]
        for number in range(20):
            brokers[number % 4].publish(b"foo", b"%d" % number)
        got = [message.body for member in members for message, _ in member.got]
        assert len(got) == len(set(got)) == 20

    def test_siblings(self) -> None:
        """Spokes of one hub receive each other's messages through it."""
        clock = Clock()
        hub, one, two = (Broker(name, clock, cluster=name) for name in ("hub", "one", "two"))
        one.join(hub)
        two.join(hub)
        ears = [broker.subscribe(b"foo") for broker in (hub, one, two)]
        one.publish(b"foo")
        assert [len(ear.got) for ear in ears] == [1, 1, 1]

    def test_isolatedSiblings(self) -> None:
        """Isolated siblings do not receive each other's messages."""
        clock = Clock()
        hub = Broker("hub", clock, isolate=True)
        one, two = (Broker(name, clock, cluster=name) for name in ("one", "two"))
        one.join(hub)
        two.join(hub)
        ears = [broker.subscribe(b"foo") for broker in (one, two)]
        one.publish(b"foo", b"1")
        hub.publish(b"foo", b"h")
        assert [[message.body for message, _ in ear.got] for ear in ears] == [[b"1", b"h"], [b"h"]]

    def test_twoUplinks(self) -> None:
        """A spoke of two unconnected hubs gets the messages of both."""
        clock = Clock()
        spoke, one, two = (Broker(name, clock, cluster=name) for name in ("spoke", "one", "two"))
        spoke.join(one)
        spoke.join(two)
        ears = [broker.subscribe(b"foo") for broker in (spoke, one, two)]
        one.publish(b"foo", b"1")
        two.publish(b"foo", b"2")
        assert [message.body for message, _ in ears[0].got] == [b"1", b"2"]
        spoke.publish(b"foo", b"s")
        assert [sum(message.body == b"s" for message, _ in ear.got) for ear in ears] == [1, 1, 1]
        assert not any(broker.redialled for broker in (spoke, one, two))

    def test_loop(self) -> None:
        """A loop of three brokers is detected, and one connection is closed for a while."""
        clock = Clock()
        brokers = [Broker(name, clock, cluster=name) for name in ("a", "b", "c")]
        for spoke, hub in ((0, 1), (1, 2), (2, 0)):
            brokers[spoke].join(brokers[hub])
        brokers[0].settle()
        delays = [delay for broker in brokers for _, delay in broker.redialled]
        assert delays and set(delays) == {30.0}

    def test_self(self) -> None:
        """A broker that dials itself as a leafnode closes the connection."""
        broker = Broker("a")
        broker.join(broker)
        broker.settle()
        assert len(broker.leafs) == 0 and [delay for _, delay in broker.redialled] == [30.0]

    @pytest.mark.parametrize("kind", [Kind.ROUTE, Kind.GATEWAY])
    def test_fromCluster(self, kind: Kind) -> None:
        """A message from another member or cluster is forwarded to spokes."""
        clock = Clock()
        hub, spoke = Broker("hub", clock), Broker("spoke", clock, cluster="LC")
        spoke.join(hub)
        ear = spoke.subscribe(b"foo")
        bus: Any = hub.buses.accounts["A"].busFor(kind)
        bus.publishInternal(b"foo", b"hi")
        hub.settle()
        assert len(ear.got) == 1


class TestDuplicates:
    """Several connections of the same leafnode."""

    def test_replaced(self) -> None:
        """A new connection of a leafnode replaces the older one."""
        broker = Broker()
        old, new = broker.spoke(cluster="LC"), broker.spoke(cluster="LC")
        assert old.lines() == [b"-ERR 'Duplicate Remote LeafNode Connection'"]
        assert old.closed == "Duplicate Remote LeafNode Connection" and not new.closed

    @pytest.mark.parametrize(
        "changes",
        [{"name": "x"}, {"cluster": "x"}, {"remote_account": "y"}, {"remote_account": ""}],
    )
    def test_otherLeafnodesStay(self, changes: dict[str, str]) -> None:
        """Connections of different leafnodes stay."""
        broker = Broker()
        wires = [broker.spoke(cluster="LC"), broker.spoke(**{"cluster": "LC", **changes})]
        assert not any(wire.closed for wire in wires)


def test_redialling() -> None:
    """The connections to a remote can be found and closed."""
    broker = Broker("spoke")
    remote = broker.remote()
    assert not broker.leafs.linksTo(remote)
    wire = broker.hub(remote)
    assert broker.leafs.linksTo(remote)
    broker.leafs.hangUp(remote)
    assert wire.closed == "Client Closed" and not broker.leafs.linksTo(remote)


def test_closing() -> None:
    """A connection that comes while the registry closes is closed at once."""
    broker = Broker()
    broker.leafs.close(lambda: None)
    wire = broker.accepted()
    assert wire.closed == "Server Shutdown"
