"""Tests for L{natsbroker.leafnodes.leafz}; nats-server's page is compared elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from natsbroker.leafnodes.pages import LeafFacts, leafFacts
from tests.leafnodes.leaves import Broker, Wire
from tests.monitoring.staging import Stage


class View:
    """
    The leafnodes of a broker.
    """

    def __init__(self, *wires: Wire) -> None:
        self._wires = wires

    def leafs(self) -> Iterable[LeafFacts]:
        return [leafFacts(wire.leaf) for wire in self._wires]


def showing(*wires: Wire) -> Stage:
    """
    The pages of a broker with these leafnodes.
    """
    stage = Stage()
    stage.model.links["leaf"].view = View(*wires)
    return stage


def test_pageWithoutLeafnodes() -> None:
    """Without leafnodes there are none."""
    page = Stage().page("/leafz")
    assert (page["server_id"], page["leafnodes"], page["leafs"]) == ("ID", 0, [])


def test_leaf() -> None:
    """A leafnode is shown with nats-server's keys."""
    broker = Broker()
    wire = broker.spoke(name="below")
    wire.send(b"LS+ foo\r\nLMSG x 2\r\nhi\r\n")
    broker.publish(b"foo", b"12345")
    (row,) = showing(wire).page("/leafz")["leafs"]
    rtt = row.pop("rtt")
    assert isinstance(rtt, str)
    assert row == {
        "id": 1,
        "name": "below",
        "is_spoke": False,
        "account": "A",
        "ip": "127.0.0.9",
        "port": 50000,
        "in_msgs": 1,
        "out_msgs": 1,
        "in_bytes": 2,
        "out_bytes": 5,
        "subscriptions": 1,
        "compression": "not supported",
    }


def test_parameters() -> None:
    """Subjects are listed where that is asked for, and one account alone can be shown."""
    broker = Broker()
    wire = broker.spoke(isolate=True)
    wire.send(b"LS+ foo\r\n")
    stage = showing(wire, broker.hub())
    first, second = stage.page("/leafz", subs="1")["leafs"]
    assert first["subscriptions_list"] == ["foo"] and "subscriptions_list" not in second
    assert first["is_isolated"] is True and second["is_spoke"] is True
    assert stage.page("/leafz", acc="A")["leafnodes"] == 2
    assert stage.page("/leafz", acc="B")["leafnodes"] == 0


def test_bounded() -> None:
    """However much a peer is subscribed to, a row is not too long."""
    broker = Broker()
    wire = broker.spoke()
    long = b"x" * 3900
    wire.send(b"".join(b"LS+ %d.%b\r\n" % (number, long) for number in range(200)))
    (row,) = showing(wire).page("/leafz", subs="1")["leafs"]
    assert row["subscriptions"] == 200 and row["truncated"] is True
    assert 100 < len(row["subscriptions_list"]) < 200


@pytest.mark.parametrize("value", ["maybe", "2"])
def test_invalidFlagIsRefused(value: str) -> None:
    """A parameter that makes no sense is refused."""
    assert "subs" in Stage().refusal("/leafz", subs=value)


def test_facts() -> None:
    """Everything that is shown, of either side."""
    broker = Broker()
    spoke, hub = broker.spoke(name="below", isolate=True), broker.hub()
    spoke.send(b"LS+ foo\r\nLS+ bar q 2\r\nLMSG x 2\r\nhi\r\n")
    broker.publish(b"foo", b"12345")
    facts = leafFacts(spoke.leaf)
    assert (facts.name, facts.isSpoke, facts.isIsolated, facts.account) == (
        "below",
        False,
        True,
        "A",
    )
    assert (facts.host, facts.port, facts.subscriptions) == ("127.0.0.9", 50000, 2)
    assert facts.traffic == (1, 2, 1, 5) and sorted(facts.patterns) == [b"bar", b"foo"]
    assert leafFacts(hub.leaf).isSpoke and leafFacts(hub.leaf).name == "peer"
    spoke.transport.hangUp()
    broker.settle()
    assert list(leafFacts(spoke.leaf).patterns) == []
