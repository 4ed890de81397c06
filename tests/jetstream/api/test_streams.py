"""
Requests about streams and their messages.
"""

from __future__ import annotations

import json
from base64 import b64decode
from itertools import count, groupby
from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred

from natsbroker.interfaces import IStateStore
from natsbroker.jetstream.api import answering, streams
from natsbroker.jetstream.model.bodies import LONGEST
from natsbroker.jetstream.model.documents import toJSON
from natsbroker.jetstream.model.limits import AccountAllowance, JetStreamLimits
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.streamtable import StreamConfigs
from natsbroker.steps import PIECE
from natsbroker.subjects.shapes import ShapeTable
from tests.jetstream.api.support import ApiStage


def test_create() -> None:
    """A stream is created with the defaults. The same request again gets the same answer."""
    stage = ApiStage()
    answer = stage.make()
    assert list(answer) == ["type", "config", "created", "state", "ts", "did_create"]
    assert answer["config"]["duplicate_window"] == 120_000_000_000
    assert answer["config"]["max_msgs"] == -1
    assert answer["state"]["first_ts"] == "0001-01-01T00:00:00Z"
    again = stage.make()
    assert again["did_create"] is True
    assert again["created"] == answer["created"]
    assert stage.make(max_msgs=3)["error"]["err_code"] == 10058
    assert stage.make(name="T")["error"]["err_code"] == 10065


def test_update() -> None:
    """New limits are in force when the answer comes."""
    stage = ApiStage()
    stage.make()
    for _ in range(3):
        stage.publish(b"s.a")
    answer = stage.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>", "t"], "max_msgs": 1})
    assert "did_create" not in answer
    assert answer["state"]["messages"] == 1
    assert stage.publish(b"t") == b'{"stream":"S","seq":4}'
    assert stage.failure("STREAM.UPDATE.X", {"name": "X"}) == (404, 10059)


def inTurns(stage: ApiStage) -> list[None]:
    """Count the turns of the reactor that requests wait for."""
    taking: Any = stage.jetstream.turns
    turn = taking.turn
    turns: list[None] = []

    def taken(*cost: int) -> Deferred[None]:
        turns.append(None)
        waiting: Deferred[None] = turn(*cost)
        return waiting

    taking.turn = taken
    return turns


def test_manyStreams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests about all streams of an account look at some streams in each turn."""
    monkeypatch.setattr(streams, "COMPARED", 2)
    monkeypatch.setattr(streams, "COUNTED", 3)
    stage = ApiStage()
    for name in "STUVWX":
        stage.make(name=name, subjects=[f"{name}.*"], max_bytes=1000)
    turns = inTurns(stage)
    assert stage.ask("STREAM.NAMES", {"subject": "T.>"})["streams"] == ["T"]
    assert len(turns) == 2
    assert stage.ask("STREAM.NAMES")["total"] == 6
    assert len(turns) == 2
    stage.publish(b"U.a", b"some")
    usage = stage.ask("INFO")
    assert (usage["streams"], usage["reserved_storage"]) == (6, 6000)
    assert usage["storage"] == stage.jetstream.streams["U"].size
    assert len(turns) == 3


def test_manyGaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The info of a stream with many gaps counts all deleted sequences, and lists only the first ones.
    """
    monkeypatch.setattr(answering, "DELETED", 20_000)
    stage = ApiStage()
    stage.make()
    stage.publish(b"s.a")
    stage.wait(stage.jetstream.streams["S"].log.skipTo(50_000_000))
    stage.publish(b"s.a")
    turns = inTurns(stage)
    state = stage.ask("STREAM.INFO.S", {"deleted_details": True})["state"]
    assert state["num_deleted"] == 49_999_998
    assert state["deleted"] == list(range(2, 20_002))
    assert len(turns) == 2


def test_info() -> None:
    """
    An info of a stream names its leader. It lists subjects and deleted sequences if the request
    asks for them.
    """
    stage = ApiStage()
    stage.make()
    for subject in (b"s.a", b"s.b", b"s.a"):
        stage.publish(subject)
    stage.ask("STREAM.MSG.DELETE.S", {"seq": 2})
    answer = stage.ask("STREAM.INFO.S")
    assert answer["cluster"] == {"leader": "S1"}
    assert answer["state"]["num_deleted"] == 1
    assert answer["state"]["num_subjects"] == 1
    assert "deleted" not in answer["state"]
    assert stage.ask("STREAM.INFO.S", {"deleted_details": True})["state"]["deleted"] == [2]
    answer = stage.ask("STREAM.INFO.S", {"subjects_filter": ">"})
    assert (answer["total"], answer["limit"]) == (1, 100_000)
    assert answer["state"]["subjects"] == {"s.a": 2}


