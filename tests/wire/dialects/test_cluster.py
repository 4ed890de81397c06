"""
The dialect of routes before NATS 2.0.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker import errors
from natsbroker.testing.strategies import literalSubjects, patterns, payloads
from natsbroker.wire import ops
from natsbroker.wire.dialects.client import splitSubscription
from natsbroker.wire.dialects.cluster import (
    FROM_MEMBER,
    isDirected,
    messageFrame,
    numberOf,
    sidFor,
    splitUnsubscription,
    subscriptionLine,
    unsubscriptionLine,
)
from natsbroker.wire.values import Message
from tests.support import Names, onEach
from tests.wire.dialects.frames import framesOf

SIDS = st.sampled_from([b"RSID:1:1", b"QRSID:14:44", b"RSID:3:a:b", b"9", b"QRSID"])


def decoded(names: Names, data: bytes, *cuts: int) -> list[tuple[Any, ...]]:
    """The frames of some input in pieces."""
    return framesOf(names, FROM_MEMBER, data, cuts)


def msg(subject: bytes, sid: bytes, body: bytes, reply: bytes = b"") -> tuple[Any, ...]:
    """The frame of a MSG."""
    return ops.MSG, subject, reply, 0, body, b"%d" % len(body), b"", sid


@onEach
@pytest.mark.parametrize(
    "data, frame",
    [
        (b"PING\r\n", (ops.PING,)),
        (b"ping\n", (ops.PING,)),
        (b"PONG\r\n", (ops.PONG,)),
        (b"+OK\r\n", (ops.OK,)),
        (b"-ERR 'no'\r\n", (ops.ERR, b"'no'")),
        (b'INFO {"port":1} \r\n', (ops.INFO, b'{"port":1} ')),
        (b"CONNECT {}\r\n", (ops.CONNECT, b"{}")),
        (b"SUB foo  RSID:3:1\r\n", (ops.SUB, b" foo  RSID:3:1".lstrip())),
        (b"SUB bar G1 QRSID:14:44\r\n", (ops.SUB, b"bar G1 QRSID:14:44")),
        (b"sub\tlower\t\tRSID:1:9\r\n", (ops.SUB, b"lower\t\tRSID:1:9")),
        (b"SUB lf RSID:1:11\n", (ops.SUB, b"lf RSID:1:11")),
        (b"UNSUB RSID:1:1 5\r\n", (ops.UNSUB, b"RSID:1:1 5")),
        (b"MSG foo RSID:3:1 5\r\nhello\r\n", msg(b"foo", b"RSID:3:1", b"hello")),
        (b"MSG foo RSID:3:1 0\r\n\r\n", msg(b"foo", b"RSID:3:1", b"")),
        (
            b"MSG foo QRSID:3:1 INBOX.22 11\r\nKnock Knock\r\n",
            msg(b"foo", b"QRSID:3:1", b"Knock Knock", b"INBOX.22"),
        ),
        (b"MSG foo 9 1\r\nx\r\n", msg(b"foo", b"9", b"x")),
        (b"msg   pre\tRSID:2:1   1\r\nm\r\n", msg(b"pre", b"RSID:2:1", b"m")),
        (b"PUB FOO 1\r\nx\r\n", (ops.PUB, b"FOO", b"", 0, b"x", b"1", b"", b"")),
        (b"PUB FOO r 1\r\nx\r\n", (ops.PUB, b"FOO", b"r", 0, b"x", b"1", b"", b"")),
    ],
    ids=repr,
)
def test_line(names: Names, data: bytes, frame: tuple[Any, ...]) -> None:
    """Each operation is read, whole and cut in two anywhere."""
    assert decoded(names, data) == [frame]
    for cut in range(1, len(data)):
        assert decoded(names, data, cut) == [frame]


@onEach
@pytest.mark.parametrize(
    "data, error",
    [
        (b"FOO bar\r\n", errors.UNKNOWN_OPERATION),
        (b"RS+ $G foo\r\n", errors.UNKNOWN_OPERATION),
        (b"HMSG foo RSID:1:1 1 1\r\n", errors.UNKNOWN_OPERATION),
        (b"HPUB foo 1 1\r\n", errors.UNKNOWN_OPERATION),
        (b"SUB\r\n", errors.UNKNOWN_OPERATION),
        (b"MSG foo RSID:1:1\r\n", errors.BAD_ARGUMENTS),
        (b"MSG foo RSID:1:1 a b 1\r\n", errors.BAD_ARGUMENTS),
        (b"MSG foo RSID:1:1 abc\r\n", errors.BAD_ARGUMENTS),
        (b"MSG foo RSID:1:1 -1\r\n", errors.BAD_ARGUMENTS),
        (b"MSG foo RSID:1:1 1048577\r\n", errors.PAYLOAD),
        (b"MSG pre RSID:2:1 2\r\nabcdef\r\n", errors.UNKNOWN_OPERATION),
        (b"PUB foo\r\n", errors.BAD_ARGUMENTS),
        (b"PUB foo a b 1\r\n", errors.BAD_ARGUMENTS),
        (b"SUB " + b"a" * 5000 + b" RSID:1:1\r\n", errors.CONTROL_LINE),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_malformedLine(names: Names, data: bytes, error: errors.WireError) -> None:
    """A malformed line is a fault, in whatever pieces it arrives."""
    for cut in (len(data), 1, 3, len(data) // 2):
        assert decoded(names, data, cut) == [(ops.FAULT, error)]


@onEach
@given(
    messages=st.lists(
        st.tuples(literalSubjects(), SIDS, st.sampled_from([b"", b"re.ply"]), payloads()),
        max_size=5,
    ),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_messages(names: Names, messages: list[tuple[bytes, ...]], cuts: list[int]) -> None:
    """A message is read as it was sent, in whatever pieces it arrives."""
    data = b"".join(
        messageFrame(Message(subject, body, reply), sid) for subject, sid, reply, body in messages
    )
    assert decoded(names, data, *sorted(cuts)) == [
        msg(subject, sid, body, reply) for subject, sid, reply, body in messages
    ]


def test_headers() -> None:
    """Headers are left out, because old servers do not understand them."""
    message = Message(b"foo", b"NATS/1.0\r\n\r\nhello", b"r", 12)
    assert messageFrame(message, b"RSID:1:1") == b"MSG foo RSID:1:1 r 5\r\nhello\r\n"


@given(patterns(), st.sampled_from([b"", b"q"]), st.integers(1, 1 << 40), st.integers(1, 128))
def test_subscriptions(pattern: bytes, queue: bytes, number: int, member: int) -> None:
    """Interest lines are read."""
    sid = sidFor(number, member, queue)
    line = subscriptionLine(pattern, queue, sid)
    assert splitSubscription(line[4:-2]) == (pattern, queue, sid)
    assert splitUnsubscription(unsubscriptionLine(sid)[6:-2]) == (sid, 0)
    assert isDirected(sid) is bool(queue)
    assert numberOf(sid) == (number if queue else -1)


def test_asGnatsd() -> None:
    """The written lines equal nats-server's, including two spaces in a row."""
    assert subscriptionLine(b"foo", b"", sidFor(3, 1, b"")) == b"SUB foo  RSID:3:1\r\n"
    assert subscriptionLine(b"bar", b"G1", sidFor(3, 2, b"G1")) == b"SUB bar G1 QRSID:3:2\r\n"
    assert unsubscriptionLine(b"RSID:3:1") == b"UNSUB RSID:3:1\r\n"


