"""Streams of several workers: one answer to each request, and one worker for each stream."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from natsbroker.config.model import JetStream
from natsbroker.errors import NoResponders
from natsbroker.jetstream.cluster.workerstreams import FINDING
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.limits import AccountAllowance, JetStreamLimits
from tests.jetstream.cluster.workerstage import WorkerStage

LIMIT = 8_000


@pytest.mark.parametrize(
    "subject", ["INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.S", "STREAM.INFO.NONE"]
)
def test_oneAnswer(tmp_path: Path, subject: str) -> None:
    """Each request has one answer, from one worker."""
    stage = WorkerStage(tmp_path)
    stage.make("R")
    stage.make("S")
    assert len(stage.answers(subject)) == 1
    stage.end()


def test_spread(tmp_path: Path) -> None:
    """
    A new stream goes to the worker with the fewest streams, and every worker lists the streams of
    all.
    """
    stage = WorkerStage(tmp_path)
    for name in "ABCDEF":
        assert stage.make(name)["did_create"]
    assert sorted(map(len, stage.streamsOf().values())) == [2, 2, 2]
    assert stage.ask("STREAM.NAMES")["streams"] == list("ABCDEF")
    listed = stage.ask("STREAM.LIST")
    assert [stream["config"]["name"] for stream in listed["streams"]] == list("ABCDEF")
    assert stage.ask("INFO")["streams"] == 6
    stage.end()


def test_noClusterShown(tmp_path: Path) -> None:
    """An info shows no cluster, whichever worker has the stream."""
    stage = WorkerStage(tmp_path)
    for name in "ABC":
        assert "cluster" not in stage.make(name)
    stage.end()


def test_createdAgain(tmp_path: Path) -> None:
    """
    Creating a stream again gets the answers of a single process, also if its name or a subject is
    taken by another worker's stream.
    """
    stage = WorkerStage(tmp_path)
    stage.make("S")
    assert "did_create" in stage.make("S")
    other = stage.make("S", subjects=["x"])
    assert other["error"]["err_code"] == errors.STREAM_NAME_EXIST.err_code
    overlapping = stage.make("T", subjects=["s.1"])
    assert overlapping["error"]["err_code"] == errors.STREAM_SUBJECT_OVERLAP.err_code
    stage.end()


def test_updatedAndDeleted(tmp_path: Path) -> None:
    """A change of a stream is seen by all workers, and a deleted one can be created again."""
    stage = WorkerStage(tmp_path)
    for name in "ABC":
        stage.make(name)
    updated = stage.ask("STREAM.UPDATE.B", {"name": "B", "subjects": ["b.>", "bb"]})
    assert updated["config"]["subjects"] == ["b.>", "bb"]
    assert stage.make("D", subjects=["bb"])["error"]
    assert stage.ask("STREAM.DELETE.B")["success"]
    assert stage.ask("STREAM.NAMES")["streams"] == ["A", "C"]
    assert stage.make("D", subjects=["bb"])["did_create"]
    stage.end()


def test_lateMeta(tmp_path: Path) -> None:
    """
    A request to delete a stream has one answer, even if the worker that answers for missing streams
    receives the request after the deletion.
    """
    stage = WorkerStage(tmp_path)
    for name in "ABC":
        stage.make(name)
    (meta,) = [number for number, worker in stage.workers.items() if worker.answersFor("A")]
    dispatcher: Any = stage.services[meta]._dispatchers["A"]
    for name in "ABC":
        dispatcher.hold()
        inbox = stage.inbox(b"_INBOX.late")
        stage.send(b"$JS.API.STREAM.DELETE.%b" % name.encode(), b"", b"_INBOX.late")
        stage.settle()
        dispatcher.release()
        for _ in range(5):
            stage.settle()
        assert [json.loads(answer).get("success") for answer in inbox.payloads] == [True]
    assert stage.ask("STREAM.DELETE.A")["error"]["err_code"] == errors.STREAM_NOT_FOUND.err_code
    stage.end()


def test_workerRestarts(tmp_path: Path) -> None:
    """A restarted worker has its streams and messages again; no other worker has taken them."""
    stage = WorkerStage(tmp_path)
    for name in "ABC":
        stage.make(name)
    before = stage.streamsOf()
    stage.send(b"a.1", b"1", b"_INBOX.ack")
    stage.settle()
    (gone,) = [number for number, names in before.items() if "A" in names]
    stage.stop(gone)
    assert stage.answers("STREAM.INFO.A") == []
    assert "A" in stage.ask("STREAM.NAMES")["streams"]
    stage.add(gone)
    assert stage.streamsOf() == before
    assert stage.ask("STREAM.INFO.A")["state"]["messages"] == 1
    stage.end()


def test_namesOfStoppedWorker(tmp_path: Path) -> None:
    """
    While a worker is stopped, no other worker creates a stream with a name or subject of its
    streams.
    """
    stage = WorkerStage(tmp_path)
    for name in "ABC":
        stage.make(name)
    (gone,) = [number for number, names in stage.streamsOf().items() if "A" in names]
    stage.stop(gone)
    assert stage.answers("STREAM.CREATE.A", {"name": "A", "subjects": ["other"]}) == []
    assert stage.make("T", subjects=["a.1"])["error"]
    stage.add(gone)
    assert stage.ask("STREAM.INFO.A")["config"]["subjects"] == ["a.>"]
    stage.end()


def test_answeringGoesOn(tmp_path: Path) -> None:
    """When the worker that answered for whole accounts is gone, another one does so at once."""
    stage = WorkerStage(tmp_path)
    (meta,) = [number for number, part in stage.workers.items() if part.table.lead("A")]
    stage.stop(meta)
    assert stage.ask("STREAM.NAMES")["total"] == 0
    assert stage.make("S")["did_create"]
    stage.add(meta)
    assert len(stage.answers("STREAM.NAMES")) == 1
    stage.end()


def test_unknownAccount(tmp_path: Path) -> None:
    """
    A worker that has no client of an account looks the account up when it is to create a stream for
    it.
    """
    stage = WorkerStage(tmp_path, 2)
    (away,) = [number for number, part in stage.workers.items() if not part.answersFor("A")]
    service = stage.services[away]
    service.change("A", None)
    stage.settle()
    assert "A" not in service.accounts
    asked: list[str] = []

    def locate(name: str) -> None:
        asked.append(name)
        service.change(name, AccountAllowance())

    stage.workers[away]._locate = locate
    assert stage.make("S")["did_create"] and stage.make("T")["did_create"]
    assert asked == ["A"]
    assert sorted(map(len, stage.streamsOf().values())) == [1, 1]
    stage.end()


def test_accountIsNotFound(tmp_path: Path) -> None:
    """Waiting for an account that cannot be found ends with an error."""
    stage = WorkerStage(tmp_path, 1)
    failures: list[Any] = []
    Deferred.fromCoroutine(stage.workers[1]._part("B")).addErrback(failures.append)
    stage.clock.advance(FINDING)
    assert failures[0].check(NoResponders)
    stage.end()


def test_memory(tmp_path: Path) -> None:
    """A stream in memory ends with its worker. The name is free when the worker is back."""
    stage = WorkerStage(tmp_path, 2)
    stage.make("M", storage="memory")
    (gone,) = [number for number, names in stage.streamsOf().items() if names]
    stage.stop(gone)
    stage.add(gone)
    assert stage.ask("STREAM.NAMES")["total"] == 0
    assert stage.make("M")["did_create"]
    stage.end()


def test_consumers(tmp_path: Path) -> None:
    """Requests about consumers go to the stream's worker alone."""
    stage = WorkerStage(tmp_path)
    for name in "ABC":
        stage.make(name)
        made = stage.ask(
            f"CONSUMER.CREATE.{name}.c",
            {"stream_name": name, "config": {"durable_name": "c", "ack_policy": "explicit"}},
        )
        assert made["name"] == "c"
    stage.send(b"b.1", b"1", b"_INBOX.ack")
    stage.settle()
    inbox = stage.inbox(b"_INBOX.next")
    stage.send(b"$JS.API.CONSUMER.MSG.NEXT.B.c", json.dumps({"batch": 1}).encode(), b"_INBOX.next")
    stage.settle()
    assert inbox.payloads == [b"1"]
    stage.end()


