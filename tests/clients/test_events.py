"""The events about connecting and disconnecting clients, for the system account."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest

from natsbroker.clients import events as clientevents
from natsbroker.connections import labels
from natsbroker.connections.labels import clientLabel
from natsbroker.errors import Unauthorized
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.server.support import Client, Host
from tests.support import Doorkeeper, Recorder

ACCOUNTS = """
accounts {
    SYS { users: [ { user: sys, password: sys } ] }
    A { users: [ { user: a, password: a } ] }
}
system_account: SYS
server_name: here
"""


def login(user: str, password: str, **more: Any) -> bytes:
    """The CONNECT of a user."""
    options = {"verbose": False, "user": user, "pass": password, **more}
    return b"CONNECT " + json.dumps(options).encode() + b"\r\n"


def events(client: Client) -> list[tuple[str, dict[str, Any]]]:
    """Subject and document of each event that came, without the server's status."""
    lines = client.receive().replace(b"PING\r\n", b"").split(b"\r\n")
    received = []
    for head, body in zip(lines[::2], lines[1::2], strict=False):
        received.append((head.split(b" ")[1].decode(), json.loads(body)))
    return [
        (subject, document) for subject, document in received if not subject.endswith(".STATSZ")
    ]


def listening(text: str = ACCOUNTS) -> tuple[Host, Client]:
    """A broker, and a client of its system account that receives all events."""
    host = Host(text).start()
    host.advance(1)
    client = host.client(login("sys", "sys"))
    client.ask(b"SUB $SYS.> 1\r\n")
    return host, client


