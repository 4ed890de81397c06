"""
Requests about consumers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail

from natsbroker.interfaces.records import StoreFailed, StoreFull
from natsbroker.jetstream.model.limits import ConfiguredLimits
from natsbroker.storage.memory import MemoryStates
from tests.jetstream.api.support import ApiStage


def consumer(stage: ApiStage, name: str, **config: Any) -> Any:
    """Create a consumer of C{S} by its name."""
    return stage.ask(
        f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": {"name": name, **config}}
    )


def test_durable() -> None:
    """A durable consumer is listed, shown and deleted."""
    stage = ApiStage()
    stage.make()
    stage.publish(b"s.a")
    made = stage.ask(
        "CONSUMER.DURABLE.CREATE.S.d",
        {"stream_name": "S", "config": {"durable_name": "d", "ack_policy": "explicit"}},
    )
    assert (made["name"], made["num_pending"]) == ("d", 1)
    assert made["config"]["max_ack_pending"] == 1000
    assert stage.ask("CONSUMER.NAMES.S")["consumers"] == ["d"]
    assert stage.ask("CONSUMER.LIST.S")["consumers"][0]["name"] == "d"
    info = stage.ask("CONSUMER.INFO.S.d")
    assert list(info)[:5] == ["type", "stream_name", "name", "created", "config"]
    assert stage.ask("STREAM.INFO.S")["state"]["consumer_count"] == 1
    assert stage.ask("CONSUMER.DELETE.S.d")["success"] is True
    assert stage.failure("CONSUMER.INFO.S.d") == (404, 10014)
    assert stage.wait(stage.jetstream.states.load(b"consumer/")) == {}


def test_storeFails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that cannot be stored is refused at once, and can be created later."""
    stage = ApiStage()
    stage.make()
    with monkeypatch.context() as patched:
        patched.setattr(MemoryStates, "change", lambda *_: fail(StoreFailed("broken")))
        assert consumer(stage, "c", durable_name="c")["error"]["description"] == "broken"
    stage.clock.advance(60)
    assert stage.ask("CONSUMER.NAMES.S")["consumers"] == []
    assert stage.wait(stage.jetstream.states.load(b"consumer/")) == {}
    assert consumer(stage, "c", durable_name="c")["name"] == "c"