def test_stepDown(tmp_path: Path) -> None:
    """Stepping down is refused, as by a server without a cluster."""
    stage = WorkerStage(tmp_path)
    stage.make("S")
    refused = stage.ask("STREAM.LEADER.STEPDOWN.S")
    assert refused["error"]["err_code"] == errors.CLUSTER_REQUIRED.err_code
    stage.end()


def test_storedElsewhere(tmp_path: Path) -> None:
    """The bytes of an account's streams count at all workers for its limit."""
    stage = WorkerStage(tmp_path, count=2)
    allowance = AccountAllowance(JetStreamLimits(max_memory=LIMIT, max_storage=-1))
    for service in stage.services.values():
        service.change("A", allowance)
    fill(stage)


def test_storedInAll(tmp_path: Path) -> None:
    """The bytes of other accounts' streams at other workers count for the limit of the server."""
    stage = WorkerStage(tmp_path, 2, JetStream(max_memory_store=LIMIT))
    stage.make("A", storage="memory")
    [home] = [number for number, names in stage.streamsOf().items() if names]
    other: Any = SimpleNamespace(account=SimpleNamespace(usage=lambda storage: LIMIT))
    stage.workers[3 - home]._accounts["B"] = other
    inbox = stage.inbox(b"_INBOX.ack")
    for _ in range(3):
        stage.send(b"a.1", b"x", b"_INBOX.ack")
        for _ in range(3):
            stage.settle()
        stage.clock.advance(1.0)
        stage.settle()
    refusals = ["error" in json.loads(payload) for payload in inbox.payloads]
    assert refusals == [False, True, True]
    del stage.workers[3 - home]._accounts["B"]
    stage.end()


