"""The views: their contents for pages of nats-server that are cut down to the relevant members."""

from __future__ import annotations

import json

import pytest

from natsbroker.monitoring.top.tables import View, tableFrom
from natsbroker.monitoring.top.views import SERVER, VIEWS

PAGES = {
    "Connections": b"""{"total": 1, "connections": [{"cid": 6, "type": "nats", "ip": "127.0.0.1",
        "port": 47300, "rtt": "595us", "uptime": "22s", "idle": "0s", "pending_bytes": 0,
        "in_msgs": 323, "out_msgs": 422, "in_bytes": 11695, "out_bytes": 7063, "subscriptions": 4,
        "name": "worker", "lang": "python3", "version": "2.16.0", "authorized_user": "a",
        "account": "A"}]}""",
    "Subjects": b"""{"total": 4, "subscriptions_list": [
        {"account": "A", "subject": "jobs", "qgroup": "q", "sid": "1", "msgs": 3, "cid": 1},
        {"account": "A", "subject": "jobs", "qgroup": "q", "sid": "2", "msgs": 4, "cid": 2},
        {"account": "A", "subject": "jobs", "sid": "3", "msgs": 7, "cid": 2},
        {"account": ["x"], "subject": "$SYS.x", "sid": "3", "msgs": "7", "cid": 2}]}""",
    "Accounts": b"""{"account_statz": [{"acc": "A", "name": "A", "conns": 1, "leafnodes": 0,
        "num_subscriptions": 5, "sent": {"msgs": 1, "bytes": 2}, "received": {"msgs": 3,
        "bytes": 4}, "slow_consumers": 0}]}""",
    "Streams": b"""{"account_details": [{"name": "B"}, {"name": "A", "stream_detail": [
        {"name": "ORDERS", "cluster": {"leader": "n1"}, "state": {"messages": 100, "bytes": 13800,
        "first_seq": 1, "last_seq": 100, "num_subjects": 1, "consumer_count": 1}}]}]}""",
    "Consumers": b"""{"account_details": [{"name": "A", "stream_detail": [{"name": "ORDERS",
        "consumer_detail": [{"stream_name": "ORDERS", "name": "c1", "delivered":
        {"consumer_seq": 12, "stream_seq": 10}, "ack_floor": {"consumer_seq": 1, "stream_seq": 2},
        "num_ack_pending": 9, "num_redelivered": 2, "num_waiting": 0, "num_pending": 90}]}]}]}""",
    "Channels": b"""{"total": 1, "channels": [{"name": "foo", "msgs": 3, "bytes": 93,
        "first_seq": 1, "last_seq": 3, "subscriptions": [{"pending_count": 2, "is_stalled": true},
        {"pending_count": 1, "is_stalled": false}]}]}""",
    "Closed": b"""{"total": 1, "connections": [{"cid": 7, "type": "nats", "ip": "127.0.0.1",
        "port": 47302, "start": "2026-11-28T01:59:00.1234Z", "stop": "2026-11-28T02:00:00.5678Z",
        "reason": "Slow Consumer (Pending Bytes)", "uptime": "1m0s", "idle": "0s",
        "pending_bytes": 70000, "in_msgs": 1, "out_msgs": 2, "in_bytes": 3, "out_bytes": 4,
        "subscriptions": 1, "name": "sleepy", "lang": "go", "version": "1.2",
        "authorized_user": "a", "account": "A"}]}""",
    "Routes": b"""{"num_routes": 1, "routes": [{"rid": 4, "remote_id": "NB", "remote_name": "two",
        "did_solicit": true, "is_configured": true, "ip": "127.0.0.1", "port": 6222,
        "rtt": "1.5ms", "uptime": "1m0s", "idle": "2s", "pending_size": 5, "in_msgs": 1,
        "out_msgs": 2, "in_bytes": 3, "out_bytes": 4, "subscriptions": 6, "account": "SYS",
        "compression": "s2_fast"}, {"rid": 5, "remote_name": "two", "did_solicit": false}]}""",
    "Gateways": b"""{"name": "A", "outbound_gateways": {"B": {"configured": true, "connection":
        {"cid": 5, "ip": "127.0.0.1", "port": 7222, "rtt": "1ms", "uptime": "5s", "idle": "1s",
        "pending_bytes": 0, "in_msgs": 1, "out_msgs": 2, "in_bytes": 3, "out_bytes": 4,
        "subscriptions": 0, "name": "NB"}, "accounts": [{"name": "$G", "interest_mode":
        "Optimistic"}, {"name": "SYS", "interest_mode": "Interest-Only"},
        {"name": "X", "interest_mode": "Interest-Only"}]}, "C": null, "D": {"connection": 1}},
        "inbound_gateways": {"B": [{"configured": true, "connection": {"cid": 6, "ip": "127.0.0.1",
        "port": 7223}}], "C": 1}}""",
    "Leafnodes": b"""{"leafnodes": 1, "leafs": [{"id": 9, "name": "edge", "is_spoke": false,
        "account": "A", "ip": "127.0.0.1", "port": 7422, "rtt": "2ms", "in_msgs": 1, "out_msgs": 2,
        "in_bytes": 3, "out_bytes": 4, "subscriptions": 5, "compression": "off"},
        {"id": 10, "name": "hub", "is_spoke": true, "account": "B", "ip": "::1", "port": 1}]}""",
}

