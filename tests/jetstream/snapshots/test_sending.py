"""
Sending snapshots.
"""

from __future__ import annotations

from random import Random

import pytest

from natsbroker.jetstream.snapshots import sending
from natsbroker.jetstream.snapshots.archive import END, MAGIC
from natsbroker.jetstream.snapshots.sending import ACK_WAIT, PATIENCE
from tests.jetstream.snapshots.support import CopyStage, plain
from tests.jetstream.support import Inbox, ReplacingLog


def _large() -> CopyStage:
    """A stream of 20,000 bytes that do not compress."""
    stage = CopyStage()
    stage.make()
    for number in range(20):
        stage.publish(b"s.x", Random(number).randbytes(1000))
    return stage


def _begin(stage: CopyStage) -> Inbox:
    """Start a snapshot with room for two chunks, and answer none."""
    inbox = stage.inbox(b"d")
    body = {"deliver_subject": "d", "chunk_size": 1024, "window_size": 2048}
    stage.ask("STREAM.SNAPSHOT.S", body)
    stage.settle()
    return inbox


def test_window() -> None:
    """As many chunks are under way as the window has room for; each answer brings one more."""
    stage = _large()
    inbox = _begin(stage)
    assert [len(message.payload) for message in inbox.got] == [1024, 1024]
    tokens = inbox.got[0].reply.split(b".")
    assert tokens[:4] == [b"$JS", b"SNAPSHOT", b"ACK", b"S"]
    assert tokens[5:] == [b"1024", b"1"]
    stage.send(inbox.got[0].reply)
    stage.settle()
    assert inbox.got[-1].reply.endswith(b".1024.3")
    assert len(inbox.got) == 3


def test_end() -> None:
    """
    The last chunk, if it is short, has no reply subject. A message with the status 204 follows it.
    """
    stage = _large()
    inbox = stage.inbox(b"d")
    data = plain(stage.copy(chunk_size=1024))
    assert data.startswith(MAGIC)
    assert data.endswith(END)
    *_, last, end = inbox.got
    assert 0 < len(last.payload) < 1024
    assert last.reply == b""
    assert end.headers == b"NATS/1.0 204\r\n\r\n"


def test_shortEnd() -> None:
    """A snapshot that fits into one short chunk ends without a status."""
    stage = CopyStage()
    stage.make()
    inbox = stage.inbox(b"d")
    stage.copy()
    assert [message.headers for message in inbox.got] == [b"", b""]


def test_noFlowResponse() -> None:
    """A snapshot ends if its chunks are not acknowledged for five seconds."""
    stage = _large()
    advisories = stage.inbox(b"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
    inbox = _begin(stage)
    stage.clock.advance(ACK_WAIT)
    stage.settle()
    assert inbox.got[-1].headers == b"NATS/1.0 408 No Flow Response\r\n\r\n"
    (advisory,) = advisories.payloads
    assert b'"error":"no flow response"' in advisory


def test_noInterest() -> None:
    """A receiver that disconnects ends the snapshot."""
    stage = _large()
    inbox = Inbox()
    subscription = stage.bus.subscribe(b"d", inbox)
    advisories = stage.inbox(b"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
    body = {"deliver_subject": "d", "chunk_size": 1024, "window_size": 2048}
    stage.ask("STREAM.SNAPSHOT.S", body)
    stage.settle()
    subscription.cancel()
    stage.settle()
    (advisory,) = advisories.payloads
    assert b'"error":"no interest"' in advisory


def test_lateInterest() -> None:
    """A snapshot waits two seconds for a subscription to its deliver subject."""
    stage = _large()
    stage.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "d"})
    stage.clock.advance(PATIENCE / 2)
    inbox = stage.inbox(b"d")
    stage.settle()
    assert inbox.got[-1].payload == b""
    assert len(inbox.got) == 2


def test_deletedStream() -> None:
    """A stream that is deleted ends its snapshot."""
    stage = _large()
    inbox = _begin(stage)
    stage.ask("STREAM.DELETE.S")
    stage.send(inbox.got[0].reply)
    stage.settle()
    assert inbox.got[-1].headers.startswith(b"NATS/1.0 500 ")


def test_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot has a message of each subject, although messages are replaced while it is made."""
    monkeypatch.setattr(sending, "_RECORDS", 1)
    stage = CopyStage()
    stage.make(max_msgs_per_subject=1)
    for subject in (b"s.a", b"s.b"):
        stage.publish(subject)
    stream = stage.jetstream.streams["S"]
    stream.log = ReplacingLog(stream.log, [b"s.b", b"s.a"], 9)
    data = stage.copy()
    stream.log = stage.wait(stage.files.open(stream.log.name))
    stage.ask("STREAM.DELETE.S")
    state = stage.back(data, max_msgs_per_subject=1)["state"]
    assert (state["messages"], state["num_subjects"]) == (2, 2)
