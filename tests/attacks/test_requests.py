"""
Each kind of request that the broker answers, a hundred at once, with the largest legal input and an
illegal one, while another client pings, publishes and logs in.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest

from natsbroker.connections.s2stream import S2Encoder
from natsbroker.export.service import VERBS
from natsbroker.jetstream.service import ROUTES
from natsbroker.jetstream.snapshots.archive import END, MAGIC, encodeEntry
from natsbroker.monitoring import slices
from natsbroker.streaming import protocol
from natsbroker.subjects.channels import RequestSubjects
from natsbroker.testing.memory import MemoryConnection
from tests.attacks.stage import CHUNK, MESSAGES, Attacked, encoded, requests

PING = 0.06
"""Seconds of the processor that another client's PING waits, at most. On a quiet machine it is less
than 0.01; beside other tests, which share the processor's caches, the same work costs more."""

OTHER, SAME = 0.1, 0.2
"""The same for its publish to another stream, and to the stream that is attacked."""

STOP = 0.5
"""The same for C{/healthz}, and until the broker has stopped."""

LISTED = 1000
"""The entries of lists in configurations."""

_MANY = [f"s.{number}.x" for number in range(MESSAGES)]
_PATTERNS = [f"*.*.y{number}" for number in range(1000)]
_SUBJECTS = [f"n.{number}.x" for number in range(LISTED)]
_FILTERED = {
    "name": "new",
    "ack_policy": "explicit",
    "filter_subjects": _MANY[:LISTED],
}
_LONG = b'{"a":' + b"[" * 400 + b"]" * 400 + b"}"
_WRONG = b'{"no":'
_EMPTY: dict[str, Any] = {}
_CONSUMER = {"stream_name": "S", "config": _FILTERED}

API: dict[str, tuple[str, Any, Any]] = {
    "INFO": ("INFO", b"", b"x" * 5000),
    "STREAM.CREATE.*": (
        "STREAM.CREATE.N#",
        {"name": "N", "subjects": _SUBJECTS, "metadata": {f"k{n}": "v" for n in range(500)}},
        _LONG,
    ),
    "STREAM.UPDATE.*": ("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>", *_SUBJECTS]}, _WRONG),
    "STREAM.DELETE.*": ("STREAM.DELETE.S", b"", b"x"),
    "STREAM.INFO.*": ("STREAM.INFO.S", {"subjects_filter": ">", "deleted_details": True}, _WRONG),
    "STREAM.NAMES": ("STREAM.NAMES", {"subject": "s.>"}, _WRONG),
    "STREAM.LIST": ("STREAM.LIST", {"subject": ">"}, _WRONG),
    "STREAM.PURGE.*": ("STREAM.PURGE.S", {"filter": "s.*.nope"}, _LONG),
    "STREAM.MSG.GET.*": ("STREAM.MSG.GET.S", {"seq": 1, "next_by_subj": "s.*.nope"}, _WRONG),
    "STREAM.MSG.DELETE.*": ("STREAM.MSG.DELETE.S", {"seq": 5}, {"seq": -1}),
    "STREAM.LEADER.STEPDOWN.*": ("STREAM.LEADER.STEPDOWN.S", b"", _WRONG),
    "STREAM.PEER.REMOVE.*": ("STREAM.PEER.REMOVE.S", {"peer": "x" * 5000}, _WRONG),
    "STREAM.CREATE": ("STREAM.CREATE", {"name": "N"}, _LONG),
    "META.>": ("META.LEADER.STEPDOWN", b"", _WRONG),
    "SERVER.>": ("SERVER.REMOVE", {"peer": "x"}, _WRONG),
    "ACCOUNT.>": ("ACCOUNT.PURGE.A", b"", _WRONG),
    "STREAM.SNAPSHOT.*": ("STREAM.SNAPSHOT.S", {"deliver_subject": "_I.s"}, _WRONG),
    "STREAM.RESTORE.*": ("STREAM.RESTORE.R#", {"config": {"name": "R"}}, _WRONG),
    "CONSUMER.CREATE.*": ("CONSUMER.CREATE.S", _CONSUMER, _LONG),
    "CONSUMER.CREATE.*.*": ("CONSUMER.CREATE.S.new", _CONSUMER, _LONG),
    "CONSUMER.CREATE.*.*.>": (
        "CONSUMER.CREATE.S.new.s.*.x",
        {"stream_name": "S", "config": {"name": "new", "filter_subject": "s.*.x"}},
        _LONG,
    ),
    "CONSUMER.DURABLE.CREATE.*.*": (
        "CONSUMER.DURABLE.CREATE.S.d#",
        {"stream_name": "S", "config": {"durable_name": "d0", "filter_subjects": ["s.*.x"]}},
        _LONG,
    ),
    "CONSUMER.INFO.*.*": ("CONSUMER.INFO.S.C", b"", b"x"),
    "CONSUMER.DELETE.*.*": ("CONSUMER.DELETE.S.C", b"", b"x"),
    "CONSUMER.NAMES.*": ("CONSUMER.NAMES.S", {"offset": 0}, _WRONG),
    "CONSUMER.LIST.*": ("CONSUMER.LIST.S", {"offset": 0}, _WRONG),
    "CONSUMER.LEADER.STEPDOWN.*.*": ("CONSUMER.LEADER.STEPDOWN.S.C", b"", _WRONG),
    "CONSUMER.PAUSE.*.*": (
        "CONSUMER.PAUSE.S.C",
        {"pause_until": "2099-01-01T00:00:00Z"},
        _WRONG,
    ),
    "CONSUMER.UNPIN.*.*": ("CONSUMER.UNPIN.S.C", {"group": "g"}, _WRONG),
    "CONSUMER.RESET.*.*": ("CONSUMER.RESET.S.C", {"seq": 1}, _WRONG),
}
"""By the subject of each route: a request's subject, its largest legal body, and an illegal one."""