def test_lists() -> None:
    """Names and lists are sorted, and can be limited to a subject."""
    stage = ApiStage()
    assert stage.ask("STREAM.NAMES")["streams"] is None
    assert stage.ask("STREAM.LIST")["streams"] == []
    stage.make(name="B", subjects=["b.*"])
    stage.make(name="A", subjects=["a.*"])
    assert stage.ask("STREAM.NAMES")["streams"] == ["A", "B"]
    assert stage.ask("STREAM.NAMES", {"subject": "b.x"})["streams"] == ["B"]
    answer = stage.ask("STREAM.LIST", {"offset": 1})
    assert [stream["config"]["name"] for stream in answer["streams"]] == ["B"]
    assert answer["streams"][0]["config"]["metadata"] == {"_nats.req.level": "0"}


def test_delete() -> None:
    """A deleted stream is gone, with its messages."""
    stage = ApiStage()
    stage.make()
    stage.publish(b"s.a")
    assert stage.failure("STREAM.DELETE.S", b"x") == (400, 10038)
    assert stage.ask("STREAM.DELETE.S", b"{}")["success"] is True
    assert stage.failure("STREAM.INFO.S") == (404, 10059)
    assert stage.make()["state"]["last_seq"] == 0


def test_getMessage() -> None:
    """A message is found by sequence, as the last or as the next of a subject."""
    stage = ApiStage()
    stage.make()
    stage.publish(b"s.a", b"1", A="b")
    stage.publish(b"s.b", b"2")
    message = stage.ask("STREAM.MSG.GET.S", {"seq": 1})["message"]
    assert list(message) == ["subject", "seq", "hdrs", "data", "time"]
    assert b64decode(message["hdrs"]) == b"NATS/1.0\r\nA: b\r\n\r\n"
    assert b64decode(message["data"]) == b"1"
    assert stage.ask("STREAM.MSG.GET.S", {"last_by_subj": "s.*"})["message"]["seq"] == 2
    assert stage.ask("STREAM.MSG.GET.S", {"next_by_subj": "s.b"})["message"]["seq"] == 2
    assert stage.failure("STREAM.MSG.GET.S", {"seq": 9}) == (404, 10037)
    assert stage.failure("STREAM.MSG.GET.S") == (400, 10003)


def test_deleteMessage() -> None:
    """A message is deleted once."""
    stage = ApiStage()
    stage.make(storage="memory")
    stage.publish(b"s.a")
    assert stage.ask("STREAM.MSG.DELETE.S", {"seq": 1})["success"] is True
    answer = stage.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    assert answer["error"]["description"] == "sequence 1 not found"


def test_deleteMissing() -> None:
    """
    The error for deleting a missing message tells a sequence before the stream, in a gap or after
    the end.
    """
    stage = ApiStage()
    stage.make()
    assert stage.failure("STREAM.MSG.DELETE.S", {"seq": 0}) == (500, 10057)
    for _ in range(4):
        stage.publish(b"s.a")
    for sequence in (1, 3):
        assert stage.ask("STREAM.MSG.DELETE.S", {"seq": sequence})["success"] is True
    texts = {
        sequence: stage.ask("STREAM.MSG.DELETE.S", {"seq": sequence})["error"]["description"]
        for sequence in (0, 1, 3, 5)
    }
    assert texts == {
        0: "no message found",
        1: "no message found",
        3: "sequence 3 not found",
        5: "stream store EOF",
    }


def test_usage() -> None:
    """The account's usage does not include messages that a limit is about to remove."""
    stage = ApiStage()
    stage.make(max_bytes=70)
    for _ in range(4):
        stage.publish(b"s.a", b"xx")
    assert stage.ask("INFO")["storage"] == 70


