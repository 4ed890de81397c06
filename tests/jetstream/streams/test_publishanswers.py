"""
The answers to publishers.
"""

from __future__ import annotations

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.streams.publishanswers import DUPLICATE, PublishAnswers, StreamBatch
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
