"""
Each way in which the broker publishes to a subject that a client chose. It is tried with each
subject that its services answer. None of these messages becomes a request, here or at another
broker.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import natsbroker
from natsbroker.streaming.protocol import (
    CloseRequest,
    ConnectRequest,
    PubMsg,
    SubscriptionRequest,
    SubscriptionResponse,
)
from natsbroker.subjects.mapping import Destination, Mapping, MappingTable
from natsbroker.subjects.requests import PREFIXES, isRequest
from natsbroker.wire.values import Message
from tests.attacks.brokers import ACCOUNTS, AttackedBroker

Way = Callable[[AttackedBroker, str], object]

_NEXT = "$JS.API.CONSUMER.MSG.NEXT.S.c"
_STAN = "test-cluster"


def _store(broker: AttackedBroker, body: bytes = b"{}") -> None:
    broker.publish("s.x", body)


# Ways that a message leaves a stream.


def _pull(broker: AttackedBroker, target: str) -> None:
    for body in (b"{}", b""):
        _store(broker, body)
        broker.publish(_NEXT, {"batch": 1, "no_wait": True}, target)


def _pullStatus(broker: AttackedBroker, target: str) -> None:
    broker.publish("$JS.API.CONSUMER.MSG.NEXT.E.c", {"batch": 1, "no_wait": True}, target)
    broker.publish("$JS.API.CONSUMER.MSG.NEXT.E.c", b"{bad", target)


def _pullHeartbeat(broker: AttackedBroker, target: str) -> None:
    body = {"batch": 1, "expires": 3_000_000_000, "idle_heartbeat": 1_000_000_000}
    broker.publish("$JS.API.CONSUMER.MSG.NEXT.E.c", body, target)
    broker.settle(1.5)
    broker.settle(2)


def _delivered(broker: AttackedBroker) -> str:
    """The acknowledgement subject of a message that was pulled."""
    _store(broker)
    broker.publish("$JS.API.CONSUMER.MSG.NEXT.S.a", {"batch": 1}, "_INBOX.next")
    match = re.search(rb"^MSG \S+ 1 (\$JS\.ACK\.S\.a\.\S+) ", broker.heard(), re.MULTILINE)
    assert match is not None
    return match[1].decode()


def _next(broker: AttackedBroker, target: str) -> None:
    _store(broker)
    broker.publish(_delivered(broker), b"+NXT", target)


def _acknowledged(broker: AttackedBroker, target: str) -> None:
    broker.publish(_delivered(broker), b"+ACK", target)


def _push(broker: AttackedBroker, target: str) -> None:
    """Make a push consumer with idle heartbeats and flow control."""
    config = {
        "name": "p",
        "deliver_subject": target,
        "ack_policy": "none",
        "flow_control": True,
        "idle_heartbeat": 1_000_000_000,
    }
    broker.ask("$JS.API.CONSUMER.CREATE.S.p", {"stream_name": "S", "config": config})
    _store(broker)
    broker.settle(1.5)
    broker.ask("$JS.API.CONSUMER.DELETE.S.p")


def _republish(broker: AttackedBroker, target: str) -> None:
    republish = {"src": "rp.x", "dest": target}
    config = {"name": "RP", "subjects": ["rp.>"], "republish": republish}
    broker.ask("$JS.API.STREAM.CREATE.RP", config)
    broker.publish("rp.x", b"{}")
    broker.ask("$JS.API.STREAM.DELETE.RP")


def _republishStored(way: dict[str, Any]) -> Way:
    """Store messages that do not come from a client, and republish them."""

    def run(broker: AttackedBroker, target: str) -> None:
        _store(broker)
        republish = {"src": "sch.y" if "subjects" in way else "s.x", "dest": target}
        broker.ask("$JS.API.STREAM.CREATE.RP", {"name": "RP", "republish": republish, **way})
        broker.settle(1)
        schedule = {"Nats-Schedule": "@at 1970-01-01T00:00:00Z", "Nats-Schedule-Target": "sch.y"}
        broker.publish("sch.x", b"{}", headers=schedule)
        broker.settle(3)
        broker.ask("$JS.API.STREAM.DELETE.RP")

    return run


def _transform(broker: AttackedBroker, target: str) -> None:
    """Make a stream that transforms the subjects of its messages."""
    transform = {"src": "tr.x", "dest": target}
    config = {"name": "TR", "subjects": ["tr.>"], "subject_transform": transform}
    again = {"republish": {"src": target, "dest": target}}
    broker.ask("$JS.API.STREAM.CREATE.TR", {**config, **again})
    broker.publish("tr.x", b"{}")
    broker.ask("$JS.API.STREAM.DELETE.TR")


def _directGet(broker: AttackedBroker, target: str) -> None:
    for body in ({"seq": 1}, {"seq": 1, "batch": 3}, {"multi_last": ["s.>"]}, {"seq": 10**9}):
        broker.publish("$JS.API.DIRECT.GET.S", body, target)
    broker.publish("$JS.API.DIRECT.GET.S.s.x", b"", target)


def _answers(broker: AttackedBroker, target: str) -> None:
    broker.publish("$JS.API.INFO", b"", target)
    broker.publish("$JS.API.STREAM.MSG.GET.S", {"seq": 1}, target)
    broker.publish("$JS.API.STREAM.MSG.GET.S", {"seq": 10**9}, target)
    broker.publish("$JS.API.STREAM.DELETE.NONE", b"", target)
    broker.publish("$JS.API.STREAM.INFO.S", b"", target)


def _published(broker: AttackedBroker, target: str) -> None:
    """The answers to publishes, confirmed and refused, alone, in a batch and scheduled."""
    broker.publish("s.x", b"{}", target)
    broker.publish("s.x", b"{}", target, headers={"Nats-Expected-Stream": "OTHER"})
    batch = {"Nats-Batch-Id": target.replace(".", "-")[:60]}
    broker.publish("s.x", b"{}", target, headers={**batch, "Nats-Batch-Sequence": "1"})
    end = {"Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
    broker.publish("s.x", b"{}", target, headers={**batch, **end})
    when = "@at 1970-01-01T00:00:00Z"
    schedule = {"Nats-Schedule": when, "Nats-Schedule-Target": target}
    broker.publish("s.y", b"{}", target, headers=schedule)
    broker.settle(2)


def _snapshot(broker: AttackedBroker, target: str) -> None:
    broker.publish("$JS.API.STREAM.SNAPSHOT.S", {"deliver_subject": target}, "_INBOX.s")
    broker.settle(6)


def _restore(broker: AttackedBroker, target: str) -> None:
    body = {"config": {"name": "RS", "subjects": ["rs.>"]}, "state": {}}
    answer = broker.ask("$JS.API.STREAM.RESTORE.RS", body)
    place = answer.index(b'"deliver_subject":"') + len(b'"deliver_subject":"')
    subject = answer[place:].partition(b'"')[0].decode()
    broker.publish(subject, b"chunk", target)
    broker.publish(subject, b"", target)
    broker.settle(1)


# NATS Streaming.


def _connect(broker: AttackedBroker, inbox: str, client: str = "me", reply: str = "") -> None:
    asked = ConnectRequest(clientID=client, heartbeatInbox=inbox, protocol=1, connID=b"1")
    subject = f"_STAN.discover.{_STAN}"
    broker.publish(subject, asked.SerializeToString(), reply or "_INBOX.c")


def _subscribe(broker: AttackedBroker, inbox: str, client: str) -> None:
    asked = SubscriptionRequest(
        clientID=client, subject="x", inbox=inbox, ackWaitInSecs=1, maxInFlight=10, startPosition=4
    )
    answer = broker.ask(f"_STAN.sub.{_STAN}", asked.SerializeToString())
    assert not SubscriptionResponse.FromString(answer).error


def _leave(broker: AttackedBroker, client: str = "me", reply: str = "_INBOX.c") -> None:
    asked = CloseRequest(clientID=client).SerializeToString()
    broker.publish(f"_STAN.close.{_STAN}", asked, reply)


def _heartbeat(broker: AttackedBroker, target: str) -> None:
    _connect(broker, target)
    broker.settle(10)
    _connect(broker, "_INBOX.h")  # Asks whether the other one is there.
    broker.settle(1)
    _leave(broker)


def _streamingAnswers(broker: AttackedBroker, target: str) -> None:
    _connect(broker, "_INBOX.h", reply=target)
    message = PubMsg(clientID="me", guid="g", subject="x", data=b"{}", connID=b"1")
    for body in (message.SerializeToString(), b"bad"):
        broker.publish(f"_STAN.pub.{_STAN}.x", body, target)
        broker.publish(f"_STAN.sub.{_STAN}", body, target)
        broker.publish(f"_STAN.unsub.{_STAN}", body, target)
    _leave(broker, reply=target)


def _streamingMessages(broker: AttackedBroker, target: str) -> None:
    _connect(broker, "_INBOX.h")
    _subscribe(broker, target, "me")
    message = PubMsg(clientID="me", guid="g", subject="x", data=b"{}", connID=b"1")
    broker.publish(f"_STAN.pub.{_STAN}.x", message.SerializeToString(), "_INBOX.p")
    broker.settle(2)  # And again.
    _leave(broker)


# Other services, accounts, and programs in this process.


def _otherAnswers(broker: AttackedBroker, target: str) -> None:
    for question in ("INFO._.S", "EXPORT._.S", "NAMES._", "NONE._.S"):
        broker.publish(f"$NB.API.STREAM.{question}", b'{"start":1,"stop":3}', target)
    broker.publish("$SYS.REQ.USER.INFO", b"", target)
    broker.publish("$SYS.REQ.SERVER.PING", b"", target, account="S")
    broker.publish("$SYS.REQ.ACCOUNT.A.CONNZ", b"", target, account="S")
    broker.settle(1)


def _response(broker: AttackedBroker, target: str) -> None:
    """Answer a request of another account, as a client that may not publish the subject here."""
    broker.heard()
    broker.publish("svc", b"", target, account="I")
    heads = [line for line in broker.heard().split(b"\r\n") if b" _R_." in line]
    reply = next((head.split()[3].decode() for head in heads), "")
    if reply:
        broker.publish(reply, b"{}")


def _stream(broker: AttackedBroker, target: str) -> None:
    """Make a stream of messages that another account publishes and this one imports."""
    broker.publish(target)


def _mapping(broker: AttackedBroker, target: str) -> None:
    """Map a subject, and publish to it as a user who may not publish to the destination."""
    table = MappingTable([Mapping(b"m.x", [Destination(target.encode())])], Random(1).randrange)
    broker.account("A").mapSubjects(table)
    broker.publish("m.x", b"{}", user="limited")
    if target.startswith("heard."):
        broker.publish("m.x", b"{}")
    broker.account("A").mapSubjects(None)


def _trace(broker: AttackedBroker, target: str) -> None:
    broker.publish("s.x", b"{}", headers={"Nats-Trace-Dest": target})
    broker.settle(1)


def _program(broker: AttackedBroker, target: str) -> None:
    """Publish from a program in the broker's process, as the broker itself."""
    subject = target.encode()
    for account in ACCOUNTS:
        bus = broker.memory.bus(account)
        bus.publish(Message(subject, b"{}", b"_INBOX.x"))
        bus.publishInternal(subject, b"{}")
        bus.publishBatch(subject, [b"{}", b""])
    broker.settle()


