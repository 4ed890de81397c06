"""
Which broker answers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from natsbroker.jetstream.api.ordering import RequestOrder
from natsbroker.jetstream.cluster.accountcluster import HELD, AccountCluster
from natsbroker.jetstream.cluster.routing import _placementIn
from natsbroker.jetstream.model.streamconfig import Placement
from natsbroker.jetstream.storenames import logName
from natsbroker.wire.values import Message
from tests.jetstream.cluster.support import ClusterStage, SharedStore


@pytest.mark.parametrize(
    "subject", ["INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.S", "STREAM.INFO.NONE"]
)
def test_oneAnswer(subject: str) -> None:
    """Each request has one answer, from one broker."""
    stage = ClusterStage("n1", "n2", "n3")
    stage.make("R")
    stage.make("S")
    assert len(stage.answers(subject)) == 1
    stage.end()


def test_spread() -> None:
    """New streams go to the broker that leads least, and every broker shows all."""
    stage = ClusterStage("n1", "n2", "n3")
    for name in "ABCDEF":
        assert stage.make(name)["did_create"]
    assert sorted(map(len, stage.streamsOf().values())) == [2, 2, 2]
    assert stage.ask("STREAM.NAMES")["streams"] == list("ABCDEF")
    listed = stage.ask("STREAM.LIST")
    assert [stream["config"]["name"] for stream in listed["streams"]] == list("ABCDEF")
    assert "missing" not in listed
    assert stage.ask("INFO")["streams"] == 6
    stage.end()


def test_lostWhileWaiting() -> None:
    """A broker that loses a stream while requests for it wait does not answer those requests."""
    stage = ClusterStage("n1", "n2")
    stage.make("S")
    dispatcher: Any = stage.services[stage.leader()]._dispatchers["A"]
    lock = dispatcher._orders["S"] = RequestOrder()
    stage.wait(lock.acquire())
    assert stage.answers("STREAM.PURGE.S") == []
    inbox = stage.inbox(b"_INBOX.api")
    dispatcher._router._cluster.lost(logName("A", "S"))
    lock.release()
    stage.settle()
    assert inbox.payloads == []
    stage.end()


class HandOver:
    """
    A leader that is stepping down, held up between giving up its lease and the next leader's start.

    @ivar inbox: where answers come to.
    """

    def __init__(self) -> None:
        self.stage = stage = ClusterStage("n1", "n2", "n3")
        stage.make("S")
        self.old = stage.leader()
        store: Any = stage.stores[self.old]
        giveUp, self._released = store.giveUp, Deferred[None]()
        store.giveUp = lambda name: self._released.addCallback(lambda _: giveUp(name))
        cluster = self.clusterOf(self.old)
        self.inbox = stage.inbox(b"_INBOX.held")
        leaving = cluster.account.streams["S"]
        self._leaving = ensureDeferred(cluster.stepDown(leaving, Placement()))

    def clusterOf(self, name: str) -> AccountCluster:
        return self.stage.leaderships[name].clusters["A"]

    def ask(self, subject: str) -> None:
        self.stage.send(b"$JS.API." + subject.encode(), b"", b"_INBOX.held")
        self.stage.settle()

    def end(self) -> list[dict[str, Any]]:
        """Let the next leader start, and return all answers."""
        self._released.callback(None)
        for _ in range(5):
            self.stage.clock.advance(0)
            self.stage.settle()
        return [json.loads(payload) for payload in self.inbox.payloads]


class TestHandOver:
    """Requests while nobody leads a stream, because it is being handed over."""

    def test_held(self) -> None:
        """Requests during a handover are answered by the next leader, once each."""
        moving = HandOver()
        for subject in ("STREAM.INFO.S", "CONSUMER.NAMES.S", "STREAM.PURGE.S"):
            moving.ask(subject)
        assert moving.inbox.payloads == []
        info, names, purged = moving.end()
        assert info["cluster"]["leader"] != moving.old
        assert (names["total"], purged["success"]) == (0, True)
        moving.stage.end()

    def test_waitingBefore(self) -> None:
        """
        A request that waits at the old leader when the stream moves is answered by the next leader.
        """
        moving = HandOver()
        dispatcher: Any = moving.stage.services[moving.old]._dispatchers["A"]
        lock = dispatcher._orders["S"] = RequestOrder()
        moving.stage.wait(lock.acquire())
        moving.clusterOf(moving.old)._moving.clear()
        moving.ask("STREAM.PURGE.S")
        moving.clusterOf(moving.old).account.streams.pop("S", None)
        lock.release()
        moving.stage.settle()
        (answer,) = moving.end()
        assert answer["success"]
        moving.stage.end()

    @pytest.mark.parametrize("isPassedOnFirst", [False, True])
    def test_once(self, isPassedOnFirst: bool) -> None:
        """
        A request that reaches the next leader directly and from the old leader is carried out once.
        """
        moving = HandOver()
        moving.end()
        stage, leader = moving.stage, moving.stage.leader()
        message = Message(b"$JS.API.STREAM.PURGE.S", b"", b"_INBOX.held")

        def passOn() -> None:
            stage.wait(moving.clusterOf(moving.old).passOn(leader, message, isHeld=True))
            stage.settle()

        if isPassedOnFirst:
            passOn()
        moving.ask("STREAM.PURGE.S")
        if not isPassedOnFirst:
            passOn()
        assert len(moving.inbox.payloads) == 1
        stage.elapse(HELD)
        passOn()
        assert len(moving.inbox.payloads) == 1
        stage.end()

    def test_bounded(self) -> None:
        """A request during a handover does not wait for ever."""
        moving = HandOver()
        moving.ask("STREAM.INFO.S")
        moving.stage.clock.advance(HELD)
        assert moving.end() == []
        moving.stage.end()


def test_changes() -> None:
    """
    The leader of a stream answers repeated creations and updates. Both are checked against the
    streams of other leaders.
    """
    stage = ClusterStage("n1", "n2")
    stage.make("A")
    stage.make("B")
    assert stage.make("A")["did_create"]
    assert stage.make("B", max_msgs=5)["error"]["err_code"] == 10058
    assert stage.make("C", subjects=["a.x"])["error"]["err_code"] == 10065
    body: dict[str, Any] = {"name": "B", "subjects": ["b.>", "a.x"]}
    assert stage.ask("STREAM.UPDATE.B", body)["error"]["err_code"] == 10065
    changed = {**body, "subjects": ["b.>"], "max_msgs": 7}
    assert stage.ask("STREAM.UPDATE.B", changed)["config"]["max_msgs"] == 7
    assert stage.ask("STREAM.UPDATE.NONE", {"name": "NONE"})["error"]["err_code"] == 10059
    stage.end()


def test_placement() -> None:
    """Replicas and placement are checked against the known brokers of the cluster."""
    stage = ClusterStage("n1", "n2", "n3")
    stage.elapse(2)
    assert stage.make("A", placement={"tags": ["az:n3"]})["cluster"]["leader"] == "n3"
    assert stage.make("B", num_replicas=4)["error"]["err_code"] == 10005
    for placement in ({"cluster": "ZZ"}, {"tags": ["nope"]}):
        assert stage.make("B", placement=placement)["error"]["err_code"] == 10005
    shown = stage.make("C", num_replicas=3)["cluster"]
    assert len(shown["replicas"]) == 2
    assert shown["leader"] not in [replica["name"] for replica in shown["replicas"]]
    consumer = {"durable_name": "d", "ack_policy": "explicit", "num_replicas": 2}
    body = {"stream_name": "C", "config": consumer}
    shown = stage.ask("CONSUMER.DURABLE.CREATE.C.d", body)["cluster"]
    assert shown["raft_group"].startswith("C-R2F-")
    stage.end()


def test_newBroker() -> None:
    """A broker that has just joined counts for the replicas of a stream if it runs JetStream."""
    stage = ClusterStage("n1", "n2")
    stage.elapse(2)
    SharedStore(stage.leases).introduce("NATS Streaming")
    assert stage.make("A", num_replicas=3)["error"]["err_code"] == 10005
    stage.stores["n3"] = store = SharedStore(stage.leases)
    store.introduce("jetstream n3")
    assert len(stage.make("A", num_replicas=3)["cluster"]["replicas"]) == 2
    stage.end()


def test_aloneInNoCluster() -> None:
    """
    A broker without a cluster name keeps its streams under leases, shows no cluster, and refuses
    replicas.
    """
    stage = ClusterStage()
    stage.cluster = ""
    stage.add("n1")
    assert stage.make("A", num_replicas=3)["error"]["err_code"] == 10074
    assert "cluster" not in stage.make("A")
    assert stage.ask("STREAM.LEADER.STEPDOWN.A")["error"]["err_code"] == 10010
    stage.end()


def test_fewerBrokers() -> None:
    """
    While a broker is dead, a stream with its replicas can be updated, but the replicas cannot be
    raised beyond the living brokers.
    """
    stage = ClusterStage("n1", "n2", "n3")
    stage.make("A", num_replicas=3)
    (victim, _) = sorted({"n1", "n2", "n3"} - {stage.leader("A")})
    stage.kill(victim)
    stage.elapse(3)
    body: dict[str, Any] = {"name": "A", "subjects": ["a.>"], "num_replicas": 3}
    assert stage.ask("STREAM.UPDATE.A", {**body, "max_msgs": 7})["config"]["max_msgs"] == 7
    changed = stage.ask("STREAM.UPDATE.A", {**body, "num_replicas": 1, "max_msgs": 7})
    assert changed["config"]["num_replicas"] == 1
    assert len(changed["cluster"]) == 2
    assert stage.ask("STREAM.UPDATE.A", body)["error"]["err_code"] == 10005
    stage.end()


def test_deleted() -> None:
    """A name is free again when its stream is deleted, on every broker."""
    stage = ClusterStage("n1", "n2")
    for _ in range(4):
        assert stage.make("A")["did_create"]
        assert stage.ask("STREAM.DELETE.A")["success"]
        assert stage.ask("STREAM.INFO.A")["error"]["err_code"] == 10059
    stage.end()


def test_deeplyNested() -> None:
    """A request that is nested too deeply to parse has no placement."""
    body = b'{"name":"S","x":' + b"[" * 2000 + b"]" * 2000 + b"}"
    assert _placementIn(body) is None
