"""
Taking streams, and letting them go.
"""

from __future__ import annotations

import json
from itertools import chain

from twisted.internet.defer import fail

from natsbroker.config.model import JetStream
from natsbroker.interfaces.records import StoreFailed
from natsbroker.jetstream.cluster.leadership import META
from natsbroker.jetstream.figures import JetStreamFigures
from natsbroker.jetstream.model.limits import AccountAllowance
from tests.jetstream.cluster.support import ClusterStage


def test_takeover() -> None:
    """When a broker dies, the other brokers take over its streams, with messages and consumers."""
    stage = ClusterStage("n1", "n2", "n3")
    for name in "ABCDEF":
        stage.make(name, num_replicas=3)
        assert json.loads(stage.publish(b"%b.x" % name.lower().encode(), b"1"))["seq"] == 1
    consumer = {"durable_name": "d", "ack_policy": "explicit"}
    stage.ask("CONSUMER.DURABLE.CREATE.A.d", {"stream_name": "A", "config": consumer})
    elected = stage.inbox(b"$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.*")
    victim = stage.leader("A")
    stage.kill(victim)
    assert stage.answers("STREAM.INFO.A") == []
    stage.elapse(3)
    assert stage.leader("A") != victim
    assert sorted(chain(*stage.streamsOf().values())) == list("ABCDEF")
    for name in "ABCDEF":
        assert json.loads(stage.publish(b"%b.x" % name.lower().encode(), b"2"))["seq"] == 2
    info = stage.ask("CONSUMER.INFO.A.d")
    assert (info["num_pending"], info["cluster"]["leader"]) == (2, stage.leader("A"))
    dead = [replica for replica in info["cluster"]["replicas"] if replica["name"] == victim]
    assert dead[0]["offline"] is True
    advisories = [json.loads(payload) for payload in elected.payloads]
    assert {advisory["stream"] for advisory in advisories} == {"A", "D"}
    assert len(advisories[0]["replicas"]) == 3
    stage.end()


def test_accountLosesAndRegainsJetStream() -> None:
    """
    An account that loses JetStream and gets it back is served at once, with its former streams.
    """
    stage = ClusterStage("n1", "n2")
    stage.make("A")
    stage.make("B")
    for service in stage.services.values():
        service.change("A", None)
    stage.settle()
    assert stage.answers("STREAM.NAMES") == []
    assert not [log for log in stage.leases.logs if log.startswith("jetstream/A/")]
    for service in stage.services.values():
        service.change("A", AccountAllowance())
    stage.settle()
    assert stage.ask("STREAM.NAMES")["streams"] == ["A", "B"]
    stage.elapse(2)
    assert sorted(chain(*stage.streamsOf().values())) == ["A", "B"]
    stage.publish(b"a.x")
    assert stage.ask("STREAM.INFO.A")["state"]["messages"] == 1
    stage.end()


def test_accountGetsJetStreamLater() -> None:
    """An account that gets JetStream while the broker runs is served in the cluster."""
    stage = ClusterStage("n1")
    stage.services["n1"].change("B", AccountAllowance())
    stage.settle()
    assert sorted(stage.services["n1"].accounts) == ["A", "B"]
    assert sorted(stage.leaderships["n1"].clusters) == ["A", "B"]
    stage.services["n1"].change("A", None)
    stage.settle()
    assert stage.make("S")["did_create"]
    assert list(stage.services["n1"].accounts["B"].streams) == ["S"]
    stage.end()


def test_meta() -> None:
    """A meta leader that is dead is replaced by another broker."""
    stage = ClusterStage("n1", "n2")
    stage.make("A")
    (first,) = [name for name, leadership in stage.leaderships.items() if leadership.isMeta]
    stage.kill(first)
    assert stage.answers("STREAM.NAMES") == []
    stage.elapse(3)
    assert stage.ask("STREAM.NAMES")["streams"] == ["A"]
    stage.end()


def test_figures() -> None:
    """
    Monitoring of every broker shows the same meta leader, and as its own streams those that the
    broker leads.
    """
    stage = ClusterStage("n1", "n2")
    stage.make("A", num_replicas=2)
    stage.elapse(2)
    shown = {}
    for name, service in stage.services.items():
        figures = JetStreamFigures(service.accounts, JetStream(), "", lambda: True)
        shown[name] = figures.cluster()["meta_cluster"]["leader"]
        streams = service.accounts["A"].streams
        assert figures.counts(True)["streams_leader"] == len(streams)
        for stream in streams.values():
            row = stage.wait(figures.stream(stream, name))
            assert row["cluster"]["leader"] == name == stage.leader("A")
            assert len(row["cluster"]["replicas"]) == 1
    (meta,) = set(shown.values())
    assert stage.leaderships[meta].isMeta
    stage.end()


def test_fenced() -> None:
    """
    A broker that loses the lease of a stream to another broker refuses publishes and stops serving
    the stream.
    """
    stage = ClusterStage("n1", "n2")
    stage.make("A")
    old = stage.leader("A")
    (new,) = {"n1", "n2"} - {old}
    stage.leases.logs["jetstream/A/A"] = stage.stores[new]
    assert json.loads(stage.publish(b"a.x"))["error"]["err_code"] == 10077
    stage.leaderships[old].lost("jetstream/A/A")
    stage.settle()
    assert stage.streamsOf()[old] == []
    stage.leaderships[old].lost(META)
    assert not stage.leaderships[old].isMeta
    stage.end()


def test_leaveWithoutStore() -> None:
    """The meta leader can leave the cluster while the database is unreachable."""
    stage = ClusterStage("n1", "n2")
    stage.make("A")
    (meta,) = [name for name, leadership in stage.leaderships.items() if leadership.isMeta]
    store = stage.stores[meta]
    store.giveUp = lambda *_: fail(StoreFailed("it is away"))  # type: ignore[method-assign]
    stage.wait(stage.services[meta].leave())
    assert not stage.leaderships[meta].isMeta
    stage.end()


def test_leave() -> None:
    """A broker that leaves gives its streams to the others at once, and takes no more."""
    stage = ClusterStage("n1", "n2", "n3")
    for name in "ABCDEF":
        stage.make(name)
    stage.wait(stage.services["n1"].leave())
    stage.settle()
    assert sorted(map(len, stage.streamsOf().values())) == [0, 3, 3]
    assert not stage.leaderships["n1"].isMeta
    stage.elapse(4)
    assert stage.streamsOf()["n1"] == []
    assert stage.ask("STREAM.NAMES")["total"] == 6
    stage.end()


def test_waitingPull() -> None:
    """Pull requests that wait at a leader that steps down are notified."""
    stage = ClusterStage("n1", "n2")
    stage.make("A")
    consumer = {"durable_name": "d", "ack_policy": "explicit"}
    stage.ask("CONSUMER.DURABLE.CREATE.A.d", {"stream_name": "A", "config": consumer})
    inbox = stage.inbox(b"_INBOX.pull")
    body = b'{"batch":1,"expires":10000000000}'
    stage.send(b"$JS.API.CONSUMER.MSG.NEXT.A.d", body, b"_INBOX.pull")
    stage.settle()
    assert stage.ask("CONSUMER.LEADER.STEPDOWN.A.d")["success"]
    assert inbox.got[0].headers == b"NATS/1.0 409 Leadership Change\r\n\r\n"
    stage.end()
