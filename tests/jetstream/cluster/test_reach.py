"""
A database that cannot be reached.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from natsbroker.interfaces.records import StoreFailed
from natsbroker.jetstream.cluster.reach import QUORUM_LOST, StoreReach
from natsbroker.runtime.deadlines import Deadlines
from tests.jetstream.cluster.support import ClusterStage


def test_trouble() -> None:
    """
    The database is in trouble from a failed or overdue request until a later one succeeds. Lasting
    trouble is reported once.
    """
    clock = Clock()
    lost: list[float] = []
    reach = StoreReach(Deadlines(clock, clock.seconds), 3.0, lambda: lost.append(clock.seconds()))
    reach.asked()
    clock.advance(2)
    assert reach.trouble == ""
    clock.advance(2)
    assert reach.trouble == "the database does not answer"
    reach.answered()
    assert reach.trouble == ""
    for _ in range(12):
        reach.asked()
        reach.failed("gone")
        assert reach.trouble == "gone"
        clock.advance(1)
    assert lost == [4 + QUORUM_LOST]
    reach.answered()
    reach.asked()
    reach.failed("gone")
    reach.close()
    clock.advance(2 * QUORUM_LOST)
    assert len(lost) == 1


def test_unreachable() -> None:
    """
    While the database is unreachable, requests get an error at once and health checks fail.
    QUORUM_LOST advisories follow after a delay.
    """
    stage = ClusterStage("n1", "n2")
    stage.make("S", num_replicas=2)
    stage.make("T")
    consumer = {"durable_name": "d", "ack_policy": "explicit"}
    stage.ask("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": consumer})
    inbox = stage.inbox(b"$JS.EVENT.ADVISORY.*.QUORUM_LOST.>")
    for store in stage.stores.values():
        store.isReachable = False
    for subject in ("STREAM.NAMES", "STREAM.CREATE.U", "STREAM.INFO.NONE"):
        (answer,) = stage.answers(subject, {"name": "U"} if "CREATE" in subject else b"")
        assert answer["error"]["err_code"] == 10008
    stage.elapse(2)
    assert {service.trouble for service in stage.services.values()} == {"unreachable"}
    assert inbox.got == []
    stage.elapse(QUORUM_LOST + 5)
    told = [(message.subject, json.loads(message.payload)) for message in inbox.got]
    assert sorted(subject.decode().split(".QUORUM_LOST.")[1] for subject, _ in told) == ["S", "S.d"]
    assert {len(event["replicas"]) for _, event in told} == {2}
    for store in stage.stores.values():
        store.isReachable = True
    stage.elapse(2)
    assert {service.trouble for service in stage.services.values()} == {""}
    assert stage.ask("STREAM.NAMES")["total"] == 2
    stage.end()


def test_silent() -> None:
    """
    If the database stops answering, each API request gets one error after the time of a lease.
    """
    stage = ClusterStage("n1", "n2")
    stage.make("S")
    stage.make("T")
    waiting: list[Deferred[Any]] = []

    def silent(*_: object) -> Deferred[Any]:
        waiting.append(Deferred())
        return waiting[-1]

    stores: list[Any] = list(stage.stores.values())
    for store in stores:
        store.census = store.peek = silent
    stage.elapse(6)
    requests = {"STREAM.CREATE.U": {"name": "U"}, "STREAM.UPDATE.S": {"name": "S"}}
    for subject in ("INFO", "STREAM.LIST", "STREAM.INFO.S", "CONSUMER.LIST.T", *requests):
        (answer,) = stage.answers(subject, requests.get(subject, b""))
        assert answer["error"]["err_code"] == 10008
    for store in stores:
        del store.census, store.peek
    for deferred in waiting:
        deferred.errback(StoreFailed("the connection is lost"))
    stage.elapse(6)
    assert stage.ask("STREAM.NAMES")["streams"] == ["S", "T"]
    stage.end()
