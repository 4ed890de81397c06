"""Tests for L{natsbroker.leafnodes.leafz}; nats-server's page is compared elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from natsbroker.leafnodes.leafz import Leafz
from natsbroker.leafnodes.registry import LeafLink
from natsbroker.monitoring.answers import complete
from tests.leafnodes.leaves import Broker, Wire
from tests.monitoring.staging import Stage


class View:
    """
    The leafnodes of a broker.
    """

    def __init__(self, *wires: Wire) -> None:
        self._wires = wires

    def leafs(self) -> Iterable[LeafLink]:
        return [wire.leaf for wire in self._wires]


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


def test_gone() -> None:
    """A leafnode that goes while the page is made keeps its account and lists nothing."""
    broker = Broker()
    wire = broker.spoke()
    wire.send(b"LS+ foo\r\n")
    page = Leafz(cast(Any, Stage().model.links["leaf"]._state))
    page.view = cast(Any, View(wire))
    listing = complete(page.steps(True))
    wire.transport.hangUp()
    broker.settle()
    (row,) = [row for row in listing.rows if row is not None]
    assert (row["account"], row["subscriptions"]) == ("A", 0)