@pytest.mark.parametrize(
    ("body", "purged"),
    [(b"", 3), (b"garbage", 3), ({"keep": 1}, 2), ({"filter": "s.b"}, 1), ({"seq": 2}, 1)],
)
def test_purge(body: object, purged: int) -> None:
    """The answer to a purge has the number of removed messages."""
    stage = ApiStage()
    stage.make()
    for subject in (b"s.a", b"s.b", b"s.a"):
        stage.publish(subject)
    assert stage.ask("STREAM.PURGE.S", body)["purged"] == purged


def test_firstOfEmpty() -> None:
    """
    An empty stream shows C{first_seq} as configured until it is purged, and then shows 1. A purge
    that keeps a message changes nothing.
    """
    stage = ApiStage()
    for name, more, first in (("A", {}, 0), ("B", {"first_seq": 1}, 1)):
        stage.ask(f"STREAM.CREATE.{name}", {"name": name, **more})
        assert stage.ask(f"STREAM.INFO.{name}")["state"]["first_seq"] == first
        assert stage.ask(f"STREAM.PURGE.{name}", {"keep": 1})["purged"] == 0
        assert stage.ask(f"STREAM.INFO.{name}")["state"]["first_seq"] == first
        stage.ask(f"STREAM.PURGE.{name}")
        assert stage.ask(f"STREAM.INFO.{name}")["state"]["first_seq"] == 1


@pytest.mark.parametrize("first", [(1 << 62) + 1, 1 << 63, (1 << 64) - 1])
def test_firstTooLarge(first: int) -> None:
    """
    A C{first_seq} or a purge that leaves no sequences for messages is refused, and changes nothing.
    """
    stage = ApiStage()
    config = {"name": "S", "subjects": ["s.>"], "first_seq": first}
    assert stage.failure("STREAM.CREATE.S", config) == (503, 10077)
    assert stage.failure("STREAM.INFO.S") == (404, 10059)
    stage.make()
    stage.publish(b"s.a")
    assert stage.failure("STREAM.PURGE.S", {"seq": first}) == (503, 10077)
    stage.publish(b"s.a")
    assert stage.ask("STREAM.INFO.S")["state"]["last_seq"] == 2


@pytest.mark.parametrize("transform", [{}, {"src": "s.*"}])
def test_transformWithoutDestination(transform: dict[str, str]) -> None:
    """A subject transform without a destination changes nothing."""
    stage = ApiStage()
    made = stage.make(subject_transform=transform)
    assert made["config"]["subject_transform"] == {"src": "", "dest": "", **transform}
    stage.publish(b"s.a")
    assert stage.ask("STREAM.MSG.GET.S", {"seq": 1})["message"]["subject"] == "s.a"
    changed = stage.ask("STREAM.UPDATE.S", {**made["config"], "description": "d"})
    assert changed["config"]["description"] == "d"


def test_loweredLimit() -> None:
    """Messages that an update removes by a lower limit do not count as pending."""
    stage = ApiStage()
    stage.make()
    config = {"durable_name": "c", "ack_policy": "explicit"}
    stage.ask("CONSUMER.DURABLE.CREATE.S.c", {"stream_name": "S", "config": config})
    for _ in range(5):
        stage.publish(b"s.a")
    stage.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "max_msgs": 3})
    assert stage.ask("CONSUMER.INFO.S.c")["num_pending"] == 3


def test_firstOfUpdated() -> None:
    """An update can change C{first_seq} in the configuration, but not where the stream begins."""
    stage = ApiStage()
    stage.make()
    changed = stage.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "first_seq": 50})
    assert (changed["config"]["first_seq"], changed["state"]["first_seq"]) == (50, 0)


def test_permissions() -> None:
    """A stream with C{deny_delete}, C{deny_purge} or C{sealed} refuses to remove messages."""
    stage = ApiStage()
    stage.make(deny_delete=True, deny_purge=True)
    stage.publish(b"s.a")
    assert stage.failure("STREAM.MSG.DELETE.S", {"seq": 1}) == (500, 10057)
    assert stage.failure("STREAM.PURGE.S") == (500, 10110)
    stage.ask("STREAM.UPDATE.S", {**stage.ask("STREAM.INFO.S")["config"], "sealed": True})
    assert stage.failure("STREAM.PURGE.S") == (400, 10109)
    assert stage.failure("STREAM.MSG.DELETE.S", {"seq": 1}) == (400, 10109)