DIRECT: dict[str, Any] = {
    "by subject": ("DIRECT.GET.S.s.5.x", b""),
    "by sequence": ("DIRECT.GET.S", {"seq": 5}),
    "next": ("DIRECT.GET.S", {"seq": 1, "next_by_subj": "s.*.nope"}),
    "last of a pattern": ("DIRECT.GET.S", {"last_by_subj": "s.*.x"}),
    "all": ("DIRECT.GET.S", {"batch": 10**9, "seq": 1, "max_bytes": 10**9}),
    "last of all": ("DIRECT.GET.S", {"multi_last": [">"], "batch": 1}),
    "last of many": ("DIRECT.GET.S", {"multi_last": _MANY, "batch": 1}),
    "last of many patterns": ("DIRECT.GET.S", {"multi_last": _PATTERNS, "batch": 1}),
    "illegal": ("DIRECT.GET.S", _LONG),
}

PULLS: dict[str, Any] = {
    "many": ("CONSUMER.MSG.NEXT.S.C", {"batch": 10**6, "expires": 10**12}),
    "illegal": ("CONSUMER.MSG.NEXT.S.C", {"batch": -1}),
}

EXPORTS: dict[str, tuple[Any, Any]] = {
    "INFO": (_EMPTY, _LONG),
    "FIND": ({"time": 0}, _LONG),
    "EXPORT": ({"start": 1, "subjects": _MANY[:LISTED]}, {"start": -1}),
    "DIGEST": ({"start": 1, "stop": MESSAGES}, {"start": -1}),
    "HOLD": ({"name": "h", "floor": 1, "seconds": 10}, {"name": ""}),
    "RENEW": ({"name": "h", "seconds": 10}, {"name": ""}),
    "RELEASE": ({"name": "h"}, {"name": ""}),
}

