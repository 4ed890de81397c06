"""
Direct get by brokers that do not lead.
"""

from __future__ import annotations

import json

from natsbroker.jetstream.cluster.views import REREAD
from tests.jetstream.cluster.support import ClusterStage


def got(stage: ClusterStage, subject: str = "S.s.x", body: bytes = b"") -> list[bytes]:
    """The payloads that a request of direct get is answered with."""
    inbox = stage.inbox(b"_INBOX.direct")
    stage.send(f"$JS.API.DIRECT.GET.{subject}".encode(), body, b"_INBOX.direct")
    stage.settle()
    return inbox.payloads


def test_withoutLeader() -> None:
    """
    While a stream has no leader, direct get serves the stored messages. New messages can be read as
    soon as they are stored.
    """
    stage = ClusterStage("n1", "n2", "n3")
    stage.make("S", allow_direct=True)
    stage.make("T")
    stage.publish(b"s.x", b"1")
    stage.elapse(2)
    stage.kill(stage.leader())
    assert stage.answers("STREAM.INFO.S") == []
    assert got(stage) == [b"1"]
    assert got(stage, "S", b'{"seq":1,"batch":5}')[0] == b"1"
    stage.elapse(3)
    for number in range(2, 10):
        assert json.loads(stage.publish(b"s.x", b"%d" % number))["seq"] == number
        assert got(stage) == [b"%d" % number]
    for _ in range(5):
        assert got(stage, "T.t.x") in ([], [b""])
    stage.end()


def test_follows() -> None:
    """A changed configuration is followed after some looks. A deleted stream is not answered."""
    stage = ClusterStage("n1", "n2")
    config = {"name": "S", "subjects": ["s.>"], "allow_direct": True}
    stage.make("S")
    stage.publish(b"s.x", b"1")
    assert stage.ask("STREAM.UPDATE.S", config)["config"]["allow_direct"]
    stage.elapse(REREAD + 1)
    stage.kill(stage.leader())
    assert got(stage) == [b"1"]
    stage.elapse(3)
    assert stage.ask("STREAM.DELETE.S")["success"]
    stage.elapse(1)
    assert got(stage) == []
    stage.end()


def test_unreachable() -> None:
    """Without the database the answer is an error."""
    stage = ClusterStage("n1", "n2")
    stage.make("S", allow_direct=True)
    stage.elapse(2)
    stage.kill(stage.leader())
    for store in stage.stores.values():
        store.isReachable = False
    inbox = stage.inbox(b"_INBOX.direct")
    stage.send(b"$JS.API.DIRECT.GET.S", b'{"seq":1}', b"_INBOX.direct")
    stage.settle()
    assert inbox.got[0].headers == b"NATS/1.0 500 unreachable\r\n\r\n"
    for store in stage.stores.values():
        store.isReachable = True
    stage.end()