ROWS = {
    "Connections": [
        "127.0.0.1:47300 6 worker A a 4 0B 422 323 6.9KB 11.4KB python3 2.16.0 nats "
        "595\u00b5s 22s 0s"
    ],
    "Subjects": ["jobs q A 2 7", "jobs A 1 7", "$SYS.x 1 0"],
    "Accounts": ["A 1 0 5 1 3 2B 4B 0"],
    "Streams": ["ORDERS A 100 13.5KB 1 1 1 100 n1"],
    "Consumers": ["c1 ORDERS A 90 9 2 0 10 2"],
    "Channels": ["foo 3 93B 1 3 2 3 1"],
    "Closed": [
        "127.0.0.1:47302 7 sleepy A a 2026-11-28 02:00:00 Slow Consumer (Pending Bytes) 1m0s "
        "1 68.4KB 2 1 4B 3B go 1.2"
    ],
    "Routes": ["two 127.0.0.1:6222 4 out SYS 6 5B 2 1 4B 3B s2_fast 1.5ms 1m0s 2s", "two : 5 in"],
    "Gateways": [
        "B 127.0.0.1:7222 5 out Interest-Only, Optimistic 0 0B 2 1 4B 3B 1ms 5s 1s",
        "B 127.0.0.1:7223 6 in",
    ],
    "Leafnodes": [
        "edge 127.0.0.1:7422 9 spoke A 5 2 1 4B 3B off 2ms",
        "hub ::1:1 10 hub B",
    ],
}


def texts(view: View, body: bytes) -> list[str]:
    """The rows as texts, without empty cells."""
    rows = tableFrom(view, json.loads(body), 0.0).rows
    cells = [zip(view.columns, row.values, strict=True) for row in rows]
    return [" ".join(filter(None, (column.textOf(cell) for column, cell in row))) for row in cells]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.title)
def test_rows(view: View) -> None:
    """Each view shows the rows of its page."""
    assert texts(view, PAGES[view.title]) == ROWS[view.title]


def test_internal() -> None:
    """Subjects of the server are marked as internal."""
    rows = tableFrom(VIEWS[1], json.loads(PAGES["Subjects"]), 0.0).rows
    assert [row.isInternal for row in rows] == [False, False, True]


def test_server() -> None:
    """The server has a row with name, version and uptime."""
    body = b'{"server_id": "N1", "server_name": "one", "version": "2.15.1", "uptime": "1m1s"}'
    assert texts(SERVER, body) == ["one 2.15.1 1m1s"]


def test_keys() -> None:
    """Each view has a key of its own, and each column of a view a title of its own."""
    assert [view.key for view in VIEWS] == list("1234567890")
    for view in VIEWS:
        titles = [column.title for column in view.columns]
        assert len(set(titles)) == len(titles)
