"""
Restoring streams from archives.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.snapshots.archive import END, MAGIC, encodeEntry
from tests.jetstream.snapshots.support import CopyStage, compressed

_STATE = b'{"messages":1,"first_seq":5,"last_seq":9,"consumer_count":0}'
_DOCUMENT = encodeEntry(b"state.json", 1, 0, b"", _STATE)
_MESSAGE = encodeEntry(b"s.x", 10**18, 5, b"", b"hello")


def _consumer(document: bytes) -> bytes:
    state = encodeEntry(b"state.json", 1, 0, b"", b'{"consumer_count":1}')
    return compressed(MAGIC + state + encodeEntry(b"consumers/x", 1, 0, b"", document) + END)


def test_sequences() -> None:
    """A restored stream has the sequences and times of its archive, with the gaps."""
    stage = CopyStage()
    answer = stage.back(compressed(MAGIC + _DOCUMENT + _MESSAGE + END))
    state = answer["state"]
    assert (state["first_seq"], state["last_seq"], state["messages"]) == (5, 9, 1)
    assert state["first_ts"] == "2001-09-09T01:46:40Z"
    assert stage.publish(b"s.x") == b'{"stream":"S","seq":10}'


@pytest.mark.parametrize(
    ("data", "text", "messages"),
    [
        (b"", "EOF", None),
        (b"garbage in the stream", "s2: corrupt input", None),
        (compressed(MAGIC + _DOCUMENT)[:-1] + b"x", "s2: corrupt input, crc mismatch", None),
        (compressed(MAGIC + _DOCUMENT + _MESSAGE)[:-3], "s2: corrupt input", None),
        (compressed(b"x" * 50), "unexpected EOF", None),
        (compressed(MAGIC), "EOF", None),
        (compressed(MAGIC + _MESSAGE + END), "expected state.json first", None),
        (
            compressed(MAGIC + encodeEntry(b"state.json", 1, 0, b"", b"{x") + END),
            "error in state.json: object keys must be strings (byte 1)",
            None,
        ),
        (compressed(MAGIC + _DOCUMENT + _MESSAGE), "EOF", 1),
        (
            compressed(MAGIC + _DOCUMENT + _MESSAGE[:-2]),
            "failed to read message sequence 5: archive: invalid archive stream",
            0,
        ),
        (
            compressed(MAGIC + _DOCUMENT + _MESSAGE + _MESSAGE + END),
            "message sequence 5 out of order",
            1,
        ),
        (
            compressed(MAGIC + _DOCUMENT + encodeEntry(b"s.x", 1, 0, b"", b"") + END),
            "expected message sequence",
            0,
        ),
        (_consumer(b"{}"), 'consumer "x" is missing config', 0),
        (_consumer(b'{"config":{"name":"x"}}'), 'consumer "x" is missing state', 0),
        (
            _consumer(b"{x"),
            'failed to decode consumer "x" state: object keys must be strings (byte 1)',
            0,
        ),
        (
            _consumer(b'{"config":{"name":"x","deliver_policy":"by_start_time"},"state":{}}'),
            'failed to add consumer "x": consumer delivery policy is deliver by start time, but '
            "optional start time is not set (10094)",
            0,
        ),
    ],
)
def test_damaged(data: bytes, text: str, messages: int | None) -> None:
    """A damaged archive is refused with nats-server's text. Messages before the damage stay."""
    stage = CopyStage()
    error = stage.back(data, 50)["error"]
    assert error == {"code": 500, "err_code": 10062, "description": f"restore failed: {text}"}
    info = stage.ask("STREAM.INFO.S")
    if messages is None:
        assert info["error"]["err_code"] == 10059
    else:
        assert info["state"]["messages"] == messages


def test_consumerExpected() -> None:
    """An archive with fewer consumers than its state says is refused."""
    state = encodeEntry(b"state.json", 1, 0, b"", b'{"consumer_count":1}')
    error = CopyStage().back(compressed(MAGIC + state + _MESSAGE + END))["error"]
    assert error["description"] == 'restore failed: expected consumer, found "s.x"'


def test_limits() -> None:
    """
    An archive is refused if a message exceeds the stream's limit, or if its subjects overlap with
    another stream.
    """
    stage = CopyStage()
    data = compressed(MAGIC + _DOCUMENT + _MESSAGE + END)
    error = stage.back(data, max_msg_size=3)["error"]
    assert error["description"].endswith("message sequence 5 exceeds maximum message size")
    stage.ask("STREAM.DELETE.S")
    stage.make(name="T", subjects=["s.x"])
    error = stage.back(data)["error"]
    assert error["description"] == (
        "restore failed: error adding stream: subjects overlap with an existing stream (10065)"
    )


def test_deletedMeanwhile() -> None:
    """A stream that is deleted while it is restored stays deleted."""
    stage = CopyStage()
    data = compressed(MAGIC + _DOCUMENT) + compressed(_MESSAGE + END)
    first = len(compressed(MAGIC + _DOCUMENT))
    body = {"config": {"name": "S", "subjects": ["s.>"]}}
    subject = stage.ask("STREAM.RESTORE.S", body)["deliver_subject"].encode()
    assert stage.chunk(subject, data[:first]) == b""
    assert stage.ask("STREAM.DELETE.S")["success"] is True
    assert stage.chunk(subject, data[first:]) == b""
    assert b"restore failed" in stage.chunk(subject, b"")
    assert stage.failure("STREAM.INFO.S") == (404, 10059)
