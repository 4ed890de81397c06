"""
The dialect of leafnodes.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker import errors
from natsbroker.testing.strategies import literalSubjects, patterns, payloads
from natsbroker.wire import ops
from natsbroker.wire.dialects.leaf import (
    FROM_LEAF,
    interestLine,
    lostLine,
    messageFrame,
)
from natsbroker.wire.dialects.route import LinkInterest, splitInterest, splitLost
from natsbroker.wire.values import Message
from tests.support import Names, onEach
from tests.wire.dialects.frames import framesOf

QUEUES = st.sampled_from([b"q", b"workers", b"q.*", b"+", b"|"])


def decoded(names: Names, data: bytes, *cuts: int) -> list[tuple[Any, ...]]:
    """The frames of some input in pieces."""
    return framesOf(names, FROM_LEAF, data, cuts)


LINES: list[tuple[bytes, tuple[Any, ...]]] = [
    (b'INFO {"a":1} \r\n', (ops.INFO, b'{"a":1} ')),
    (b"CONNECT {}\r\n", (ops.CONNECT, b"{}")),
    (b"PING\r\n", (ops.PING,)),
    (b"PONG\r\n", (ops.PONG,)),
    (b"+OK\r\n", (ops.OK,)),
    (b"-ERR 'x'\r\n", (ops.ERR, b"'x'")),
    (b"LS+ foo\r\n", (ops.LS_PLUS, b"foo")),
    (b"ls- foo q\r\n", (ops.LS_MINUS, b"foo q")),
    (b"LMSG foo 2\r\nhi\r\n", (ops.LMSG, b"foo", b"", 0, b"hi", b"2", b"", None)),
    (b"LMSG foo r 2\r\nhi\r\n", (ops.LMSG, b"foo", b"r", 0, b"hi", b"2", b"", None)),
    (b"LMSG foo | q p 2\r\nhi\r\n", (ops.LMSG, b"foo", b"", 0, b"hi", b"2", b"", (b"q", b"p"))),
    (b"LMSG foo + r q 2\r\nhi\r\n", (ops.LMSG, b"foo", b"r", 0, b"hi", b"2", b"", (b"q",))),
    (b"HMSG foo 1 2\r\nhi\r\n", (ops.HMSG, b"foo", b"", 1, b"hi", b"2", b"1", None)),
    (b"HMSG foo + r q 1 2\r\nhi\r\n", (ops.HMSG, b"foo", b"r", 1, b"hi", b"2", b"1", (b"q",))),
]


@onEach
@pytest.mark.parametrize("data, frame", LINES)
def test_lines(names: Names, data: bytes, frame: tuple[Any, ...]) -> None:
    """Every operation is read, whole and cut anywhere."""
    assert decoded(names, data) == [frame]
    for cut in range(1, len(data)):
        assert decoded(names, data, cut) == [frame]


@onEach
@pytest.mark.parametrize(
    "data, error",
    [
        (b"LMSG foo\r\n", errors.BAD_ARGUMENTS),
        (b"LMSG foo x y 2\r\n", errors.BAD_ARGUMENTS),
        (b"LMSG foo x\r\n", errors.BAD_ARGUMENTS),
        (b"LMSG foo -1\r\n", errors.BAD_ARGUMENTS),
        (b"HMSG foo 2\r\n", errors.BAD_ARGUMENTS),
        (b"HMSG foo 3 2\r\n", errors.BAD_ARGUMENTS),
        (b"HMSG foo + r x 2\r\n", errors.BAD_ARGUMENTS),
        (b"LMSG foo 2000000\r\n", errors.PAYLOAD),
        (b"RS+ A foo\r\n", errors.UNKNOWN_OPERATION),
        (b"RMSG A foo 2\r\nhi\r\n", errors.UNKNOWN_OPERATION),
        (b"SUB foo 1\r\n", errors.UNKNOWN_OPERATION),
        (b"LMSG foo 2\r\nhiho\r\n", errors.UNKNOWN_OPERATION),
        (b"LS+ " + b"x" * 5000, errors.CONTROL_LINE),
    ],
)
def test_faults(names: Names, data: bytes, error: errors.WireError) -> None:
    """An invalid line is a fault."""
    assert decoded(names, data)[-1] == (ops.FAULT, error)


@onEach
@given(
    subject=literalSubjects(),
    reply=st.just(b"") | literalSubjects(),
    body=payloads(),
    queues=st.lists(QUEUES, max_size=3),
    header=st.integers(0, 20),
    cut=st.integers(0, 200),
)
def test_messages(
    names: Names,
    subject: bytes,
    reply: bytes,
    body: bytes,
    queues: list[bytes],
    header: int,
    cut: int,
) -> None:
    """A message is read as it was written."""
    header = min(header, len(body))
    frame = messageFrame(Message(subject, body, reply, header), queues, True)
    (got,) = decoded(names, frame, cut)
    chosen = tuple(queues) if queues else None
    assert (got[1], got[2], got[3], got[4], got[7]) == (subject, reply, header, body, chosen)
    stripped = messageFrame(Message(subject, body, reply, header), queues, False)
    (got,) = decoded(names, stripped, cut)
    assert (got[3], got[4]) == (0, body[header:])


@given(patterns(), st.just(b"") | QUEUES, st.integers(1, 1000))
def test_interest(pattern: bytes, queue: bytes, weight: int) -> None:
    """Interest is read as it was written."""
    gained = interestLine(pattern, queue, weight)
    expected = LinkInterest(b"A", b"", pattern, queue, weight if queue else 0)
    assert splitInterest(gained[4:-2], account=b"A") == expected
    lost = lostLine(pattern, queue)
    assert splitLost(lost[4:-2], account=b"A") == LinkInterest(b"A", b"", pattern, queue)


@pytest.mark.parametrize("line", [b"", b"a b", b"a b x", b"a b 1 2"])
def test_badInterest(line: bytes) -> None:
    """Interest without a subject, or with a group without weight, is a fault."""
    assert splitInterest(line, account=b"A") is None


@pytest.mark.parametrize("line", [b"", b"a b c"])
def test_badLost(line: bytes) -> None:
    """The end of interest with a weight is a fault."""
    assert splitLost(line, account=b"A") is None
