"""
Pull requests and direct reads: nats-server's answers to their bodies.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.model.bodies import MessageGetRequest
from natsbroker.jetstream.model.statusrequests import (
    PullBody,
    StatusRefusal,
    parseDirect,
    parseDirectLast,
    parsePullBody,
)
from natsbroker.steps import finish


@pytest.mark.parametrize(
    ("body", "batch"),
    [
        (b"", 1),
        (b" 7\n", 7),
        (b"+7", 7),
        (b"0", 1),
        (b"-3", 1),
        (b"0x7", 1),
        (b"garbage", 1),
        (b"[5]", 1),
        (b"9" * 30, 1),
    ],
)
def test_noObject(body: bytes, batch: int) -> None:
    """A number is a batch; anything else but an object asks for one message."""
    assert parsePullBody(body) == PullBody(batch=batch, isObject=False)


def test_object() -> None:
    """An object may have any key, and asks for at least one message."""
    body = b' {"batch":5,"expires":10,"idle_heartbeat":5,"zork":{"a":[1]},"ID":"x","priority":3} '
    assert parsePullBody(body) == PullBody(
        batch=5, expires=10, idle_heartbeat=5, id="x", priority=3
    )
    assert parsePullBody(b'{"batch":-2}') == PullBody(batch=1)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            b'{"batch":"x","no_wait":true}',
            "json: cannot unmarshal string into Go struct field .batch of type int",
        ),
        (b'{"batch":"x", y}', "invalid character 'y' looking for beginning of object key string"),
        (b'{"x":1,"batch":1', "unexpected end of JSON input"),
        (b'{"batch":"x"}x', "invalid character 'x' after top-level value"),
        (
            b'{"batch":1.5}',
            "json: cannot unmarshal number 1.5 into Go struct field .batch of type int",
        ),
        (
            b'{"min_pending":"a"}',
            "json: cannot unmarshal string into Go struct field .min_pending of type int64",
        ),
        (
            b'{"BATCH":"x"}',
            "json: cannot unmarshal string into Go struct field .BATCH of type int",
        ),
        (
            b'{"expires":"1s"}',
            "json: cannot unmarshal string into Go struct field .expires of type time.Duration",
        ),
        (b'{"a":"\\q"}', "invalid escape sequence `\\q` in string"),
        (b'{"batch":1,"idle_heartbeat":5}', "heartbeat value too large"),
    ],
)
def test_refusedPull(body: bytes, text: str) -> None:
    """Malformed JSON is refused with Go's text."""
    with pytest.raises(StatusRefusal) as caught:
        parsePullBody(body)
    assert str(caught.value) == f"400 Bad Request - {text}"


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
    """A direct read that names nothing, or too much, is refused."""
    with pytest.raises(StatusRefusal) as caught:
        finish(parseDirect(body))
    assert str(caught.value) == f"408 {status} Request"


def test_direct() -> None:
    """A direct read may have unknown keys, and a batch of the next messages."""
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
    """The subject of a direct read names its message, and the body none."""
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
