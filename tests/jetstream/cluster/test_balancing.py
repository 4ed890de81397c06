"""
Streams that move to brokers that join.
"""

from __future__ import annotations

from natsbroker.jetstream.cluster.balancing import AT_ONCE, LeaderBalance, Move, movable
from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.members import JetStreamPeer, JetStreamPeers
from natsbroker.jetstream.model.streamconfig import Placement
from tests.jetstream.cluster.support import ClusterStage
from tests.jetstream.support import Stage


def peers(*names: str) -> JetStreamPeers:
    """Brokers that are alive."""
    return JetStreamPeers("C1", "n1", {name: JetStreamPeer(name) for name in names})


def test_decision() -> None:
    """
    After a broker has joined, streams move from the broker that leads most to the one that leads
    fewest, until their numbers are even.
    """
    balance = LeaderBalance()
    two, three = peers("n1", "n2"), peers("n1", "n2", "n3")
    assert balance.seen(two, {"n1": 6}) is None
    assert balance.seen(two, {"n1": 6}) is None
    assert balance.seen(three, {"n1": 5, "n2": 4}) == Move("n1", "n3", 2)
    assert balance.seen(three, {"n1": 3, "n2": 4, "n3": 2}) == Move("n2", "n3", 1)
    assert balance.seen(three, {"n1": 3, "n2": 3, "n3": 3}) is None
    assert balance.seen(three, {"n1": 9}) is None
    assert balance.seen(two, {"n1": 9}) is None
    assert balance.seen(three, {"n1": 100}) == Move("n1", "n2", AT_ONCE)
    balance.settled()
    assert balance.seen(three, {"n1": 100}) is None


def test_movable() -> None:
    """
    Streams whose placement excludes the new broker do not move. Of the others, those with few
    consumers move first.
    """
    stage = Stage()
    busy = stage.stream(name="A", subjects=("a",))
    busy.consumers.add(Consumer(busy, "d", ConsumerConfig(durable_name="d"), 0))
    idle = stage.stream(name="B", subjects=("b",))
    kept = stage.stream(name="C", subjects=("c",), placement=Placement(tags=("nvme",)))
    assert movable([busy, idle, kept], peers("n1", "n2"), "n2") == [idle, busy]


def test_joins() -> None:
    """
    A broker that joins gets an equal share of the streams. Streams that then step down for it stay
    there.
    """
    stage = ClusterStage("n1")
    for name in "ABCDEF":
        stage.make(name)
    stage.publish(b"a.x", b"1")
    stage.add("n2")
    stage.elapse(6)
    assert sorted(map(len, stage.streamsOf().values())) == [3, 3]
    assert stage.ask("STREAM.INFO.A")["state"]["messages"] == 1
    for name in stage.streamsOf()["n1"]:
        assert stage.ask(f"STREAM.LEADER.STEPDOWN.{name}")["success"]
    stage.elapse(6)
    assert stage.streamsOf()["n1"] == []
    stage.end()


def test_leaving() -> None:
    """A broker that is about to leave receives nothing."""
    stage = ClusterStage("n1")
    for name in "ABCD":
        stage.make(name)
    stage.add("n2")
    stage.wait(stage.services["n2"].leave())
    for name in list(stage.streamsOf()["n2"]):
        raise AssertionError(name)
    stage.elapse(6)
    assert stage.streamsOf()["n1"] == list("ABCD")
    stage.end()