def test_account() -> None:
    """The account's info counts streams, bytes and the requests answered before."""
    stage = ApiStage()
    stage.make()
    stage.publish(b"s.a", b"1")
    answer = stage.ask("INFO")
    assert (answer["streams"], answer["storage"], answer["consumers"]) == (1, 34, 0)
    assert answer["api"] == {"level": 5, "total": 1, "errors": 0}


def test_standalone() -> None:
    """A server without a cluster refuses requests about clusters."""
    stage = ApiStage()
    assert stage.failure("STREAM.LEADER.STEPDOWN.S") == (503, 10010)


def test_tiers() -> None:
    """A tier counts its own streams only. Several replicas need a cluster."""
    stage = ApiStage()
    tiers = {"R1": JetStreamLimits(max_streams=1), "R3": JetStreamLimits(max_streams=1)}
    stage.jetstream.allow(AccountAllowance(tiers=tiers))
    stage.make()
    other = {"name": "T", "subjects": ["t"]}
    assert stage.failure("STREAM.CREATE.T", other) == (400, 10027)
    assert stage.failure("STREAM.CREATE.T", {**other, "num_replicas": 3}) == (500, 10074)
    assert stage.failure("STREAM.CREATE.T", {**other, "num_replicas": 5}) == (400, 10120)


class SlowStates:
    """A space of state whose changes wait until the test lets them continue."""

    def __init__(self, states: IStateStore, waiting: list[Deferred[None]]) -> None:
        self._states = states
        self._waiting = waiting

    def change(self, changes: Any) -> Deferred[None]:
        """Write the changes when the test lets them continue."""
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting.addCallback(lambda _: self._states.change(changes))


def test_changedTogether() -> None:
    """Of two simultaneous updates that claim the same subject, the later one is refused."""
    stage = ApiStage()
    stage.make()
    stage.make(name="T", subjects=["t"])
    waiting: list[Deferred[None]] = []
    states = stage.files.states
    stage.files.states = lambda space: SlowStates(states(space), waiting)
    inbox = stage.inbox(b"_INBOX.>")
    for name, subject in (("S", "s.>"), ("T", "t")):
        body = json.dumps({"name": name, "subjects": [subject, "u"]}).encode()
        stage.send(b"$JS.API.STREAM.UPDATE." + name.encode(), body, b"_INBOX." + name.encode())
    stage.settle()
    (refused,) = inbox.payloads
    assert b'"err_code":10065' in refused
    for deferred in waiting:
        deferred.callback(None)
    stage.settle()
    (taken,) = inbox.payloads
    assert json.loads(taken)["config"]["subjects"] == ["s.>", "u"]
    assert not stage.jetstream.changing