_CHANNEL = protocol.SubscriptionRequest(
    clientID="v", subject="ch", maxInFlight=1000, ackWaitInSecs=1, inbox="_I.q", startPosition=4
)
STAN: dict[str, Any] = {
    "discover": protocol.ConnectRequest(clientID="a", heartbeatInbox="_I.h", connID=b"a"),
    "pings": protocol.Ping(connID=b"v"),
    "publish": protocol.PubMsg(clientID="v", guid="g", subject="ch", data=b"x" * 500),
    "subscribe": _CHANNEL,
    "unsubscribe": protocol.UnsubscribeRequest(clientID="v", subject="ch", inbox="_I.none"),
    "subClose": protocol.UnsubscribeRequest(clientID="v", subject="ch", inbox="_I.none"),
    "close": protocol.CloseRequest(clientID="v"),
}


def _rows() -> Iterator[Any]:
    for route, (subject, legal, illegal) in API.items():
        for name, body in zip(("legal", "illegal"), encoded(legal, illegal), strict=True):
            yield pytest.param("$JS.API." + subject, body, id=f"api-{route}-{name}")
    for kind, table in (("direct", DIRECT), ("pull", PULLS)):
        for name, (subject, asked) in table.items():
            yield pytest.param("$JS.API." + subject, encoded(asked)[0], id=f"{kind}-{name}")
    for verb, bodies in EXPORTS.items():
        for name, body in zip(("legal", "illegal"), encoded(*bodies), strict=True):
            yield pytest.param(f"$NB.API.STREAM.{verb}._.S", body, id=f"export-{verb}-{name}")
            yield pytest.param(f"$NB.API.CHANNEL.{verb}.c.ch", body, id=f"channel-{verb}-{name}")
    for name, request in STAN.items():
        subject = getattr(RequestSubjects("c"), name).decode()
        subject += ".ch" if name == "publish" else ""
        yield pytest.param(subject, request.SerializeToString(), id=f"stan-{name}-legal")
        yield pytest.param(subject, b"\xff" * 5000, id=f"stan-{name}-illegal")


def test_everyRequest() -> None:
    """Every kind of request that the broker answers has a row in these tests."""
    assert set(API) == {route.subject for route in ROUTES}
    assert set(EXPORTS) == set(VERBS)
    assert set(STAN) == set(vars(RequestSubjects("c")))


@pytest.mark.realtime
@pytest.mark.parametrize(("subject", "body"), list(_rows()))
def test_hundred(subject: str, body: bytes) -> None:
    """
    No other client waits for a hundred requests at once, and the broker can be stopped meanwhile.
    """
    stage = Attacked()
    stage.attack(requests(subject, body, b"_I.q"), b"_I.>")
    isDeleted = subject.endswith("STREAM.DELETE.S")
    assert stage.pinged() < PING
    assert stage.published("t") < OTHER
    assert isDeleted or stage.published("s.new") < SAME
    assert stage.loggedIn() < OTHER
    assert stage.healthy() < STOP
    assert stage.longest < PING
    assert stage.stopped() < STOP


def _consumer(**config: Any) -> bytes:
    config = {"name": "new", "ack_policy": "explicit", **config}
    return json.dumps({"stream_name": "S", "config": config}).encode()


_GROUPS = {"priority_policy": "overflow"}
LONG = {
    "backoff": _consumer(backoff=list(range(10**9, 10**9 + 70_000)), max_deliver=-1),
    "filters": _consumer(filter_subjects=[f"s.{number}.*" for number in range(60_000)]),
    "groups": _consumer(priority_groups=[f"g{number}" for number in range(90_000)], **_GROUPS),
    "metadata": _consumer(metadata={f"k{number}": "v" for number in range(50_000)}),
    "nested": b'{"config":' * 80_000 + b"1" + b"}" * 80_000,
    "objects": _consumer(filter_subjects=[{}] * 200_000),
    "one group": _consumer(priority_groups=["g"] * 150_000, **_GROUPS),
    "unknown keys": _consumer(**{f"k{number}": 1 for number in range(70_000)}),
}
"""Lists and objects of consumers' configurations, in nearly the most bytes that a message has."""


