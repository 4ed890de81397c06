"""
Tests for L{natsbroker.leafnodes.leafz}. Other tests compare the page with nats-server's.
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from natsbroker.leafnodes.leafz import Leafz
from natsbroker.monitoring.answers import complete
from natsbroker.wire.values import Message
from tests.leafnodes.leaves import Broker, Wire
from tests.leafnodes.pairs import HUB, SPOKE, Leafy
from tests.monitoring.staging import Stage
from tests.server.support import Host, settingsOf


def showing(*wires: Wire) -> Stage:
    """
    The pages of a broker with these leafnodes.
    """
    stage = Stage()
    stage.model.links["leaf"].leafs = [wire.leaf for wire in wires]
    return stage


def test_pageWithoutLeafnodes() -> None:
    """Without leafnodes the page lists none."""
    page = Stage().page("/leafz")
    assert (page["server_id"], page["leafnodes"], page["leafs"]) == ("ID", 0, [])


def test_leaf() -> None:
    """A leafnode has the keys of nats-server."""
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
    """Subjects are listed on request, and a named account is shown alone."""
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
    """A row has a limited length, however many subscriptions its leafnode has."""
    broker = Broker()
    wire = broker.spoke()
    long = b"x" * 3900
    wire.send(b"".join(b"LS+ %d.%b\r\n" % (number, long) for number in range(200)))
    (row,) = showing(wire).page("/leafz", subs="1")["leafs"]
    assert row["subscriptions"] == 200 and row["truncated"] is True
    assert 100 < len(row["subscriptions_list"]) < 200


@pytest.mark.parametrize("value", ["maybe", "2"])
def test_invalidFlagIsRefused(value: str) -> None:
    """An invalid parameter is refused."""
    assert "subs" in Stage().refusal("/leafz", subs=value)


def test_gone() -> None:
    """
    A leafnode that disconnects while the page is made keeps its account and lists no subjects.
    """
    broker = Broker()
    wire = broker.spoke()
    wire.send(b"LS+ foo\r\n")
    page = Leafz(cast(Any, Stage().model.links["leaf"]._state))
    page.leafs = [wire.leaf]
    listing = complete(page.steps(True))
    wire.transport.hangUp()
    broker.settle()
    (row,) = [row for row in listing.rows if row is not None]
    assert (row["account"], row["subscriptions"]) == ("A", 0)


def page(host: Host, path: str, **query: str) -> Any:
    """A monitoring page of a broker."""
    answer = host.broker.monitoring.answer(path, query)
    assert answer is not None
    return json.loads(b"".join(answer.body))


def test_hub() -> None:
    """The page of a hub lists and counts its leafnodes."""
    host = Leafy(HUB).start()
    host.peer()
    (row,) = page(host, "/leafz")["leafs"]
    assert (row["name"], row["is_spoke"], row["account"]) == ("peer", False, "A")
    varz = page(host, "/varz")
    assert varz["leafnodes"] == 1
    assert (varz["leaf"]["host"], varz["leaf"]["auth_timeout"]) == ("127.0.0.1", 2)
    assert varz["slow_consumer_stats"]["leafs"] == 0


def test_connz() -> None:
    """C{/connz} has leafnodes like clients: by number, by account, and after their end."""
    host = Leafy(HUB).start()
    client = host.client(b'CONNECT {"verbose":false,"user":"a","pass":"a"}\r\n')
    peer = host.peer(version="2.15.1")
    peer.send(b"LS+ foo\r\nLS+ bar q 1\r\n")
    host.settle()
    rows = page(host, "/connz", acc="A", auth="1", subs="detail")["connections"]
    assert [(row["cid"], row["kind"]) for row in rows] == [(1, "Client"), (2, "Leafnode")]
    row = rows[1]
    assert "type" not in row and "lang" not in row
    keys = ("name", "version", "authorized_user", "account", "subscriptions")
    assert [row[key] for key in keys] == ["peer", "2.15.1", "a", "A", 2]
    listed = row["subscriptions_list_detail"]
    assert [subscription["sid"] for subscription in listed] == ["foo", "bar q"]
    assert [connection["kind"] for connection in page(host, "/connz")["connections"]] == [
        "Client",
        "Leafnode",
    ]
    assert page(host, "/connz", cid="2")["connections"][0]["kind"] == "Leafnode"
    assert page(host, "/connz", acc="B")["total"] == 0
    assert page(host, "/varz")["total_connections"] == 1
    peer.hangUp()
    client.transport.hangUp()
    host.settle()
    gone = page(host, "/connz", state="closed", subs="1")["connections"]
    assert [(row["kind"], row["reason"]) for row in gone] == [
        ("Client", "Client Closed"),
        ("Leafnode", "Client Closed"),
    ]
    assert (gone[1]["subscriptions"], gone[1]["subscriptions_list"]) == (2, ["foo", "bar"])


def test_kicked() -> None:
    """A leafnode is closed by its number, like a client, and others stay."""
    host = Leafy(HUB).start()
    host.client(b'CONNECT {"verbose":false,"user":"a","pass":"a"}\r\n')
    peer = host.peer()
    bus = host.broker.bus("$SYS")
    subject = f"$SYS.REQ.SERVER.{host.broker.serverId}.KICK".encode()
    bus.publish(Message(subject, b'{"cid":2}', reply=b"r", origin=object()))
    host.settle()
    assert not peer.connected
    rows = page(host, "/connz", state="all")["connections"]
    assert [row.get("reason") for row in rows] == [None, "Kicked"]


def test_dialledInConnz() -> None:
    """A leafnode that we dialled has no name, no user and no version in C{/connz}."""
    host = Leafy(SPOKE).start()
    host.answer()
    (row,) = page(host, "/connz", auth="1")["connections"]
    assert (row["kind"], row["account"]) == ("Leafnode", "B")
    assert not {"name", "version", "authorized_user"} & row.keys()


def test_spoke() -> None:
    """Remotes are shown without secrets."""
    host = Leafy(SPOKE.replace("}", ", deny_exports: x}")).start()
    host.answer()
    (row,) = page(host, "/leafz")["leafs"]
    assert (row["is_spoke"], row["account"]) == (True, "B")
    varz = page(host, "/varz")
    assert varz["leaf"] == {
        "remotes": [{"local_account": "B", "urls": ["10.0.0.1:7422"], "deny": {"exports": ["x"]}}]
    }
    assert "u:p@" not in json.dumps(varz)


@pytest.mark.parametrize("kind", [Leafy, Host])
def test_noLeafnodes(kind: type[Host]) -> None:
    """The page of a broker without leafnodes is empty, with and without a leafnodes block."""
    host = kind("").start()
    assert page(host, "/leafz")["leafnodes"] == 0
    varz = page(host, "/varz")
    assert (varz["leaf"], varz["leafnodes"]) == ({}, 0)
    assert varz["slow_consumer_stats"]["leafs"] == 0


def test_addedByReload() -> None:
    """Remotes that a reload adds to a broker without leafnodes are shown."""
    accounts = "port: 4222, server_name: n1, accounts { A {}, B {} }"
    host = Host(accounts).start()
    host.broker.reload(settingsOf(f"{accounts}\nleafnodes {{ {SPOKE} }}"))
    (remote,) = page(host, "/varz")["leaf"]["remotes"]
    assert remote["urls"] == ["10.0.0.1:7422"]
