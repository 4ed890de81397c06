"""
Requests about the cluster itself.
"""

from __future__ import annotations

import json
from typing import Any

from natsbroker.jetstream.model.members import peerId
from natsbroker.wire.values import Kind, Message
from tests.jetstream.cluster.support import ClusterStage
from tests.jetstream.support import Inbox


def asked(stage: ClusterStage, subject: str, body: bytes) -> Any:
    """The one answer to a request of the system account."""
    inbox, bus = Inbox(), stage.system.busFor(Kind.CLIENT)
    subscription = bus.subscribe(b"_INBOX.meta", inbox)
    bus.publish(Message(f"$JS.API.{subject}".encode(), body, b"_INBOX.meta", origin=object()))
    stage.settle()
    subscription.cancel()
    (answer,) = inbox.payloads
    return json.loads(answer)


def test_stepDown() -> None:
    """The system account can move the meta leader to another broker; other accounts cannot."""
    stage = ClusterStage("n1", "n2")
    stage.elapse(2)

    def ask(body: bytes) -> Any:
        return asked(stage, "META.LEADER.STEPDOWN", body)

    def meta() -> list[str]:
        return [name for name, leadership in stage.leaderships.items() if leadership.isMeta]

    (first,) = meta()
    (second,) = {"n1", "n2"} - {first}
    assert stage.answers("META.LEADER.STEPDOWN") == []
    answer = ask(b"x")
    assert (answer["type"], answer["success"]) == (
        "io.nats.jetstream.api.v1.meta_leader_stepdown_response",
        True,
    )
    assert meta() == [second]
    answer = ask(json.dumps({"placement": {"preferred": second}}).encode())
    assert answer["error"]["err_code"] == 10005
    assert ask(b"")["success"]
    assert meta() == [first]
    stage.end()


def test_remove() -> None:
    """
    SERVER.REMOVE makes all brokers forget a dead broker until it joins again. A living broker is
    not removed.
    """
    stage = ClusterStage("n1", "n2", "n3")
    stage.make("S", num_replicas=3)
    events, bus = Inbox(), stage.system.busFor(Kind.CLIENT)
    bus.subscribe(b"$JS.EVENT.ADVISORY.SERVER.REMOVED", events)
    for body, error in [
        (b"", 10003),
        (b"{}", 10003),
        (b'{"peer":"n9"}', 10044),
        (b'{"peer":"n2"}', 10075),
    ]:
        assert asked(stage, "SERVER.REMOVE", body)["error"]["err_code"] == error
    stage.kill("n3")
    stage.elapse(3)
    body = json.dumps({"peer": "", "peer_id": peerId("n3")}).encode()
    assert asked(stage, "SERVER.REMOVE", body) == {
        "type": "io.nats.jetstream.api.v1.meta_server_remove_response",
        "success": True,
    }
    (event,) = map(json.loads, events.payloads)
    assert (event["server"], event["server_id"]) == ("n3", peerId("n3"))
    stage.elapse(2)
    for name in ("n1", "n2"):
        assert sorted(stage.leaderships[name].members.members) == ["n1", "n2"]
    assert len(stage.ask("STREAM.INFO.S")["cluster"]["replicas"]) == 1
    assert asked(stage, "SERVER.REMOVE", b'{"peer":"n3"}')["error"]["err_code"] == 10044
    stage.add("n3")
    stage.elapse(2)
    assert sorted(stage.leaderships["n1"].members.members) == ["n1", "n2", "n3"]
    stage.end()