class HeldCommits:
    """
    Changes of the state that the store has accepted and has not yet made durable.

    @ivar changes: those so far, with what fires when they are durable.
    """

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.changes: list[tuple[set[bytes], Deferred[None]]] = []
        self._change = MemoryStates.change
        patched.setattr(MemoryStates, "change", lambda *args: self._held(*args))

    def _held(self, states: MemoryStates, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.changes.append(({key.split(b"/")[0] for key in changes}, done))
        return done.addCallback(lambda _: self._change(states, changes))

    def commit(self, stage: ApiStage) -> None:
        """Make all changes so far durable."""
        changes, self.changes = self.changes, []
        for _, done in changes:
            done.callback(None)
        stage.settle()


def begin(stage: ApiStage, verb: str, name: str, **config: Any) -> Any:
    """Send a request about a consumer of C{S}, and return the inbox for its answer."""
    inbox = stage.inbox(f"_INBOX.{verb}.{name}".encode())
    body = json.dumps({"stream_name": "S", "config": {"name": name, **config}}).encode()
    subject = f"$JS.API.CONSUMER.{verb}.S.{name}".encode()
    stage.send(subject, body if verb == "CREATE" else b"", f"_INBOX.{verb}.{name}".encode())
    stage.settle()
    return inbox


def test_sharedCommit(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Requests to create sixteen consumers reach the store before the first one is durable, so it
    commits them together. The same holds for deletions.
    """
    stage = ApiStage()
    stage.make()
    held = HeldCommits(monkeypatch)
    for verb in ("CREATE", "DELETE"):
        inboxes = [begin(stage, verb, f"c{number}") for number in range(16)]
        assert [kinds for kinds, _ in held.changes] == [{b"copy", b"consumer", b"position"}] * 16
        assert not any(inbox.got for inbox in inboxes)
        held.commit(stage)
        assert held.changes == []
        assert all(len(inbox.got) == 1 for inbox in inboxes)
        assert not any(b'"error"' in payload for inbox in inboxes for payload in inbox.payloads)


def test_sameName(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request waits for the earlier ones about the same consumer."""
    stage = ApiStage()
    stage.make()
    held = HeldCommits(monkeypatch)
    created = begin(stage, "CREATE", "c", metadata={"a": "1"})
    deleted = begin(stage, "DELETE", "c")
    stage.send(
        b"$JS.API.CONSUMER.CREATE.S.c",
        b'{"stream_name":"S","config":{"name":"c","metadata":{"a":"2"}}}',
        b"_INBOX.CREATE.c",
    )
    stage.settle()
    for creates, deletes in ((1, 0), (1, 1), (2, 1)):
        assert len(held.changes) == 1
        held.commit(stage)
        assert (len(created.got), len(deleted.got)) == (creates, deletes)
    assert json.loads(created.payloads[-1])["config"]["metadata"]["a"] == "2"


def test_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that is not durable yet counts for max_consumers, until the store refuses it."""
    stage = ApiStage()
    stage.make(max_consumers=1)
    with monkeypatch.context() as patched:
        held = HeldCommits(patched)
        first = begin(stage, "CREATE", "a")
        second = begin(stage, "CREATE", "b")
        assert json.loads(second.payloads[0])["error"]["err_code"] == 10026
        held.changes.pop()[1].errback(StoreFull("full"))
        stage.settle()
    assert json.loads(first.payloads[0])["error"]["description"] == "full"
    assert consumer(stage, "b")["name"] == "b"


def test_streamWaits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that changes the stream waits for consumers that are being created."""
    stage = ApiStage()
    stage.make()
    held = HeldCommits(monkeypatch)
    created = begin(stage, "CREATE", "c")
    deleted = stage.inbox(b"_INBOX.delete")
    stage.send(b"$JS.API.STREAM.DELETE.S", b"", b"_INBOX.delete")
    stage.settle()
    assert (len(held.changes), list(stage.jetstream.streams)) == (1, ["S"])
    held.commit(stage)
    held.commit(stage)
    assert (len(created.got), len(deleted.got)) == (1, 1)
    assert stage.wait(stage.jetstream.states.load()) == {}


def test_inMemory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Creating and deleting a consumer in memory commits nothing to the store."""
    stage = ApiStage()
    stage.make()
    held = HeldCommits(monkeypatch)
    assert begin(stage, "CREATE", "c", mem_storage=True).got
    assert begin(stage, "DELETE", "c").got
    assert held.changes == []


def test_mayBeStored(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If the store fails while it stores a new consumer, the consumer is deleted once the store works
    again.
    """
    stage = ApiStage()
    stage.make()
    change = MemoryStates.change

    def stored(states: MemoryStates, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        return change(states, changes).addCallback(lambda _: fail(StoreFailed("unknown")))

    with monkeypatch.context() as patched:
        patched.setattr(MemoryStates, "change", stored)
        assert consumer(stage, "c", durable_name="c")["error"]["description"] == "unknown"
    stage.clock.advance(60)
    stage.settle()
    assert stage.wait(stage.jetstream.states.load(b"consumer/")) == {}


def test_ephemeral() -> None:
    """A consumer without a name gets one of eight characters."""
    stage = ApiStage()
    stage.make()
    made = stage.ask("CONSUMER.CREATE.S", {"stream_name": "S", "config": {}})
    assert len(made["name"]) == 8
    assert made["config"]["inactive_threshold"] == 5_000_000_000


def test_inactive() -> None:
    """A consumer that is not used is deleted, with its stored data."""
    stage = ApiStage()
    stage.make()
    consumer(stage, "c", inactive_threshold=1_000_000_000)
    stage.clock.advance(1.1)
    stage.settle()
    assert stage.ask("CONSUMER.NAMES.S")["consumers"] == []
    assert stage.wait(stage.jetstream.states.load(b"consumer/")) == {}


def test_actions() -> None:
    """A request may say whether it creates or updates."""
    stage = ApiStage()
    stage.make()
    body = {"stream_name": "S", "config": {"name": "c", "durable_name": "c"}, "action": "update"}
    assert stage.failure("CONSUMER.CREATE.S.c", body) == (400, 10149)
    body["action"] = "create"
    assert stage.ask("CONSUMER.CREATE.S.c", body)["name"] == "c"
    body["config"] = {"name": "c", "durable_name": "c", "description": "other"}
    assert stage.failure("CONSUMER.CREATE.S.c", body) == (400, 10148)
    body["action"] = ""
    assert stage.ask("CONSUMER.CREATE.S.c", body)["config"]["description"] == "other"


def test_filterInTheSubject() -> None:
    """The filter in the request's subject must equal the filter in the configuration."""
    stage = ApiStage()
    stage.make()
    body = {"stream_name": "S", "config": {"name": "c", "filter_subject": "s.a.b"}}
    assert "error" not in stage.ask("CONSUMER.CREATE.S.c.s.a.b", body)
    assert stage.failure("CONSUMER.CREATE.S.c.s.x", body) == (400, 10131)


def test_pause() -> None:
    """A pause is answered with its end, and an empty request ends it."""
    stage = ApiStage()
    stage.make()
    consumer(stage, "c")
    until = "2030-01-01T00:00:00Z"
    answer = stage.ask("CONSUMER.PAUSE.S.c", {"pause_until": until})
    assert (answer["paused"], answer["pause_until"]) == (True, until)
    assert stage.ask("CONSUMER.INFO.S.c")["paused"] is True
    assert stage.ask("CONSUMER.PAUSE.S.c")["paused"] is False
    assert "paused" not in stage.ask("CONSUMER.INFO.S.c")


def test_reset() -> None:
    """A reset goes back to a sequence. A reset of an unknown consumer gets no answer."""
    stage = ApiStage()
    stage.make()
    for _ in range(3):
        stage.publish(b"s.a")
    consumer(stage, "c", ack_policy="explicit")
    answer = stage.ask("CONSUMER.RESET.S.c", {"seq": 2})
    assert (answer["reset_seq"], answer["num_pending"]) == (2, 2)
    assert stage.ask("CONSUMER.RESET.S.x") is None


@pytest.mark.parametrize(("retention", "left"), [("interest", 1), ("workqueue", 3)])
def test_resetForward(retention: str, left: int) -> None:
    """With interest retention, the messages that a reset passes over are removed."""
    stage = ApiStage()
    stage.make(retention=retention)
    consumer(stage, "c", ack_policy="explicit")
    for _ in range(3):
        stage.publish(b"s.a")
    stage.ask("CONSUMER.RESET.S.c", {"seq": 3})
    stage.settle()
    assert stage.ask("STREAM.INFO.S")["state"]["messages"] == left


def test_answersPrecedeDeliveries() -> None:
    """
    The answer that creates or resets a push consumer shows the state before the first delivery.
    """
    stage = ApiStage()
    stage.make()
    stage.publish(b"s.a")
    inbox = stage.inbox(b"d")
    made = consumer(stage, "c", ack_policy="explicit", deliver_subject="d")
    reset = stage.ask("CONSUMER.RESET.S.c", {"seq": 1})
    for answer in (made, reset):
        assert (answer["num_pending"], answer["num_ack_pending"]) == (1, 0)
        assert answer["delivered"] == {"consumer_seq": 0, "stream_seq": 0}
        assert answer["push_bound"]
    assert len(inbox.got) == 2
    assert stage.ask("CONSUMER.INFO.S.c")["num_ack_pending"] == 1


def test_levelOfPaused() -> None:
    """A pause raises the API level that a consumer needs, until it is resumed."""
    stage = ApiStage()
    stage.make()
    consumer(stage, "c")
    for body, level in (({"pause_until": "2004-01-01T00:00:00Z"}, "1"), ({}, "0")):
        stage.ask("CONSUMER.PAUSE.S.c", body)
        assert stage.ask("CONSUMER.INFO.S.c")["config"]["metadata"]["_nats.req.level"] == level


def test_levelOfUpdate() -> None:
    """
    Updating a consumer raises its API level to the level of the request's fields, even of a field
    that is not stored.
    """
    stage = ApiStage()
    stage.make()
    config = {"name": "c", "durable_name": "c"}
    for more, level in (({}, "0"), ({"priority_timeout": -1}, "1")):
        request = {"stream_name": "S", "config": {**config, **more}}
        made = stage.ask("CONSUMER.CREATE.S.c", request)
        assert made["config"]["metadata"]["_nats.req.level"] == level


def test_unpin() -> None:
    """
    Unpinning is accepted for a priority group without a pinned client, and refused for an unknown
    group.
    """
    stage = ApiStage()
    stage.make()
    consumer(stage, "c")
    consumer(stage, "o", priority_groups=["g"], priority_policy="overflow", ack_policy="explicit")
    assert stage.failure("CONSUMER.UNPIN.S.c", {"group": "g"}) == (400, 10160)
    assert stage.failure("CONSUMER.UNPIN.S.o", {"group": "h"}) == (400, 10160)
    answer = stage.ask("CONSUMER.UNPIN.S.o", {"group": "g", "zork": 1})
    assert answer == {"type": "io.nats.jetstream.api.v1.consumer_unpin_response"}


def test_identity() -> None:
    """
    The consumers of mirrors and sources learn which stream they read, and may require a certain
    one.
    """
    stage = ApiStage()
    stage.make()
    config = {"deliver_subject": "d", "direct": True, "sourcing": True, "ack_policy": "none"}
    body = {"stream_name": "S", "config": config}
    inbox = stage.inbox(b"_INBOX.identity")

    def ask(**headers: str) -> bytes:
        data = json.dumps(body).encode()
        stage.send(b"$JS.API.CONSUMER.CREATE.S", data, b"_INBOX.identity", **headers)
        stage.settle()
        return inbox.got.pop().headers

    headers = ask()
    assert headers.startswith(b"NATS/1.0\r\nNats-Stream-Identity: ")
    identity = headers.split()[-1].decode()
    assert ask(Nats_Stream_Identity=identity) == headers
    assert ask(Nats_Stream_Identity="other") == b""
    error = stage.failure("CONSUMER.CREATE.S", body, Nats_Stream_Identity="other")
    assert error == (400, 10225)
    config = {"name": "c", "ack_policy": "none"}
    body = {"stream_name": "S", "config": config}
    stage.send(b"$JS.API.CONSUMER.CREATE.S.c", json.dumps(body).encode(), b"_INBOX.identity")
    stage.settle()
    assert inbox.got.pop().headers == b""


def test_defaultMost() -> None:
    """The server's default_max_consumers applies to streams without max_consumers."""
    stage = ApiStage()
    stage.jetstream.configuredLimits = ConfiguredLimits(default_max_consumers=1)
    stage.make()
    stage.make(name="T", subjects=["t"], max_consumers=2)
    for stream in "ST":
        config = {"stream_name": stream, "config": {"name": "c", "ack_policy": "explicit"}}
        assert "error" not in stage.ask(f"CONSUMER.CREATE.{stream}.c", config)
    config = {"config": {"name": "d", "ack_policy": "explicit"}}
    assert stage.failure("CONSUMER.CREATE.S.d", {"stream_name": "S", **config}) == (400, 10026)
    assert "error" not in stage.ask("CONSUMER.CREATE.T.d", {"stream_name": "T", **config})


def test_resetIsNotCounted() -> None:
    """A reset of a consumer does not count among the API requests of the account."""
    stage = ApiStage()
    stage.make()
    config = {"stream_name": "S", "config": {"name": "c", "ack_policy": "explicit"}}
    stage.ask("CONSUMER.CREATE.S.c", config)
    before = stage.jetstream.requests
    assert "error" not in stage.ask("CONSUMER.RESET.S.c")
    assert stage.jetstream.requests == before


def test_updatedPause() -> None:
    """An update keeps the end of a pause, and afterwards shows the end in UTC."""
    stage = ApiStage()
    stage.make()
    config = {"durable_name": "c", "pause_until": "2034-01-01T00:00:00+02:00"}
    for shown in (config["pause_until"], "2033-12-31T22:00:00Z", "2033-12-31T22:00:00Z"):
        request = {"stream_name": "S", "config": config}
        made = stage.ask("CONSUMER.DURABLE.CREATE.S.c", request)["config"]["pause_until"]
        assert made == stage.ask("CONSUMER.INFO.S.c")["config"]["pause_until"] == shown


def test_purgedEntirely() -> None:
    """
    After a purge of a subject that empties the stream, consumers with that subject continue at the
    end of the stream. Other consumers keep their position.
    """
    stage = ApiStage()
    stage.make()
    for subject in (b"s.a", b"s.a"):
        stage.publish(subject)
    for name, pattern in (("all", ""), ("some", "s.a"), ("other", "s.b")):
        consumer(stage, name, ack_policy="explicit", filter_subject=pattern)
    assert stage.ask("STREAM.PURGE.S", {"filter": "s.a"})["purged"] == 2
    for name, sequence in (("all", 2), ("some", 2), ("other", 0)):
        info = stage.ask(f"CONSUMER.INFO.S.{name}")
        assert info["delivered"]["stream_seq"] == info["ack_floor"]["stream_seq"] == sequence
    stage.publish(b"s.a")
    assert stage.ask("CONSUMER.INFO.S.all")["num_pending"] == 1


def test_interestLost() -> None:
    """
    With interest retention, changing a consumer's filter removes the messages that no filter
    matches any more, delivered or not.
    """
    stage = ApiStage()
    stage.make(retention="interest")
    config = {"durable_name": "c", "ack_policy": "explicit", "filter_subjects": ["s.a", "s.b"]}
    request = {"stream_name": "S", "config": config}
    stage.ask("CONSUMER.DURABLE.CREATE.S.c", request)
    consumer(stage, "other", ack_policy="explicit", filter_subject="s.c")
    for subject in (b"s.a", b"s.b", b"s.c", b"s.a"):
        stage.publish(subject)
    stage.inbox(b"_INBOX.pull")
    stage.send(b"$JS.API.CONSUMER.MSG.NEXT.S.c", b"2", b"_INBOX.pull")
    stage.settle()
    config["filter_subjects"] = ["s.b"]
    assert stage.ask("CONSUMER.DURABLE.CREATE.S.c", request)["num_ack_pending"] == 1
    assert [record[0] for record in stage.stored(stage.jetstream.streams["S"])] == [2, 3]


def test_pauseAdvisories() -> None:
    """A pause is advised when a consumer is created with one, and when its end changes."""
    stage = ApiStage()
    stage.make()
    inbox = stage.inbox(b"$JS.EVENT.ADVISORY.CONSUMER.*.S.*")
    consumer(stage, "c", pause_until="2034-01-01T00:00:00Z")
    assert [json.loads(payload).get("paused") for payload in inbox.payloads] == [None, True]
    consumer(stage, "past", pause_until="2020-01-01T00:00:00Z")
    assert stage.ask("CONSUMER.PAUSE.S.past", {"pause_until": "2020-01-01T00:00:00Z"})
    assert [json.loads(payload).get("paused") for payload in inbox.payloads] == [None]
    for until, advised in (
        ("2034-01-01T00:00:00Z", []),
        ("2035-01-01T00:00:00Z", [True]),
        ("2035-01-01T00:00:00Z", []),
        ("0001-01-01T00:00:00Z", [False]),
        ("0001-01-01T00:00:00Z", []),
        ("2020-01-01T00:00:00Z", [False]),
    ):
        stage.ask("CONSUMER.PAUSE.S.c", {"pause_until": until})
        assert [json.loads(payload)["paused"] for payload in inbox.payloads] == advised


@pytest.mark.parametrize("isRollup", [False, True])
@pytest.mark.parametrize(("count", "advised"), [(1, [1]), (2, [])])
def test_purgeOfSubject(isRollup: bool, count: int, advised: list[int]) -> None:
    """
    Pending messages of a purged or rolled up subject are terminated without advisories. A single
    one is treated like a deleted message.
    """
    stage = ApiStage()
    stage.make(allow_rollup_hdrs=True)
    consumer(stage, "c", ack_policy="explicit")
    for subject in [b"s.a"] * count + [b"s.b"]:
        stage.publish(subject)
    stage.inbox(b"_INBOX.pull")
    stage.send(b"$JS.API.CONSUMER.MSG.NEXT.S.c", b"9", b"_INBOX.pull")
    stage.settle()
    inbox = stage.inbox(b"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.c")
    if isRollup:
        stage.publish(b"s.a", Nats_Rollup="sub")
    else:
        assert stage.ask("STREAM.PURGE.S", {"filter": "s.a"})["purged"] == count
    stage.settle()
    assert [json.loads(payload)["stream_seq"] for payload in inbox.payloads] == advised
    assert len(stage.jetstream.streams["S"].consumers["c"].core.pending) == 1 + isRollup