_SOURCE: dict[str, object] = {"sources": [{"name": "S"}]}
_MIRROR: dict[str, object] = {"mirror": {"name": "S"}}
_SCHEDULE: dict[str, object] = {"subjects": ["sch.>"], "allow_msg_schedules": True}

WAYS: dict[str, Way] = {
    "pull": _pull,
    "status of a pull": _pullStatus,
    "heartbeat of a pull": _pullHeartbeat,
    "next message": _next,
    "answer to an acknowledgement": _acknowledged,
    "push": _push,
    "republish": _republish,
    "republish of a source": _republishStored(_SOURCE),
    "republish of a mirror": _republishStored(_MIRROR),
    "republish of a schedule": _republishStored(_SCHEDULE),
    "transform": _transform,
    "direct get": _directGet,
    "answer of the API": _answers,
    "answer to a publish": _published,
    "snapshot": _snapshot,
    "restore": _restore,
    "streaming heartbeat": _heartbeat,
    "streaming answer": _streamingAnswers,
    "streaming message": _streamingMessages,
    "answer of another service": _otherAnswers,
    "answer of another account": _response,
    "imported stream": _stream,
    "subject mapping": _mapping,
    "trace": _trace,
    "program": _program,
}

#: Where the broker itself asks for its sources and mirrors.
_READING = "$JS.API.CONSUMER."

