"""
The answers to publishers.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from natsbroker.accounts.tracing import CLIENT, AccountTracing, TracePeer
from natsbroker.interfaces.records import Record
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.streams.publishanswers import (
    DUPLICATE,
    Arrived,
    PublishAnswers,
    StreamBatch,
    tracedIn,
)
from natsbroker.wire.values import Message
from tests.jetstream.support import Stage
from tests.support import Names, onEach, using


def test_answers() -> None:
    """Acknowledgements have the stream, the domain and the sequence. Errors have no domain."""
    answers = PublishAnswers("S", "hub")
    assert answers.stored(7) == b'{"stream":"S","domain":"hub","seq":7}'
    assert (
        answers.stored(7, DUPLICATE) == b'{"stream":"S","domain":"hub","seq":7,"duplicate": true}'
    )
    error = b'{"code":404,"err_code":10059,"description":"stream not found"}'
    expected = b'{"error":%b,"stream":"S","seq":0}' % error
    assert answers.error(errors.STREAM_NOT_FOUND()) == expected


@onEach
def test_many(names: Names) -> None:
    """Acknowledgements of a run of messages are the same as those of single messages."""
    with using(names):
        stage = Stage()
        stage.stream()
        inbox = stage.inbox(b"_INBOX.a")
        for _ in range(4):
            stage.send(b"s.a", b"", b"_INBOX.a")
        stage.settle()
        assert [message.payload for message in inbox.got] == [
            b'{"stream":"S","seq":%d}' % sequence for sequence in range(1, 5)
        ]


@onEach
def test_records(names: Names) -> None:
    """A batch gives its entries as records, with the length in front of header blocks removed."""
    with using(names):
        batch = StreamBatch(7)
        batch.entries += [(b"s.a", b"\0\0\0\1A", b"x", 3), (b"s.b", b"", b"y", 4)]
        first, second = batch.records(4)
        assert first == Record(7, 3, b"s.a", b"A", b"x")
        assert second == Record(8, 4, b"s.b", b"", b"y")
        assert type(first) is Record
        assert batch.records(0)[0].headers == b"\0\0\0\1A"


def traced() -> tuple[Message, Arrived, list[Message]]:
    """
    A message with a trace, the message as a stream receives it, and the list that gets the trace.
    """
    sent: list[Message] = []
    tracing = AccountTracing("A", dict, float, Random(1), sent.append)
    headers = b"NATS/1.0\r\nNats-Request-Info: {}\r\nNats-Trace-Dest: t\r\n\r\n"
    asked = Message(b"s.a", headers + b"x", headerLength=len(headers))
    message = tracing.begin(asked, TracePeer(CLIENT, 1, ""))
    assert message is not None
    return message, tracedIn("S", message), sent


def wrongSequence() -> JetStreamError:
    """An error whose text in traces differs."""
    error = errors.STREAM_WRONG_LAST_SEQUENCE(seq=1)
    error.traced = "last sequence mismatch: 9 vs 1"
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.STREAM_SEALED(), "invalid operation on sealed stream (10109)"),
        (errors.STREAM_NOT_MATCH(), "expected stream does not match"),
        (errors.MESSAGE_TTL_DISABLED(), "message TTL disabled"),
        (wrongSequence(), "last sequence mismatch: 9 vs 1"),
    ],
)
def test_tracedError(error: JetStreamError, text: str) -> None:
    """Errors in a trace have nats-server's texts for traces."""
    message, arrived, sent = traced()
    assert arrived.trace is not None
    arrived.trace.refused(error)
    message.trace.release()
    assert json.loads(sent[0].payload)["events"][1]["error"] == text


def test_tracedWithoutRoom() -> None:
    """
    The trace of a message that the full stream refuses has its subject, and whether a consumer
    wants it.
    """
    message, arrived, sent = traced()
    assert arrived.trace is not None
    arrived.trace.judged(b"s.b", False)
    arrived.trace.refused(errors.STREAM_STORE_FAILED(err="maximum messages exceeded"))
    message.trace.release()
    (_, event) = json.loads(sent[0].payload)["events"]
    del event["ts"]
    assert list(event.items()) == [
        ("type", "js"),
        ("stream", "S"),
        ("subject", "s.b"),
        ("nointerest", True),
        ("error", "maximum messages exceeded"),
    ]


def test_traced() -> None:
    """
    A stream adds one event to a message's trace. The stored message does not start another trace.
    """
    message, arrived, sent = traced()
    assert arrived.headers == b"NATS/1.0\r\nNats-Trace-Dest: trace disabled\r\n\r\n"
    assert arrived.trace is not None
    message.trace.release()
    assert sent == []
    arrived.trace.refused(errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM())
    arrived.trace.stored(b"s.a")
    (_, event) = json.loads(sent[0].payload)["events"]
    del event["ts"]
    assert event == {"type": "js", "stream": "S", "error": "maximum payload exceeded"}
