"""
The headers of published messages.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.jetstream.streams.msgheaders import (
    MessageHeaders,
    expectedSequence,
    needsNewerApi,
    storable,
    withHeader,
    withoutExpectations,
)
from tests.counting import callsOf


def test_values() -> None:
    """The first value counts, without leading blanks; names are case sensitive."""
    known = MessageHeaders(b"NATS/1.0\r\nA:  x y \r\nA: z\r\nB:\r\n\r\n")
    assert known.get(b"A") == b"x y "
    assert known.get(b"a") == known.get(b"B") == b""
    assert b"B" in known
    assert b"b" not in known


@pytest.mark.parametrize(("text", "number"), [(b"7", 7), (b"-7", -1), (b"abc", -1), (b"", -1)])
def test_expectedSequence(text: bytes, number: int) -> None:
    """An expected sequence that is not a number equals no sequence."""
    assert expectedSequence(text) == number


def test_withHeader() -> None:
    """A header is replaced where it stands, or added at the end."""
    block = b"NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n"
    assert withHeader(block, b"A", b"3") == b"NATS/1.0\r\nA: 3\r\nB: 2\r\n\r\n"
    assert withHeader(block, b"C", b"3") == b"NATS/1.0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n"
    assert withHeader(b"", b"C", b"3") == b"NATS/1.0\r\nC: 3\r\n\r\n"


@pytest.mark.parametrize(
    ("level", "isNewer"), [(b"5", False), (b"6", True), (b"x", True), (b"", False)]
)
def test_needsNewerApi(level: bytes, isNewer: bool) -> None:
    """A required API level is refused if it is above the server's, or not a number."""
    assert needsNewerApi(b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\n\r\n" % level) is isNewer
    assert not needsNewerApi(b"NATS/1.0\r\nA: 9\r\n\r\n")


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ([b"Nats-Expected-Stream: S", b"Nats-Batch-Id: 1", b"A: 1"], [b"A: 1"]),
        ([b"nats-expected-stream: S", b"A: Nats-Batch-Id"], None),
        ([b"Nats-Batch-Commit: 1"], []),
    ],
)
def test_withoutExpectations(lines: list[bytes], left: list[bytes] | None) -> None:
    """
    Headers with expectations are removed, in their exact spelling. If no header is left, the block
    is empty.
    """
    block = b"\r\n".join([b"NATS/1.0", *lines, b"", b""])
    expected = block if left is None else b"\r\n".join([b"NATS/1.0", *left, b"", b""])
    assert withoutExpectations(block) == (b"" if left == [] else expected)
    assert withoutExpectations(b"") == b""


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ([b"A: 1", b'Nats-Request-Info: {"acc":"B"}', b"B: 2"], [b"A: 1", b"B: 2"]),
        ([b"A: Nats-Request-Info"], [b"A: Nats-Request-Info"]),
        ([b'Nats-Request-Info: {"acc":"B"}'], []),
    ],
)
def test_publisherInfo(lines: list[bytes], left: list[bytes]) -> None:
    """The header about the publisher is left out. A block without other headers becomes empty."""
    block = b"\r\n".join([b"NATS/1.0", *lines, b"", b""])
    expected = b"\r\n".join([b"NATS/1.0", *left, b"", b""]) if left else b""
    assert storable(block) == expected
    assert storable(b"") == b""


@pytest.mark.parametrize(
    ("block", "left"),
    [
        (b"NATS/1.0 503\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"NATS/1.0 100 FlowControl Request\r\n\r\n", b""),
        (b"NATS/1.0503\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"NATS/1.0 503\nA: b\r\n\r\n", b""),
        (b"NATS/1.0\r503\r\n\r\n", b""),
        (b"NATS/1.0 503\n\n", b""),
        (b"NATS/1.0 503", b""),
        (b"NATS/1.0 503\r\nNats-Request-Info: {}\r\n\r\n", b""),
    ],
)
def test_status(block: bytes, left: bytes) -> None:
    """A status is left out, also where lines end in another way."""
    assert storable(block) == left


@pytest.mark.parametrize(
    "block",
    [
        b"NATS/1.0\r\n\r\n",
        b"NATS/1.0",
        b"NATS/1.0\nA: b\n\n",
        b"nats/1.0 503\r\n\r\n",
        b"A: NATS/1.0 503\r\n\r\n",
    ],
)
def test_noStatus(block: bytes) -> None:
    """A block without a status stays as it is."""
    assert storable(block) == block


_LINES = st.lists(
    st.sampled_from(
        [b"A: 1", b"A:2", b"A:", b"B:\t x ", b"a: 3", b"no colon", b":A: 4", b"", b"AA: 5"]
    )
)


@given(_LINES, st.sampled_from([b"A", b"B", b"AA", b"C", b""]))
def test_long(lines: list[bytes], name: bytes) -> None:
    """A long header block gives the same values as a short one."""
    block = b"\r\n".join([b"NATS/1.0", *lines, b"", b""])
    short = MessageHeaders(block)
    long = MessageHeaders(block + b"x: %b\r\n\r\n" % (b"x" * 5000))
    assert (long.get(name), name in long) == (short.get(name), name in short)


def test_longWork() -> None:
    """Reading one header of a block does not parse all of its lines."""
    block = b"NATS/1.0\r\n" + b"k: v\r\n" * 80_000 + b"Nats-Msg-Id: 1\r\n\r\n"
    headers: list[bytes] = []
    calls = callsOf(lambda: headers.append(MessageHeaders(block).get(b"Nats-Msg-Id")))
    assert headers == [b"1"]
    assert calls < 20