#: What the modules serve that take requests.
SERVING = {
    "runtime/responder.py": "$SYS: monitoring, claims, users' own information",
    "export/service.py": "$NB.API about logs",
    "gateways/advicerequests.py": "$NB.API about gateways",
    "jetstream/api/dispatcher.py": "$JS.API",
    "jetstream/api/refusals.py": "$JS.API, refused",
    "jetstream/cluster/metarequests.py": "$JS.API of the system account",
    "jetstream/cluster/peers.py": "$NB.JS: other brokers",
    "jetstream/consumers/consumer.py": "pulls, $JS.ACK, $JS.FC",
    "jetstream/snapshots/receiving.py": "pieces of a restored stream",
    "jetstream/snapshots/sending.py": "acknowledgements of a snapshot",
    "jetstream/streams/directget.py": "direct gets",
    "streaming/requests/dispatcher.py": "_STAN",
    "streaming/requests/subscribe.py": "acknowledgements of NATS Streaming",
}

#: What the others subscribe to, which is no request.
HEARING = {
    "accounts/requests.py": "the answer to a request; that of an auth callout is signed",
    "runtime/peerrequests.py": "the answers of other servers",
    "clients/subscriptions.py": "clients",
    "jetstream/channels/channelstream.py": "publishes to a channel, which are refused",
    "jetstream/sources/origins.py": "the messages of another stream",
    "jetstream/streams/stream.py": "publishes: a stream stores all that comes",
    "links/interest.py": "links",
    "streaming/channelwriter.py": "heartbeats",
}


