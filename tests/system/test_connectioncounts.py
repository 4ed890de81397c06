"""
Tests of L{natsbroker.system.connectioncounts}.
"""

from __future__ import annotations

import json
from typing import Any

from tests.server.support import Host
from tests.support import Recorder

TEXT = """
    listen: "127.0.0.1:4222", server_name: n1
    accounts { A { users: [ {user: a, password: a} ] }, $SYS {} }
"""
HELLO = b'CONNECT {"verbose":false,"user":"a","pass":"a"}\r\nPING\r\n'


class Counted:
    """A broker with a subscriber to its events."""

    def __init__(self, pattern: bytes) -> None:
        self.host = Host(TEXT).start()
        self.recorder = Recorder()
        self.host.broker.bus("$SYS").subscribe(pattern, self.recorder)

    def after(self, seconds: float) -> list[tuple[bytes, Any]]:
        """The subjects and events after some time."""
        self.recorder.got.clear()
        self.host.advance(seconds)
        return [(message.subject, json.loads(message.payload)) for message, _ in self.recorder.got]


def test_changes() -> None:
    """Clients that connect and leave are counted, several within a moment in one event."""
    stage = Counted(b"$SYS.ACCOUNT.*.SERVER.CONNS")
    clients = [stage.host.client(HELLO) for _ in range(2)]
    ((subject, event),) = stage.after(1.0)
    assert subject == b"$SYS.ACCOUNT.A.SERVER.CONNS"
    assert event["type"] == "io.nats.server.advisory.v1.account_connections"
    assert (event["server"]["name"], event["acc"]) == ("n1", "A")
    assert (event["conns"], event["leafnodes"], event["total_conns"]) == (2, 0, 2)
    clients[0].transport.hangUp()
    ((_, event),) = stage.after(1.0)
    assert event["conns"] == 1


def test_oldSubject() -> None:
    """If only the old subject of the event has a subscriber, it is published there alone."""
    stage = Counted(b"$SYS.SERVER.ACCOUNT.*.CONNS")
    stage.host.client(HELLO)
    assert [subject for subject, _ in stage.after(1.0)] == [b"$SYS.SERVER.ACCOUNT.A.CONNS"]


def test_unheard() -> None:
    """Without a subscriber no event is counted."""
    stage = Counted(b"other")
    stage.host.client(HELLO)
    assert stage.after(1.0) == []
