"""
Direct reads: nats-server's answers to their bodies.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.model.bodies import MessageGetRequest
from natsbroker.jetstream.model.statusrequests import (
    StatusRefusal,
    parseDirect,
    parseDirectLast,
)
from natsbroker.steps import finish


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", "Empty"),
        (b"{}", "Empty"),
        (b"null", "Empty"),
        (b'{"seq":0}', "Empty"),
        (b'{"multi_last":[]}', "Empty"),
        (b"x", "Malformed"),
        (b"[]", "Malformed"),
        (b'{"seq":"x"}', "Malformed"),
        (b'{"seq":1}x', "Malformed"),
        (b'{"seq":1,"last_by_subj":"a"}', "Bad"),
        (b'{"batch":1,"last_by_subj":"a"}', "Bad"),
        (b'{"seq":1,"up_to_seq":1,"up_to_time":"2024-01-01T00:00:00Z"}', "Bad"),
        (b'{"multi_last":["a"],"last_by_subj":"b"}', "Bad"),
        (b'{"multi_last":["a"],"next_by_subj":"b"}', "Bad"),
        (b'{"seq":1,"start_time":"2024-01-01T00:00:00Z"}', "Bad"),
    ],
)
def test_refusedDirect(body: bytes, status: str) -> None:
    """A direct get that selects no message, or selects in two ways, is refused."""
    with pytest.raises(StatusRefusal) as caught:
        finish(parseDirect(body))
    assert str(caught.value) == f"408 {status} Request"


def test_direct() -> None:
    """A direct get may have unknown keys, and ask for a batch."""
    assert finish(parseDirect(b'{"seq":1,"zork":1}')) == MessageGetRequest(seq=1)
    assert finish(parseDirect(b'{"next_by_subj":"s.>","batch":5}')).batch == 5
    assert finish(parseDirect(b'{"multi_last":["a"],"batch":5}')).multi_last == ("a",)


@pytest.mark.parametrize(
    ("body", "subject", "status"),
    [
        (b"x", "a", "Malformed"),
        (b" ", "a", "Malformed"),
        (b'{"seq":1}', "a", "Bad"),
        (b'{"batch":1}', "a", "Bad"),
        (b'{"up_to_seq":1}', "a", "Bad"),
        (b"", "", "Bad"),
    ],
)
def test_refusedDirectLast(body: bytes, subject: str, status: str) -> None:
    """A direct get with a subject of a message is refused if its body selects a message too."""
    with pytest.raises(StatusRefusal) as caught:
        finish(parseDirectLast(body, subject))
    assert str(caught.value) == f"408 {status} Request"


def test_directLast() -> None:
    """The last message of a subject may be asked for without its headers."""
    assert finish(parseDirectLast(b"", "s.a")) == MessageGetRequest(last_by_subj="s.a")
    assert finish(parseDirectLast(b"{}", "s.a")) == MessageGetRequest(last_by_subj="s.a")
    assert finish(parseDirectLast(b'{"no_hdr":true,"max_bytes":1}', "s.a")) == MessageGetRequest(
        last_by_subj="s.a", no_hdr=True, max_bytes=1
    )
