"""
Messages that wait for a look-up.
"""

from __future__ import annotations

import json

import pytest
from twisted.internet.defer import Deferred, fail

from natsbroker.interfaces.records import StoreFailed
from tests.jetstream.support import Stage


def test_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages behind one that waits are stored after it, and a barrier waits for all."""
    stage = Stage()
    stream = stage.stream()
    stage.publish(b"s.a")
    found = stream.log.subjects(b"s.a")
    gate: Deferred[None] = Deferred()
    inbox = stage.inbox(b"_INBOX.all")
    passed: list[None] = []
    with monkeypatch.context() as patch:
        patch.setattr(stream.log, "subjects", lambda *_: gate.addCallback(lambda _: found))
        stage.send(b"s.a", b"1", b"_INBOX.all", Nats_Expected_Last_Subject_Sequence="1")
        stage.send(b"s.b", b"2", b"_INBOX.all")
        stage.settle()
        stream.publisher.barrier().addCallback(lambda _: passed.append(None))
        assert (inbox.got, passed) == ([], [])
        gate.callback(None)
        stage.settle()
    assert [json.loads(each)["seq"] for each in inbox.payloads] == [2, 3]
    assert len(passed) == 1
    assert [each[2] for each in stage.stored(stream)] == [b"", b"1", b"2"]


def test_storeFails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that waits is refused when the log cannot be asked."""
    stage = Stage()
    stream = stage.stream()
    with monkeypatch.context() as patch:
        patch.setattr(stream.log, "subjects", lambda *_: fail(StoreFailed("broken")))
        answer = stage.publish(b"s.a", Nats_Expected_Last_Subject_Sequence="0")
    assert stage.errorOf(answer) == (10077, "broken")
    assert json.loads(stage.publish(b"s.a"))["seq"] == 1


def test_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that is closed stores nothing that waited."""
    stage = Stage()
    stream = stage.stream()
    gate: Deferred[None] = Deferred()
    with monkeypatch.context() as patch:
        patch.setattr(stream.log, "subjects", lambda *_: gate.addCallback(lambda _: {}))
        stage.send(b"s.a", b"1", Nats_Expected_Last_Subject_Sequence="0")
        stage.settle()
        stream.close()
        gate.callback(None)
        stage.settle()
    assert stream.messages == 0