@pytest.mark.parametrize(
    "line, result",
    [
        (b"RSID:5:1", (b"RSID:5:1", 0)),
        (b"RSID:1:1 5", (b"RSID:1:1", 5)),
        (b"RSID:1:1 x", (b"RSID:1:1", 0)),
        (b" \t RSID:1:9", (b"RSID:1:9", 0)),
        (b"1 RSID:5:1", (b"RSID:5:1", 0)),
        (b"1 QRSID:5:1 7", (b"QRSID:5:1", 7)),
        (b"9", (b"9", 0)),
        (b"9 2", (b"9", 2)),
        (b"a b c", None),
        (b"", None),
        (b"1 RSID:5:1 5 6", None),
    ],
)
def test_splitUnsubscription(line: bytes, result: tuple[bytes, int] | None) -> None:
    """The end of a subscription is read in both documented forms, with sids of any kind."""
    assert splitUnsubscription(line) == result


@pytest.mark.parametrize(
    "sid",
    [b"QRSID", b"QRSID:1", b"QRSID:1:2:3", b"QRSID:x:1", b"QRSID:1:x", b"RSID:1:1", b"9", b"",
     b"QRSID:-1:1", b"QRSID:%d:1" % 10**30],
)  # fmt: skip
def test_notOurs(sid: bytes) -> None:
    """A sid that this broker did not give has the number -1."""
    assert numberOf(sid) == -1
