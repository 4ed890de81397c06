"""
Requests about the cluster itself.
"""

from __future__ import annotations

import json
from typing import Any

from natsbroker.wire.values import Kind, Message
from tests.jetstream.cluster.support import ClusterStage
from tests.jetstream.support import Inbox


def test_stepDown() -> None:
    """The system account has another broker answer; no other account has."""
    stage = ClusterStage("n1", "n2")
    stage.elapse(2)

    def ask(body: bytes) -> Any:
        inbox, bus = Inbox(), stage.system.busFor(Kind.CLIENT)
        subscription = bus.subscribe(b"_INBOX.meta", inbox)
        bus.publish(Message(b"$JS.API.META.LEADER.STEPDOWN", body, b"_INBOX.meta", 0))
        stage.settle()
        subscription.cancel()
        (answer,) = inbox.payloads
        return json.loads(answer)

    def meta() -> list[str]:
        return [name for name, each in stage.leaderships.items() if each.isMeta]

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
