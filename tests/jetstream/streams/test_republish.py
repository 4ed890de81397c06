"""
Republishing: the subjects, headers and order of the copies.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsbroker.jetstream.model.streamconfig import Republish, StorageType
from tests.jetstream.support import Stage

_TIME = b"2023-11-14T22:13:20Z"


@pytest.mark.parametrize("storage", list(StorageType))
def test_headers(storage: StorageType) -> None:
    """A copy has the headers of its original, then the place of the original."""
    stage = Stage()
    stage.stream(storage=storage, republish=Republish("s.*.k", "r.{{wildcard(1)}}"))
    inbox = stage.inbox(b"r.>")
    stage.publish(b"s.a.k", b"xyz", A="b")
    stage.publish(b"s.a.j", b"other")
    stage.publish(b"s.a.k", b"new")
    first, second = inbox.got
    assert (first.subject, first.payload, first.reply) == (b"r.a", b"xyz", b"")
    assert first.headers == (
        b"NATS/1.0\r\nA: b\r\nNats-Stream: S\r\nNats-Subject: s.a.k\r\nNats-Sequence: 1\r\n"
        b"Nats-Time-Stamp: %b\r\nNats-Last-Sequence: 0\r\n\r\n" % _TIME
    )
    assert second.headers == (
        b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: s.a.k\r\nNats-Sequence: 3\r\n"
        b"Nats-Time-Stamp: %b\r\nNats-Last-Sequence: 1\r\n\r\n" % _TIME
    )


def test_headersOnly() -> None:
    """With headers_only, a copy has the payload's size in its last header."""
    stage = Stage()
    stage.stream(republish=Republish(">", "r.>", headers_only=True))
    inbox = stage.inbox(b"r.>")
    stage.publish(b"s.a", b"xyz")
    (copy,) = inbox.got
    assert (copy.subject, copy.payload) == (b"r.s.a", b"")
    assert copy.headers.endswith(b"Nats-Last-Sequence: 0\r\nNats-Msg-Size: 3\r\n\r\n")


def test_beforeTheAnswer() -> None:
    """The copy is published before the acknowledgement."""
    stage = Stage()
    stage.stream(republish=Republish("s.a", "_INBOX.ack"))
    inbox = stage.inbox(b"_INBOX.ack")
    stage.send(b"s.a", b"x", b"_INBOX.ack")
    stage.settle()
    assert inbox.payloads == [b"x", b'{"stream":"S","seq":1}']


def test_lastSequence() -> None:
    """The copy's last sequence counts earlier messages of the same turn, and no purged ones."""
    stage = Stage()
    stream = stage.stream(republish=Republish(">", "r.>"))
    stage.publish(b"s.a")
    inbox = stage.inbox(b"r.>")
    stage.send(b"s.b")
    stage.send(b"s.a")
    stage.send(b"s.a")
    stage.settle()
    stage.wait(stream.purge())
    stage.publish(b"s.a")
    lasts = [message.headers.partition(b"Nats-Last-Sequence: ")[2].strip() for message in inbox.got]
    assert lasts == [b"0", b"1", b"3", b"0"]


def test_notStored() -> None:
    """A duplicate is not republished."""
    stage = Stage()
    stage.stream(republish=Republish(">", "r.>"))
    inbox = stage.inbox(b"r.>")
    for _ in range(2):
        stage.publish(b"s.a", b"x", Nats_Msg_Id="1")
    assert inbox.payloads == [b"x"]


def test_update() -> None:
    """Republishing follows the configuration. An empty destination switches it off."""
    stage = Stage()
    stream = stage.stream()
    inbox = stage.inbox(b"r.>")
    for republish in (None, Republish(">", "r.>"), Republish(">", "")):
        stage.wait(stream.applyConfig(replace(stream.config, republish=republish)))
        stage.publish(b"s.a", b"x")
    assert inbox.payloads == [b"x"]


def test_atomicBatch() -> None:
    """The messages of an atomic batch are republished, each with the last sequence before it."""
    stage = Stage()
    stage.stream(allow_atomic=True, republish=Republish("s.>", "r.>"))
    stage.publish(b"s.a", b"1")
    inbox = stage.inbox(b"r.>")
    batch = {"Nats_Batch_Id": "b"}
    stage.publish(b"s.a", b"2", **batch, Nats_Batch_Sequence="1")
    stage.publish(b"s.a", b"3", **batch, Nats_Batch_Sequence="2", Nats_Batch_Commit="1")
    lasts = [message.headers.split(b"Nats-Last-Sequence: ")[1][:1] for message in inbox.got]
    assert [message.payload for message in inbox.got] == [b"2", b"3"]
    assert lasts == [b"1", b"2"]
