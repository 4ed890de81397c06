"""
The answers to publishers.
"""

from __future__ import annotations

import json
from random import Random

from natsbroker.accounts.tracing import CLIENT, AccountTracing, TracePeer
from natsbroker.interfaces.records import Record
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.streams.publishanswers import (
    DUPLICATE,
    PublishAnswers,
    StreamBatch,
    tracedIn,
)
from natsbroker.wire.values import Message
from tests.support import Names, onEach, using


def test_answers() -> None:
    """Answers have the stream; the domain stands in the middle, and never in errors."""
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
    """The acknowledgements of many messages are those of each."""
    with using(names):
        answers = PublishAnswers("S", "hub")
        expected = [answers.stored(each) for each in range(8, 12)]
        assert answers.storedMany(8, 4) == expected
        assert answers.storedMany(1 << 62, 1) == [answers.stored(1 << 62)]


@onEach
def test_records(names: Names) -> None:
    """A batch gives its entries as records, their headers without what stands before them."""
    with using(names):
        batch = StreamBatch(7)
        batch.entries += [(b"s.a", b"\0\0\0\1A", b"x", 3), (b"s.b", b"", b"y", 4)]
        first, second = batch.records(4)
        assert first == Record(7, 3, b"s.a", b"A", b"x")
        assert second == Record(8, 4, b"s.b", b"", b"y")
        assert type(first) is Record
        assert batch.records(0)[0].headers == b"\0\0\0\1A"


def test_traced() -> None:
    """A stream adds one event to a trace, and what it stores is not traced where it goes."""
    sent: list[Message] = []
    tracing = AccountTracing("A", dict, float, Random(1), sent.append)
    headers = b"NATS/1.0\r\nNats-Trace-Dest: t\r\n\r\n"
    asked = Message(b"s.a", headers + b"x", headerLength=len(headers))
    message = tracing.begin(asked, TracePeer(CLIENT, 1, ""))
    assert message is not None
    arrived = tracedIn("S", message)
    assert arrived.headers == b"NATS/1.0\r\nNats-Trace-Dest: trace disabled\r\n\r\n"
    assert arrived.trace is not None
    message.trace.release()
    assert sent == []
    arrived.trace.refused(errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM())
    arrived.trace.stored(b"s.a")
    (_, event) = json.loads(sent[0].payload)["events"]
    del event["ts"]
    assert event == {"type": "js", "stream": "S", "error": "maximum payload exceeded"}