class TestEvents:
    """Events of single clients."""

    def test_connect(self) -> None:
        """A client that connects is described in an event, without its password."""
        host, listener = listening()
        host.client(login("a", "a", name="me", lang="py", version="1.2"))
        [(subject, event)] = events(listener)
        assert subject == "$SYS.ACCOUNT.A.CONNECT"
        assert list(event) == ["type", "id", "timestamp", "server", "client"]
        assert event["type"] == "io.nats.server.advisory.v1.client_connect"
        assert len(event["id"]) == 22
        assert event["server"]["id"] == host.broker.serverId
        assert event["server"]["name"] == "here"
        client = event["client"]
        del client["start"], client["host"]
        assert client == {
            "id": 2,
            "acc": "A",
            "user": "a",
            "name": "me",
            "lang": "py",
            "ver": "1.2",
            "name_tag": "A",
            "kind": "Client",
            "client_type": "nats",
        }

    def test_disconnect(self) -> None:
        """A client that disconnects is described with its traffic and the reason."""
        host, listener = listening()
        client = host.client(login("a", "a"))
        client.ask(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")
        events(listener)
        client.transport.hangUp()
        host.settle()
        [(subject, event)] = events(listener)
        assert subject == "$SYS.ACCOUNT.A.DISCONNECT"
        assert event["type"] == "io.nats.server.advisory.v1.client_disconnect"
        assert event["sent"] == event["received"] == {"msgs": 1, "bytes": 2}
        assert event["reason"] == "Client Closed"
        assert event["client"]["user"] == "a"
        assert {"start", "stop"} <= set(event["client"])

    def test_wrongPasswordIsAnEvent(self) -> None:
        """A wrong password is an event of the server, and of the global account."""
        host, listener = listening()
        host.client(login("a", "wrong"))
        received = events(listener)
        assert [subject for subject, _ in received] == [
            f"$SYS.SERVER.{host.broker.serverId}.CLIENT.AUTH.ERR",
            "$SYS.ACCOUNT.$G.DISCONNECT",
        ]
        for _, event in received:
            assert event["reason"] == "Authentication Failure"
            assert (event["client"]["acc"], event["client"]["user"]) == ("$G", "a")
            assert "wrong" not in json.dumps(event)

    def test_fullAccount(self) -> None:
        """A client for which its account has no room is an event of the account."""
        host, listener = listening(ACCOUNTS.replace("A {", "A { limits { max_connections: 1 },"))
        host.client(login("a", "a"))
        events(listener)
        host.client(login("a", "a", name="late"))
        [(subject, event)] = events(listener)
        assert subject == "$SYS.ACCOUNT.A.DISCONNECT"
        assert event["reason"] == "Maximum Account Connections Exceeded"
        client = event["client"]
        assert [client[key] for key in ("acc", "user", "name", "name_tag")] == [
            *("A", "a", "late", "A")
        ]

    def test_noEventWithoutConnect(self) -> None:
        """A client that never sent CONNECT causes no event."""
        host, listener = listening()
        silent = host.client(b"")
        host.advance(5)
        assert silent.closed
        assert events(listener) == []

    def test_papers(self) -> None:
        """
        A user with a JWT is described with the JWT and its issuer, also after it has disconnected.
        """
        grant = Grant("A", "u", jwt="eyJ.x.y", issuer="AKEY", tags=("t:1",))
        host = Host(ACCOUNTS, authorizer=Doorkeeper(lambda request: grant)).start()
        recorder = Recorder()
        host.broker.bus("SYS").subscribe(b"$SYS.ACCOUNT.A.*", recorder)
        client = host.client(login("u", "x"))
        client.transport.hangUp()
        host.settle()
        clients = [json.loads(body)["client"] for body in recorder.bodies]
        for peer in clients:
            assert list(peer)[-6:] == [
                *("jwt", "issuer_key", "name_tag", "tags", "kind", "client_type")
            ]
            assert [peer["jwt"], peer["issuer_key"], peer["tags"]] == ["eyJ.x.y", "AKEY", ["t:1"]]
        assert ["stop" in peer for peer in clients] == [False, True]

    def test_refusedByCallout(self) -> None:
        """An account learns which client its auth callout service has denied, and why."""
        denial = Unauthorized("no way")
        denial.asked = "A"

        def deny(request: ConnectRequest) -> Grant:
            raise denial

        host = Host(ACCOUNTS, authorizer=Doorkeeper(deny, required=True)).start()
        recorder = Recorder()
        host.broker.bus("A").subscribe(b"$SYS.ACCOUNT.CLIENT.AUTH.ERR", recorder)
        host.client(login("bob", "secret", name="me"))
        (body,) = recorder.bodies
        event = json.loads(body)
        assert list(event)[-3:] == ["sent", "received", "reason"]
        assert event["type"] == "io.nats.server.advisory.v1.client_disconnect"
        client = event["client"]
        assert [client[key] for key in ("acc", "user", "name", "name_tag")] == [
            *("A", "bob", "me", "$G")
        ]
        assert event["reason"] == "no way"
        assert "secret" not in json.dumps(event)

    def test_nobodyListens(self) -> None:
        """No event is made without a subscriber, so that the next event is number 1."""
        host = Host(ACCOUNTS).start()
        host.client(login("a", "a"))
        listener = host.client(login("sys", "sys"))
        listener.ask(b"SUB $SYS.> 1\r\n")
        host.client(login("a", "a"))
        [(_, event)] = events(listener)
        assert event["server"]["seq"] == 1

    def test_noSystemAccount(self) -> None:
        """Without a system account no event is published, and clients connect as usual."""
        host = Host("no_system_account: true").start()
        client = host.client(b"CONNECT {}\r\nSUB > 1\r\n")
        client.receive()
        host.client(b"CONNECT {}\r\n").transport.hangUp()
        host.settle()
        assert client.receive() == b""


def test_nobodyListens(monkeypatch: pytest.MonkeyPatch) -> None:
    """No description of a client is made for an event without a subscriber."""
    host = Host(ACCOUNTS).start()
    made = Mock(wraps=clientLabel)
    monkeypatch.setattr(labels, "clientLabel", made)
    describe = Mock()
    monkeypatch.setattr(clientevents, "clientInfoOf", describe)
    client = host.client(login("a", "a"))
    client.transport.hangUp()
    host.advance(1)
    assert (made.call_count, describe.call_count) == (0, 0)