ONE_PIECE = 0.05
"""
Seconds of the processor for a megabyte of JSON, which is read in one piece. On a quiet machine it
is less than 0.02.
"""


@pytest.mark.realtime
@pytest.mark.parametrize("body", LONG.values(), ids=LONG)
def test_longRequest(body: bytes) -> None:
    """No other client waits for requests of nearly a megabyte."""
    stage = Attacked()
    stage.attack(requests("$JS.API.CONSUMER.CREATE.S.new", body, b"_I.q", 3), b"_I.>", 1000)
    assert stage.pinged() < PING
    assert stage.longest < ONE_PIECE


def _transforms(noun: str) -> list[dict[str, str]]:
    return [{"src": f"{noun}.{number}", "dest": f"u.{number}"} for number in range(20_000)]


def _sources(noun: str) -> list[dict[str, str]]:
    return [{"name": f"{noun}{number}"} for number in range(25_000)]


def _subjects(noun: str) -> list[str]:
    return [f"{noun}.{number}.x" for number in range(50_000)]


_METADATA = {f"k{number}": "v" for number in range(15_000)}
_FROM = {"name": "S"}
_TIMES = list(range(10**9, 10**9 + 70_000))

STREAMS: dict[str, tuple[Any, Any]] = {
    "subjects": ({"subjects": _subjects("n")}, {"subjects": _subjects("m")}),
    "one subject": ({"subjects": _subjects("n")}, {"subjects": [*_subjects("n")[1:], "m"]}),
    "sources": ({"sources": _sources("o")}, {"sources": _sources("p")}),
    "one source": ({"sources": _sources("o")}, {"sources": [*_sources("o")[1:], {"name": "p"}]}),
    "transforms": (
        {"sources": [{**_FROM, "subject_transforms": _transforms("n")}]},
        {"sources": [{**_FROM, "subject_transforms": _transforms("m")}]},
    ),
    "mirror": ({"mirror": {**_FROM, "subject_transforms": _transforms("n")}}, {"subjects": ["n"]}),
    "metadata": ({"metadata": _METADATA}, {"metadata": {**_METADATA, "more": "v"}}),
    "tags": (
        {"placement": {"tags": [f"t{number}" for number in range(90_000)]}},
        {"placement": {"tags": [f"u{number}" for number in range(90_000)]}},
    ),
}
"""Configurations of streams in nearly the most bytes that a message has, and others after them."""

CONSUMERS: dict[str, tuple[Any, Any]] = {
    "backoff": ({"backoff": _TIMES, "max_deliver": -1}, {"backoff": _TIMES[1:], "max_deliver": -1}),
    "filters": (
        {"filter_subjects": [f"s.{number}.*" for number in range(60_000)]},
        {"filter_subjects": [f"s.*.{number}" for number in range(60_000)]},
    ),
    "groups": (
        {"priority_groups": [f"g{number}" for number in range(90_000)], **_GROUPS},
        {"priority_groups": [f"h{number}" for number in range(90_000)], **_GROUPS},
    ),
    "metadata": ({"metadata": _METADATA}, {"metadata": {**_METADATA, "more": "v"}}),
}
"""The same for consumers."""


def _lives() -> Iterator[Any]:
    for name, configs in STREAMS.items():
        bodies = encoded(*({"name": "N", "storage": "memory", **config} for config in configs))
        history = [("CREATE.N", bodies[0]), ("CREATE.N", bodies[0]), ("INFO.N", b"")]
        history += [("UPDATE.N", body) for body in (bodies[0], bodies[1], bodies[0])]
        history = history[:-1] if name == "mirror" else history
        history += [("LIST", b""), ("DELETE.N", b"")]
        requests_ = [("$JS.API.STREAM." + verb, body) for verb, body in history]
        yield pytest.param(requests_, id=f"stream-{name}")
    for name, configs in CONSUMERS.items():
        first, second = (_consumer(**config) for config in configs)
        history = [("CREATE.S.new", body) for body in (first, first, second)]
        history += [("INFO.S.new", b""), ("LIST.S", b""), ("DELETE.S.new", b"")]
        requests_ = [("$JS.API.CONSUMER." + verb, body) for verb, body in history]
        yield pytest.param(requests_, id=f"consumer-{name}")