def test_reservedInAll(tmp_path: Path) -> None:
    """The space that streams at all workers reserve counts for the limit of the server."""
    stage = WorkerStage(tmp_path, 2, JetStream(max_file_store=LIMIT, max_memory_store=LIMIT))
    assert "error" not in stage.make("A", max_bytes=LIMIT - 1000)
    refused = stage.make("B", max_bytes=2000)
    assert refused["error"]["err_code"] == errors.STORAGE_RESOURCES_EXCEEDED.err_code
    assert "error" not in stage.make("B", max_bytes=1000)
    assert "error" not in stage.make("C", max_bytes=LIMIT, storage="memory")
    assert sorted(map(len, stage.streamsOf().values())) == [1, 2]
    stage.end()


def fill(stage: WorkerStage) -> None:
    """Publish to streams of two workers, which take what the limit of both has room for."""
    for name in "AB":
        stage.make(name, storage="memory")
    assert sorted(map(len, stage.streamsOf().values())) == [1, 1]
    inbox = stage.inbox(b"_INBOX.ack")
    for subject in (b"a.1", b"b.1") * 10:
        stage.send(subject, bytes(LIMIT // 8), b"_INBOX.ack")
        for _ in range(3):
            stage.settle()
        stage.clock.advance(1.0)
        stage.settle()
    acks = list(map(json.loads, inbox.payloads))
    assert len(acks) == 20
    stored = [ack for ack in acks if "error" not in ack]
    assert {ack["stream"] for ack in stored} == {"A", "B"}
    assert LIMIT // 2 < stage.ask("INFO")["memory"] <= LIMIT
    stage.end()
