"""
Tests for L{natsbroker.leafnodes.events}. Keys and values are those of nats-server 2.15.1.
"""

from __future__ import annotations

import json
from typing import Any

from natsbroker.advisories import LeafConnected
from tests.leafnodes.pairs import HUB, SPOKE, Leafy
from tests.support import Recorder

GATEWAY = '}\ngateway { name: C, listen: "127.0.0.1:7322"'

ENDED = ["sent", "received", "reason"]


class Listener:
    """A broker, and the events that its system account receives about leafnodes."""

    def __init__(self, text: str) -> None:
        self.host = Leafy(text)
        self.host.reactor.advance(1000.0)
        self.host.start()
        self._recorder = Recorder()
        bus = self.host.broker.bus("$SYS")
        for subject in (b"$SYS.ACCOUNT.>", b"$SYS.SERVER.*.CLIENT.AUTH.ERR"):
            bus.subscribe(subject, self._recorder)

    def events(self) -> dict[str, Any]:
        """The events since the last call, by subject, without the numbers of connections."""
        self.host.settle()
        got = list(self._recorder.got)
        del self._recorder.got[:]
        server = self.host.broker.serverId
        documents = {
            message.subject.decode().replace(server, "ID"): json.loads(message.body)
            for message, _ in got
        }
        return {
            subject: document for subject, document in documents.items() if "CONNS" not in subject
        }


def test_accepted() -> None:
    """A leafnode that connects has an event with its user, and its end has one with its traffic."""
    listener = Listener(HUB)
    peer = listener.host.peer(name="leafy", version="2.15.1")
    events = listener.events()
    assert list(events) == ["$SYS.ACCOUNT.A.CONNECT"]
    event = events["$SYS.ACCOUNT.A.CONNECT"]
    assert list(event) == ["type", "id", "timestamp", "server", "client"]
    assert event["type"] == "io.nats.server.advisory.v1.client_connect"
    client = event["client"]
    keys = ["start", "host", "id", "acc", "user", "name", "ver", "name_tag", "kind"]
    assert list(client) == keys
    assert [client[key] for key in keys[3:]] == ["A", "a", "leafy", "2.15.1", "A", "Leafnode"]
    peer.send(b"LMSG foo 2\r\nhi\r\n")
    listener.host.settle()
    peer.hangUp()
    event = listener.events()["$SYS.ACCOUNT.A.DISCONNECT"]
    assert list(event) == ["type", "id", "timestamp", "server", "client", *ENDED]
    assert event["type"] == "io.nats.server.advisory.v1.client_disconnect"
    assert list(event["client"]) == [*keys[:7], "rtt", "stop", *keys[7:]]
    assert [event[key] for key in ENDED] == [
        {"msgs": 1, "bytes": 2},
        {"msgs": 0, "bytes": 0},
        "Client Closed",
    ]


def test_dialled() -> None:
    """A leafnode that this broker has dialled has no user and no name in its local account."""
    listener = Listener(SPOKE)
    peer = listener.host.answer()
    client = listener.events()["$SYS.ACCOUNT.B.CONNECT"]["client"]
    assert list(client) == ["start", "host", "id", "acc", "name_tag", "kind"]
    peer.hangUp()
    event = listener.events()["$SYS.ACCOUNT.B.DISCONNECT"]
    assert list(event["client"]) == [
        *("start", "host", "id", "acc", "rtt", "stop", "name_tag", "kind")
    ]
    assert event["server"]["cluster"] == "n1"


def test_wrongPasswordIsNoEventOfAnAccount() -> None:
    """A leafnode that is denied has no event in an account."""
    listener = Listener(HUB)
    listener.host.peer(**{"pass": "wrong", "name": "leafy", "version": "2.15.1"})
    events = listener.events()
    assert list(events) == ["$SYS.SERVER.ID.CLIENT.AUTH.ERR"]
    event = events["$SYS.SERVER.ID.CLIENT.AUTH.ERR"]
    client = event["client"]
    assert list(client) == [
        *("start", "host", "id", "acc", "user", "name", "ver", "rtt", "stop", "kind")
    ]
    assert (client["acc"], client["user"], client["kind"]) == ("N/A", "a", "Leafnode")
    assert event["reason"] == "Authentication Failure"


def test_gateways() -> None:
    """With gateways, an event announces that an account has a leafnode."""
    listener = Listener(HUB + GATEWAY)
    listener.host.peer()
    events = listener.events()
    assert list(events) == ["$SYS.ACCOUNT.A.CONNECT", "$SYS.ACCOUNT.A.LEAFNODE.CONNECT"]
    event = events["$SYS.ACCOUNT.A.LEAFNODE.CONNECT"]
    assert list(event) == ["server", "acc"]
    assert (event["server"]["name"], event["acc"]) == ("n1", "A")


def test_unknownConnection() -> None:
    """An advisory about a closed connection has no event."""
    listener = Listener(HUB)
    listener.host.broker._parts.observers.notify(LeafConnected(99, "A", "u"))
    assert listener.events() == {}