@pytest.mark.realtime
@pytest.mark.parametrize("history", list(_lives()))
def test_longLife(history: list[tuple[str, bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """No other client waits while very long lists are stored, shown, changed and deleted."""
    monkeypatch.setattr(slices, "SLICE", -1.0)  # Each piece of a page is a turn.
    stage = Attacked()
    client = stage.client()
    client.send(b"SUB _I.q 1\r\n")
    gc.collect()
    gc.disable()
    for subject, body in history:
        answer = stage.answer(client, requests(subject, body, b"_I.q", 1))
        assert b'"error":{"code"' not in answer[:200], answer[:300]
        assert stage.longest < ONE_PIECE, subject
        assert stage.pinged() < PING
        if "INFO" in subject:
            stage.fetched("/jsz?consumers=true&config=true", b"stream_detail")
            assert stage.longest < ONE_PIECE, "/jsz"
    for _ in range(20):
        stage.reactor.rightNow += 0.1
        stage.turn()
        assert stage.longest < ONE_PIECE
    assert stage.stopped() < STOP


_SCHEDULE = (
    b"NATS/1.0\r\nNats-Schedule: @at 1970-01-01T00:00:00Z\r\nNats-Schedule-Target: r.t\r\n"
    b"Nats-Rollup: sub\r\n\r\n"
)


def _archive(count: int) -> bytes:
    """The archive of a stream with schedules that are past due."""
    entries = [
        encodeEntry(b"r.%d" % number, 1, number, _SCHEDULE, b"x") for number in range(1, count + 1)
    ]
    state = encodeEntry(b"state.json", 1, 0, b"", b'{"messages":%d,"last_seq":%d}' % (count, count))
    return bytes(S2Encoder("s2_fast").encode(b"".join([MAGIC, state, *entries, END])))


def _restore(stage: Attacked, client: MemoryConnection, data: bytes) -> None:
    """Let a client send an archive. The requests after the last part have their effect later."""
    allowed = {"allow_msg_schedules": True, "allow_rollup_hdrs": True}
    body = {"config": {"name": "R", "subjects": ["r.>"], "storage": "memory", **allowed}}
    asked = requests("$JS.API.STREAM.RESTORE.R", json.dumps(body).encode(), b"_I.q", 1)
    answer = client.request(b"SUB _I.> 1\r\n", asked)
    subject: str = json.loads(answer[answer.index(b"{") :])["deliver_subject"]
    for place in range(0, len(data), CHUNK):
        piece = requests(subject, data[place : place + CHUNK], b"_I.q", 1)
        stage.until(lambda: b"MSG _I.q" in client.receive(), lambda piece=piece: client.send(piece))  # type: ignore[misc]
    client.send(requests(subject, b"", b"_I.q", 1))


@pytest.mark.realtime
def test_restored() -> None:
    """No other client waits for a stream that is restored with schedules that are past due."""
    stage = Attacked()
    _restore(stage, stage.client(), _archive(MESSAGES))
    assert stage.pinged() < PING
    sequence = 0
    while sequence < 2 * MESSAGES:
        stage.reactor.rightNow += 0.3
        for _ in range(20):
            assert stage.pinged() < PING
            assert stage.published("t") < OTHER
        assert stage.published("r.new") < SAME
        answer = stage.ask("$JS.API.STREAM.INFO.R")
        sequence = json.loads(answer[answer.index(b"{") :])["state"]["last_seq"]
    assert stage.healthy() < STOP
    assert stage.longest < PING
    assert stage.stopped() < STOP
