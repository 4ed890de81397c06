"""
The brokers that share a JetStream.
"""

from __future__ import annotations

from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.members import JetStreamPeer, JetStreamPeers, peerId, replicasOf
from natsbroker.jetstream.model.streamconfig import Placement, StreamConfig

MEMBERS = JetStreamPeers(
    "C1",
    "n1",
    {
        "n1": JetStreamPeer("n1", tags=("ssd",)),
        "n2": JetStreamPeer("n2", 0.25, tags=("SSD", "eu")),
        "n3": JetStreamPeer("n3", 9.0, isAlive=False, tags=("ssd",)),
    },
)


def test_fitting() -> None:
    """
    A placement selects brokers by cluster and by tags in any case, and excludes those with tags
    after C{!}.
    """
    assert MEMBERS.fitting(None) == ["n1", "n2"]
    assert MEMBERS.fitting(Placement("C1", ("ssd",))) == ["n1", "n2"]
    assert MEMBERS.fitting(Placement(tags=("ssd", "!eu"))) == ["n1"]
    assert MEMBERS.fitting(Placement("C2")) == []


def test_shown() -> None:
    """
    The info of a replicated stream shows its group and the other brokers, dead ones as offline.
    """
    stream = StreamConfig(name="S", num_replicas=3)
    shown = MEMBERS.shownStream(stream, 1_700_000_000_000_000_000)
    assert list(shown) == ["name", "raft_group", "leader", "leader_since", "replicas"]
    assert shown["raft_group"] == f"S-R3F-{peerId('S')}"
    assert shown["replicas"] == [
        {"name": "n2", "current": True, "active": 250_000_000, "peer": peerId("n2")},
        {
            "name": "n3",
            "current": False,
            "offline": True,
            "active": 9_000_000_000,
            "peer": peerId("n3"),
        },
    ]
    assert [replica["name"] for replica in MEMBERS.replicas(2)] == ["n2"]
    assert [peer["name"] for peer in MEMBERS.group(2)] == ["n1", "n2"]
    single = MEMBERS.shownStream(StreamConfig(name="S", num_replicas=1), 1)
    assert single == {"name": "C1", "leader": "n1"}


def test_metaCluster() -> None:
    """The meta cluster shows the other brokers, and its leader if there is one."""
    shown = MEMBERS.metaCluster()
    assert "leader" not in shown
    assert [replica["name"] for replica in shown["replicas"]] == ["n2", "n3"]
    assert (shown["cluster_size"], shown["quorum_needed"]) == (3, 1)
    shown = JetStreamPeers("C1", "n1", MEMBERS.members, "n2").metaCluster()
    assert (shown["leader"], shown["peer"]) == ("n2", peerId("n2"))


def test_consumers() -> None:
    """
    A durable consumer has the replicas of its stream, unless it names a number. Others have one
    replica.
    """
    stream = StreamConfig(name="S", num_replicas=3)
    assert replicasOf(stream, ConsumerConfig(durable_name="d")) == 3
    assert replicasOf(stream, ConsumerConfig(durable_name="d", num_replicas=2)) == 2
    assert replicasOf(stream, ConsumerConfig(name="e")) == 1
    shown = MEMBERS.shownConsumer(stream, "d", ConsumerConfig(durable_name="d"), 1)
    assert shown["raft_group"] == f"C-R3F-{peerId('S.d')}"


def test_taker() -> None:
    """
    All living brokers agree which of them takes over a log, and the logs are spread over them.
    """
    logs = [f"jetstream/A/{number}" for number in range(64)]
    other = JetStreamPeers("C1", "n2", MEMBERS.members)
    takers = [MEMBERS.taker(log) for log in logs]
    assert takers == [other.taker(log) for log in logs]
    assert 16 < takers.count("n1") < 48
    assert takers.count("n3") == 0