def _shapes(token: str, count: int) -> list[str]:
    return [
        f"{token}{number}" + ".*" * (number % 30) + ".b" * (number // 30)
        for number in range(1, count)
    ]


def test_tooManyShapes() -> None:
    """
    A stream with more wildcard shapes than its account accepts is refused, and leaves no
    subscriptions behind.
    """
    stage = ApiStage()
    bus, table = stage.jetstream.bus, ShapeTable(1024)

    def subscribe(pattern: bytes, *rest: Any) -> Any:
        table.admit(pattern)
        return bus.subscribe(pattern, *rest)

    stage.jetstream.bus = cast(
        Any,
        SimpleNamespace(
            subscribe=subscribe,
            cancelAll=bus.cancelAll,
            publish=bus.publish,
            publishInternal=bus.publishInternal,
            hasInterest=bus.hasInterest,
            matcher=cast(Any, bus).matcher,
        ),
    )
    assert stage.make(name="A", subjects=_shapes("a", 600))["did_create"]
    answer = stage.make(name="B", subjects=_shapes("b", 2000))
    assert "more than 1024 wildcard shapes" in answer["error"]["description"]
    more = [f"c.{shape}" for shape in _shapes("c", 600)]
    answer = stage.make(name="C", subjects=more)
    assert "no room for the wildcard shape" in answer["error"]["description"]
    assert stage.ask("STREAM.NAMES")["streams"] == ["A"]
    assert stage.make(name="C", subjects=["c.>"])["did_create"]
    before = stage.ask("STREAM.INFO.C")["config"]
    answer = stage.ask("STREAM.UPDATE.C", {**before, "subjects": more})
    assert "no room for the wildcard shape" in answer["error"]["description"]
    assert stage.ask("STREAM.INFO.C")["config"] == before
    assert stage.failure("STREAM.CREATE.D", {"name": "D", "subjects": ["c.x"]}) == (400, 10065)


def test_amongMany(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Creating or updating a stream compares its subjects with an index, not with each other stream.
    """
    stage = ApiStage()
    for number in range(300):
        stage.make(name=f"O{number}", subjects=[f"o.{number}.*"])
    looked: list[str] = []
    find = StreamConfigs.__getitem__

    def noted(configs: StreamConfigs, name: str) -> StreamConfig:
        looked.append(name)
        return find(configs, name)

    monkeypatch.setattr(StreamConfigs, "__getitem__", noted)
    monkeypatch.setattr(StreamConfigs, "__iter__", None)
    assert stage.make()["did_create"]
    assert "error" not in stage.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["t.>"]})
    assert stage.failure("STREAM.UPDATE.S", {"name": "S", "subjects": ["o.7.>"]}) == (400, 10065)
    assert stage.failure("STREAM.CREATE.T", {"name": "T", "subjects": ["t.a"]}) == (400, 10065)
    assert not [name for name in looked if name.startswith("O")][1:]


def test_checkedBesideOthers() -> None:
    """A stream whose long check runs while another stream takes one of its subjects is refused."""
    stage = ApiStage()
    ticks = count()
    stage.jetstream.turns.worked = lambda: float(next(ticks))
    subjects = [f"a.{number}" for number in range(6000)]
    inbox = stage.inbox(b"_INBOX.long")
    body = json.dumps({"name": "L", "subjects": subjects}).encode()
    stage.send(b"$JS.API.STREAM.CREATE.L", body, b"_INBOX.long")
    stage.make(name="S", subjects=["a.7"])
    for _ in range(10):
        stage.settle()
    (answer,) = inbox.payloads
    assert json.loads(answer)["error"]["err_code"] == 10065


def test_longBody() -> None:
    """A body over 64 KiB is accepted only for requests that may contain a list."""
    stage = ApiStage()
    stage.make()
    blanks = b" " * LONGEST
    assert stage.failure("STREAM.PURGE.S", b'{"keep":1}' + blanks) == (400, 10003)
    assert stage.ask("STREAM.UPDATE.S", b'{"name":"S","subjects":["s.>"]}' + blanks)["config"]


LONG = (
    ({"subjects": [f"n.{number}" for number in range(4 * PIECE)]}, {"subjects": ["m"]}),
    (
        {"subjects": ["m"], "sources": [{"name": f"o{number}"} for number in range(2 * PIECE)]},
        {"subjects": ["m"], "sources": [{"name": "o5"}]},
    ),
)


def elements(config: dict[str, Any]) -> int:
    """The number of subjects and sources in a stream's configuration."""
    return len(config.get("subjects", ())) + len(config.get("sources", ()))


@pytest.mark.parametrize(("long", "short"), LONG)
def test_inSteps(long: dict[str, Any], short: dict[str, Any]) -> None:
    """
    Very long lists of a stream are updated in steps. The store has the new configuration first, and
    a second update waits for the end of the first.
    """
    stage = ApiStage()
    stage.make(name="N", storage="memory", **short)
    stream, inbox = stage.jetstream.streams["N"], stage.inbox(b"_I.q")
    seen: list[tuple[int, int]] = []

    def worked() -> int:
        values: list[dict[bytes, bytes]] = []
        stream.states.load(b"stream/").addCallback(values.append)
        (value,) = values[0].values()
        stored = elements(json.loads(value)["config"])
        seen.append((stored, elements(toJSON(stream.config))))
        return len(seen)

    turns: Any = stage.jetstream.turns
    turns.worked = worked
    for config in (long, {**short, "max_msgs": 7}):
        body = json.dumps({"name": "N", "storage": "memory", **config}).encode()
        stage.send(b"$JS.API.STREAM.UPDATE.N", body, b"_I.q")
    stage.settle()
    many, few = elements(long), elements(short)
    history = [(few, few), (many, few), (many, many), (few, many), (few, few)]
    if long["subjects"] == short["subjects"]:
        history = history[::2]  # No step is between the store and the configuration in force.
    assert [pair for pair, _ in groupby(seen)] == history
    answers = [json.loads(answer)["config"] for answer in inbox.payloads]
    assert [(elements(answer), answer["max_msgs"]) for answer in answers] == [(many, -1), (few, 7)]
