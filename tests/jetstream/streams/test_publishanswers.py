"""
The answers to publishers.
"""

from __future__ import annotations

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.streams.publishanswers import DUPLICATE, PublishAnswers


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
