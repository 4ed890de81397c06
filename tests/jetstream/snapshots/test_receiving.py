"""
Receiving the chunks of a restore.
"""

from __future__ import annotations

import json

from natsbroker.jetstream.snapshots.archive import END, MAGIC, encodeEntry
from natsbroker.jetstream.snapshots.receiving import STALL
from tests.jetstream.snapshots.support import CopyStage, compressed

_STATE = encodeEntry(b"state.json", 1, 0, b"", b'{"first_seq":1,"last_seq":1}')
_DATA = compressed(MAGIC + _STATE + encodeEntry(b"s.x", 5, 1, b"", b"") + END)


def _begun(stage: CopyStage) -> bytes:
    body = {"config": {"name": "S", "subjects": ["s.>"]}}
    subject: str = stage.ask("STREAM.RESTORE.S", body)["deliver_subject"]
    return subject.encode()


def test_chunks() -> None:
    """
    Chunks that arrive together are answered one by one. The last answer has the restored stream.
    """
    stage = CopyStage()
    subject = _begun(stage)
    inbox = stage.inbox(b"r")
    for place in range(0, len(_DATA), 40):
        stage.send(subject, _DATA[place : place + 40], b"r")
    stage.send(subject, b"", b"r")
    for _ in range(20):
        stage.settle()
    *chunks, end = inbox.payloads
    assert set(chunks) == {b""}
    assert len(chunks) == -(-len(_DATA) // 40)
    assert json.loads(end)["state"]["messages"] == 1


def test_noReply() -> None:
    """A chunk without a reply subject ends the restore. Only an advisory reports that."""
    stage = CopyStage()
    advisories = stage.inbox(b"$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.S")
    subject = _begun(stage)
    stage.send(subject, _DATA)
    stage.settle()
    assert [json.loads(payload)["bytes"] for payload in advisories.payloads] == [0]
    assert not stage.bus.hasInterest(subject)
    assert stage.failure("STREAM.INFO.S") == (404, 10059)


def test_stalled() -> None:
    """
    A restore that gets no chunk for five seconds ends, and the stream keeps what was restored.
    """
    stage = CopyStage()
    subject = _begun(stage)
    stage.clock.advance(STALL - 1)
    head = compressed(MAGIC + _STATE)
    assert stage.chunk(subject, head) == b""
    stage.clock.advance(STALL - 1)
    assert stage.bus.hasInterest(subject)
    stage.clock.advance(1)
    stage.settle()
    assert not stage.bus.hasInterest(subject)
    assert stage.ask("STREAM.INFO.S")["state"]["messages"] == 0
    assert stage.publish(b"s.x") == b'{"stream":"S","seq":1}'