@pytest.fixture
def broker() -> Any:
    """A broker with streams and consumers."""
    made = AttackedBroker()
    for name, subject in (("S", "s.>"), ("E", "e.>")):
        allowed = {"allow_direct": True, "allow_atomic": True, "allow_msg_schedules": True}
        made.ask(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [subject], **allowed})
    for stream, name, policy in (("S", "c", "none"), ("S", "a", "explicit"), ("E", "c", "none")):
        config = {"name": name, "durable_name": name, "ack_policy": policy}
        body = {"stream_name": stream, "config": config}
        made.ask(f"$JS.API.CONSUMER.CREATE.{stream}.{name}", body)
    flow = {"deliver_subject": "_INBOX.f", "flow_control": True, "idle_heartbeat": 10**12}
    push: dict[str, Any] = {"name": "f", "durable_name": "f", "ack_policy": "none", **flow}
    made.ask("$JS.API.CONSUMER.CREATE.E.f", {"stream_name": "E", "config": push})
    _connect(made, "_INBOX.h", "other")
    _subscribe(made, "_INBOX.m", "other")
    services = made.subjects("A")
    for prefix in ("$JS.ACK.S.a.", "$JS.FC.E.f.", "$JS.API.DIRECT.GET.", "_INBOX."):
        assert any(service.startswith(prefix) for service in services), prefix
    yield made
    made.stop()


@pytest.mark.parametrize("name", WAYS)
def test_sends(broker: AttackedBroker, name: str) -> None:
    """A client that subscribes to the chosen subject gets the messages sent to it."""
    WAYS[name](broker, "heard.x")
    received = broker.heard() + broker.heard("I")
    assert re.search(rb"^H?MSG \S+ 2 ", received, re.MULTILINE)


@pytest.mark.parametrize("name", WAYS)
def test_noRequest(broker: AttackedBroker, name: str) -> None:
    """
    Services receive only requests of clients, and other brokers receive no request of this broker.
    """
    _store(broker)
    subjects = {token for account in ACCOUNTS for token in broker.subjects(account)}
    assert len(subjects) > 100
    before = broker.ask("$JS.API.STREAM.NAMES")
    for subject in sorted(subjects | {f"{prefix.decode()}x" for prefix in PREFIXES}):
        if subject.startswith(_READING) and name in (
            "republish of a source",
            "republish of a mirror",
        ):
            continue
        WAYS[name](broker, subject)
        assert broker.received(subject) == broker.expected(subject), subject
        for account, peer in broker.peers.items():
            if not (isRequest(subject.encode()) or broker.isServed(account, subject)):
                continue
            published = broker.published[account][subject.encode()]
            assert peer.forwarded[subject.encode()] <= 2 * published, subject
    assert broker.ask("$JS.API.STREAM.NAMES") == before


def _calls(name: str) -> set[str]:
    """The modules of the package that call a method of a bus."""
    root, paths = Path(natsbroker.__file__).parent, set()
    for path in root.rglob("*.py"):
        if path.is_relative_to(root / "testing"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == name and _isBus(node.value):
                paths.add(path.relative_to(root).as_posix())
    return paths


def _isBus(node: ast.expr) -> bool:
    named = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return named in ("bus", "_bus")


def test_subscribers() -> None:
    """Every subscriber of a bus is a service, or is listed with the reason why it is not."""
    assert _calls("serve") == set(SERVING)
    assert _calls("subscribe") == set(HEARING)
