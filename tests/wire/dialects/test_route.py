"""
The dialect of routes since NATS 2.0.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker import errors
from natsbroker.testing.strategies import literalSubjects, patterns, payloads
from natsbroker.wire import ops
from natsbroker.wire.dialects.route import (
    FROM_ROUTE,
    LinkInterest,
    interestLine,
    lostLine,
    messageFrame,
    routeLines,
    splitInterest,
    splitLost,
)
from natsbroker.wire.values import Message
from tests.support import Names, onEach
from tests.wire.dialects.frames import framesOf

ACCOUNTS = st.sampled_from([b"$G", b"A", b"B-1", "\u00e4".encode()])
QUEUES = st.sampled_from([b"q", b"workers", b"q.*", b"+", b"|"])


def decoded(names: Names, data: bytes, *cuts: int, account: bytes = b"") -> list[tuple[Any, ...]]:
    """The frames of some input in pieces."""
    return framesOf(names, routeLines(account), data, cuts)


def message(
    subject: bytes,
    body: bytes,
    reply: bytes = b"",
    header: int = 0,
    queues: tuple[bytes, ...] | None = None,
    op: int = ops.RMSG,
    origin: bytes = b"",
    account: bytes = b"A",
) -> tuple[Any, ...]:
    """The frame of a message."""
    size, head = b"%d" % len(body), b"%d" % header if op != ops.RMSG else b""
    return op, subject, reply, header, body, size, head, account, queues, origin


ROWS: dict[str, tuple[bytes, list[tuple[Any, ...]]]] = {
    "plain": (b"RMSG A foo 2\r\nhi\r\n", [message(b"foo", b"hi")]),
    "reply": (b"RMSG A foo rep 2\r\nhi\r\n", [message(b"foo", b"hi", b"rep")]),
    "queues": (
        b"RMSG A foo | q1 q2 2\r\nhi\r\n",
        [message(b"foo", b"hi", queues=(b"q1", b"q2"))],
    ),
    "reply and queues": (
        b"RMSG A foo + rep q1 q2 2\r\nhi\r\n",
        [message(b"foo", b"hi", b"rep", queues=(b"q1", b"q2"))],
    ),
    "reply and no queue": (
        b"RMSG A foo + rep 2\r\nhi\r\n",
        [message(b"foo", b"hi", b"rep", queues=())],
    ),
    "a reply that looks like a mark": (b"RMSG A foo + 2\r\nhi\r\n", [message(b"foo", b"hi", b"+")]),
    "empty": (b"RMSG A foo 0\r\n\r\n", [message(b"foo", b"")]),
    "headers": (b"HMSG A foo 3 5\r\nhhhpp\r\n", [message(b"foo", b"hhhpp", header=3, op=ops.HMSG)]),
    "headers, reply, queues": (
        b"HMSG A foo + rep q 3 5\r\nhhhpp\r\n",
        [message(b"foo", b"hhhpp", b"rep", 3, (b"q",), ops.HMSG)],
    ),
    "origin": (
        b"LMSG LC A up 0 2\r\nhi\r\n",
        [message(b"up", b"hi", op=ops.LMSG, origin=b"LC")],
    ),
    "origin, reply, queues": (
        b"LMSG LC A up + rep q 0 2\r\nhi\r\n",
        [message(b"up", b"hi", b"rep", 0, (b"q",), ops.LMSG, b"LC")],
    ),
    "any case, tabs": (b"rmsg\tA\tfoo  2\r\nhi\r\nping\r\n", [message(b"foo", b"hi"), (ops.PING,)]),
    "interest": (
        b"RS+ A foo\r\nRS- A foo\r\n",
        [(ops.RS_PLUS, b"A foo"), (ops.RS_MINUS, b"A foo")],
    ),
    "leaf": (
        b"LS+ LC A foo\r\nLS- LC A foo\r\n",
        [(ops.LS_PLUS, b"LC A foo"), (ops.LS_MINUS, b"LC A foo")],
    ),
    "the rest": (
        b"INFO {}\r\nCONNECT {}\r\nPONG\r\n+OK\r\n-ERR 'x'\r\n",
        [(ops.INFO, b"{}"), (ops.CONNECT, b"{}"), (ops.PONG,), (ops.OK,), (ops.ERR, b"'x'")],
    ),
    "payload like protocol": (
        b"RMSG A foo 6\r\nPING\r\n\r\n",
        [message(b"foo", b"PING\r\n")],
    ),
    "too few": (b"RMSG A 2\r\n", [(ops.FAULT, errors.BAD_ARGUMENTS)]),
    "headers, too few": (b"HMSG A foo 2\r\n", [(ops.FAULT, errors.BAD_ARGUMENTS)]),
    "origin, too few": (b"LMSG LC A up 2\r\n", [(ops.FAULT, errors.BAD_ARGUMENTS)]),
    "no mark": (b"RMSG A foo rep q 2\r\n", [(ops.FAULT, errors.BAD_ARGUMENTS)]),
    "no size": (b"RMSG A foo x\r\n", [(ops.FAULT, errors.BAD_ARGUMENTS)]),
    "headers longer than all": (b"HMSG A foo 3 2\r\n", [(ops.FAULT, errors.BAD_ARGUMENTS)]),
    "too large": (b"RMSG A foo 9999999\r\n", [(ops.FAULT, errors.PAYLOAD)]),
    "no end": (b"RMSG A foo 1\r\nhi\r\n", [(ops.FAULT, errors.UNKNOWN_OPERATION)]),
    "a client's operation": (b"SUB foo 1\r\n", [(ops.FAULT, errors.UNKNOWN_OPERATION)]),
    "unknown": (b"FOO\r\n", [(ops.FAULT, errors.UNKNOWN_OPERATION)]),
}

eachRow = pytest.mark.parametrize(("data", "frames"), ROWS.values(), ids=ROWS)


@onEach
@eachRow
def test_everySplit(names: Names, data: bytes, frames: list[tuple[Any, ...]]) -> None:
    """Each line gives the same frames, cut in two anywhere, and byte by byte."""
    for cut in range(len(data)):
        assert decoded(names, data, cut) == frames
    assert decoded(names, data, *range(len(data))) == frames


@onEach
def test_dedicated(names: Names) -> None:
    """On a connection for a single account, lines do not name the account."""
    lines = (b"RMSG foo 2", b"RMSG foo rep 2", b"RMSG foo | q 2", b"LMSG LC up 0 2")
    data = b"".join(line + b"\r\nhi\r\n" for line in lines)
    assert decoded(names, data, account=b"A") == [
        message(b"foo", b"hi"),
        message(b"foo", b"hi", b"rep"),
        message(b"foo", b"hi", queues=(b"q",)),
        message(b"up", b"hi", op=ops.LMSG, origin=b"LC"),
    ]


MESSAGES = st.builds(
    Message,
    literalSubjects(),
    payloads(),
    st.just(b"") | literalSubjects(),
    st.just(0),
)


@onEach
@given(
    messages=st.lists(
        st.tuples(ACCOUNTS, MESSAGES, st.lists(QUEUES, max_size=3), st.booleans()), max_size=4
    ),
    cuts=st.lists(st.integers(0, 400), max_size=5),
    isDedicated=st.booleans(),
)
def test_readsWhatItWrites(
    names: Names,
    messages: list[tuple[bytes, Message, list[bytes], bool]],
    cuts: list[int],
    isDedicated: bool,
) -> None:
    """A message is read as it was written, however it is cut."""
    data, expected = b"", []
    for account, sent, queues, hasHeader in messages:
        if hasHeader:
            block = b"NATS/1.0\r\nA: 1\r\n\r\n"
            sent = Message(sent.subject, block + sent.body, sent.reply, len(block))
        named = b"" if isDedicated else account
        data += messageFrame(named, sent, queues, True)
        expected.append(
            (
                sent.subject,
                sent.reply,
                sent.headerLength,
                sent.body,
                b"A" if isDedicated else account,
                tuple(queues) or None,
            )
        )
    frames = decoded(names, data, *cuts, account=b"A" if isDedicated else b"")
    assert [(*frame[1:5], *frame[7:9]) for frame in frames] == expected
    assert all(frame[0] in (ops.RMSG, ops.HMSG) for frame in frames)


def test_withoutHeaders() -> None:
    """A peer that does not support headers gets only the payload."""
    sent = Message(b"foo", b"NATS/1.0\r\n\r\nhi", b"r", 12)
    assert messageFrame(b"A", sent, (), False) == b"RMSG A foo r 2\r\nhi\r\n"
    assert messageFrame(b"A", sent, (b"q",), True) == (
        b"HMSG A foo + r q 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    )


@given(
    account=ACCOUNTS,
    pattern=patterns(),
    queue=st.just(b"") | QUEUES,
    weight=st.integers(1, 999_999_999),
    isDedicated=st.booleans(),
)
def test_interestReadsWhatItWrites(
    account: bytes, pattern: bytes, queue: bytes, weight: int, isDedicated: bool
) -> None:
    """Interest is read as it was written."""
    named, known = (b"", account) if isDedicated else (account, b"")
    gained = interestLine(named, pattern, queue, weight)
    lost = lostLine(named, pattern, queue)
    expected = LinkInterest(account, b"", pattern, queue, weight if queue else 0)
    assert splitInterest(gained[4:-2], False, known) == expected
    assert splitLost(lost[4:-2], False, known) == expected._replace(weight=0)


@pytest.mark.parametrize(
    ("line", "isLeaf", "account", "interest"),
    [
        (b"A foo", False, b"", LinkInterest(b"A", b"", b"foo", b"")),
        (b" A\tfoo  ", False, b"", LinkInterest(b"A", b"", b"foo", b"")),
        (b"A foo q 2", False, b"", LinkInterest(b"A", b"", b"foo", b"q", 2)),
        (b"A foo q 0", False, b"", LinkInterest(b"A", b"", b"foo", b"q", 1)),
        (b"LC A foo", True, b"", LinkInterest(b"A", b"LC", b"foo", b"")),
        (b"LC A foo q 3", True, b"", LinkInterest(b"A", b"LC", b"foo", b"q", 3)),
        (b"foo q 2", False, b"A", LinkInterest(b"A", b"", b"foo", b"q", 2)),
        (b"LC foo", True, b"A", LinkInterest(b"A", b"LC", b"foo", b"")),
        (b"", False, b"", None),
        (b"A", False, b"", None),
        (b"A foo q", False, b"", None),
        (b"A foo q 2 3", False, b"", None),
        (b"A foo q x", False, b"", None),
        (b"", True, b"", None),
        (b"A", True, b"", None),
    ],
)
def test_splitInterest(
    line: bytes, isLeaf: bool, account: bytes, interest: LinkInterest | None
) -> None:
    """The arguments of RS+ and LS+ are split."""
    assert splitInterest(line, isLeaf, account) == interest


@pytest.mark.parametrize(
    ("line", "hasOrigin", "account", "interest"),
    [
        (b"A foo", False, b"", LinkInterest(b"A", b"", b"foo", b"")),
        (b"A foo q", False, b"", LinkInterest(b"A", b"", b"foo", b"q")),
        (b"LC A foo", True, b"", LinkInterest(b"A", b"LC", b"foo", b"")),
        (b"LC A foo q", True, b"", LinkInterest(b"A", b"LC", b"foo", b"q")),
        (b"foo", False, b"A", LinkInterest(b"A", b"", b"foo", b"")),
        (b"A", False, b"", None),
        (b"A foo q 1", False, b"", None),
        (b"", True, b"", None),
    ],
)
def test_splitLost(
    line: bytes, hasOrigin: bool, account: bytes, interest: LinkInterest | None
) -> None:
    """The arguments of RS- and LS- are split."""
    assert splitLost(line, hasOrigin, account) == interest


def test_linesAreShared() -> None:
    """Connections that are not for a single account share one parser."""
    assert routeLines() is FROM_ROUTE
    assert routeLines(b"A") is not FROM_ROUTE
