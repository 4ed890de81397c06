"""
An account's part in a cluster.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import fail

from natsbroker.interfaces.records import StoreFailed
from natsbroker.jetstream.model.members import peerId
from natsbroker.jetstream.model.streamconfig import Placement
from tests.jetstream.cluster.support import ClusterStage


def test_stepDown() -> None:
    """A leader steps down for the preferred broker, or is refused with the reason."""
    stage = ClusterStage("n1", "n2", "n3")
    stage.elapse(2)
    stage.make("A")
    old = stage.leader("A")
    (wanted, _) = sorted({"n1", "n2", "n3"} - {old})
    body = {"placement": {"preferred": wanted}}
    assert stage.ask("STREAM.LEADER.STEPDOWN.A", body)["success"]
    assert stage.leader("A") == wanted
    for refused, text in (
        ({"preferred": wanted}, f'preferred server "{wanted}" is already leader'),
        ({"preferred": "zz"}, 'preferred server "zz" not known'),
        ({"tags": ["nope"]}, "no replacement peer connected"),
        ({"tags": [f"az:{wanted}"]}, "no replacement peer connected"),
    ):
        error = stage.ask("STREAM.LEADER.STEPDOWN.A", {"placement": refused})["error"]
        assert (error["err_code"], error["description"]) == (10005, text)
    error = stage.ask("STREAM.LEADER.STEPDOWN.A", b"x")["error"]
    assert error["err_code"] == 10008
    assert stage.ask("STREAM.LEADER.STEPDOWN.NONE")["error"]["err_code"] == 10059
    assert stage.ask("STREAM.LEADER.STEPDOWN.A", {"placement": {"tags": ["!az:n9"]}})["success"]
    stage.end()


def test_unsure() -> None:
    """
    A broker whose leases may be over answers reads only if the store confirms that they are not.
    """
    stage = ClusterStage("n1", "n2")
    stage.make("S", allow_direct=True)
    stage.publish(b"s.a", b"1")
    consumer = {"durable_name": "d", "ack_policy": "explicit"}
    stage.ask("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": consumer})
    leader = stage.leader()
    requests: dict[str, Any] = {
        "STREAM.INFO.S": b"",
        "STREAM.MSG.GET.S": {"seq": 1},
        "CONSUMER.INFO.S.d": b"",
        "CONSUMER.LIST.S": b"",
    }
    directs = (b'{"seq":1}', b'{"seq":1,"next_by_subj":">"}', b'{"seq":1,"batch":2}',
               b'{"multi_last":[">"]}')  # fmt: skip
    stage.stores[leader].isSure = False

    def direct(body: bytes) -> bytes:
        inbox = stage.inbox(b"_INBOX.d")
        stage.send(b"$JS.API.DIRECT.GET.S", body, b"_INBOX.d")
        stage.settle()
        return inbox.got[0].headers

    for subject, body in requests.items():
        assert "error" not in stage.ask(subject, body)
    assert not any(direct(request).startswith(b"NATS/1.0 500") for request in directs)
    (other,) = {"n1", "n2"} - {leader}
    stage.leases.logs["jetstream/A/S"] = stage.stores[other]
    for subject, body in requests.items():
        assert stage.ask(subject, body)["error"]["err_code"] == 10008
    assert all(direct(request).startswith(b"NATS/1.0 500") for request in directs)
    stage.end()


def test_removePeer() -> None:
    """
    A request to remove a peer of a stream is refused; an unknown peer has an error of its own.
    """
    stage = ClusterStage("n1", "n2")
    stage.make("A")
    request = "STREAM.PEER.REMOVE.A"
    assert stage.ask(request, {"peer": "n2"})["error"]["err_code"] == 10075
    assert stage.ask(request, {"peer": peerId("n1")})["error"]["err_code"] == 10075
    assert stage.ask(request, {"peer": "n9"})["error"]["err_code"] == 10040
    assert stage.ask(request, {})["error"]["err_code"] == 10003
    assert stage.ask(request)["error"]["err_code"] == 10003
    stage.end()


def test_alternates() -> None:
    """Only STREAM.INFO of a mirrored stream lists alternates: the stream and its mirrors."""
    stage = ClusterStage("n1", "n2", "n3")
    made = stage.make("A")
    for name in ("N", "M"):
        assert "alternates" not in stage.make(name, subjects=[], mirror={"name": "A"})
    stage.elapse(2)
    assert len(set(map(stage.leader, "AMN"))) > 1
    info = stage.ask("STREAM.INFO.A")
    assert info["alternates"] == [
        {"name": stream, "cluster": info["cluster"]["name"]} for stream in "AMN"
    ]
    assert list(info)[-2:] == ["alternates", "ts"]
    assert "alternates" not in stage.ask("STREAM.INFO.M")
    assert all("alternates" not in stream for stream in stage.ask("STREAM.LIST")["streams"])
    assert "alternates" not in made
    stage.end()


def test_alternatesWithoutStore() -> None:
    """A leader that cannot read the configurations of others answers without their names."""
    stage = ClusterStage("n1", "n2")
    stage.make("A")
    stage.make("M", subjects=[], mirror={"name": "A"})
    stage.stores[stage.leader("A")].peek = lambda *_: fail(StoreFailed("it is away"))  # type: ignore[method-assign]
    info = stage.ask("STREAM.INFO.A")
    assert "alternates" not in info
    assert info["config"]["name"] == "A"
    stage.end()


def test_missing() -> None:
    """STREAM.LIST names streams without a living leader as missing."""
    stage = ClusterStage("n1", "n2", "n3")
    for name in "ABC":
        stage.make(name)
    (meta,) = [name for name, leadership in stage.leaderships.items() if leadership.isMeta]
    (victim, _) = sorted({"n1", "n2", "n3"} - {meta})
    (lost,) = stage.streamsOf()[victim]
    stage.kill(victim)
    shown = stage.ask("STREAM.LIST")
    assert (len(shown["streams"]), shown["missing"], shown["total"]) == (2, [lost], 3)
    stage.end()


def test_unfinished() -> None:
    """A log without a configuration is the rest of an interrupted creation, and is dropped."""
    stage = ClusterStage("n1", "n2")
    stage.wait(stage.stores["n1"].open("jetstream/A/X"))
    del stage.leases.logs["jetstream/A/X"]
    stage.elapse(3)
    assert "jetstream/A/X" not in stage.leases.known
    assert stage.make("X")["did_create"]
    stage.end()


def test_stateLeaseBeforeLog() -> None:
    """
    A new stream takes the lease of its state before it creates its log. Another broker drops a log
    without a configuration only under that lease, so it never drops the log of a stream that is
    being created.
    """
    stage = ClusterStage("n1")
    store = stage.stores["n1"]
    openLog, holders = store.open, []

    def opened(name: str, create: bool = True) -> Any:
        holders.append(stage.leases.spaces.get("jetstream/A/A"))
        return openLog(name, create)

    store.open = opened  # type: ignore[method-assign]
    stage.make("A")
    assert holders == [store]
    stage.end()


def test_memoryConsumer() -> None:
    """
    A consumer with C{mem_storage} continues at its position under the next leader, because its
    state is shared too.
    """
    stage = ClusterStage("n1", "n2")
    stage.make("A", storage="memory")
    config = {"durable_name": "d", "ack_policy": "none", "mem_storage": True}
    stage.ask("CONSUMER.DURABLE.CREATE.A.d", {"stream_name": "A", "config": config})
    stage.publish(b"a.x", b"1")
    inbox = stage.inbox(b"_INBOX.pull")
    stage.send(b"$JS.API.CONSUMER.MSG.NEXT.A.d", b"1", b"_INBOX.pull")
    stage.settle()
    assert inbox.payloads == [b"1"]
    old = stage.leader("A")
    cluster = stage.leaderships[old].clusters["A"]
    stage.wait(cluster.stepDown(stage.services[old].accounts["A"].streams["A"], Placement()))
    stage.settle()
    info = stage.ask("CONSUMER.INFO.A.d")
    assert (info["delivered"]["stream_seq"], info["num_pending"]) == (1, 0)
    stage.end()
