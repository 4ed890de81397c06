"""
The bytes of a server for a client.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.pure.outbox import frameFor
from natsbroker.wire import ops
from natsbroker.wire.connect import parseConnect
from natsbroker.wire.decoder import Decoder
from natsbroker.wire.serverside import (
    ServerDecoder,
    connectLine,
    publishLine,
    subscribeLine,
)
from natsbroker.wire.values import Message
from tests.support import pieces

FAULT = "fault"

ROWS: dict[str, tuple[bytes, list[tuple[Any, ...]]]] = {
    "nothing": (b"", []),
    "info": (b'INFO {"a":1} \r\n', [(ops.INFO, b'{"a":1}')]),
    "bare": (b"PING\r\nPONG\r\n+OK\r\n", [(ops.PING,), (ops.PONG,), (ops.OK,)]),
    "any case": (b"ping\r\nmsg a 1 0\r\n\r\n", [(ops.PING,), (ops.MSG, b"a", b"1", b"", 0, b"")]),
    "LF": (b"PING\nPONG\n", [(ops.PING,), (ops.PONG,)]),
    "error": (b"-ERR 'Stale Connection'\r\n", [(ops.ERR, "Stale Connection")]),
    "error without quotes": (b"-ERR what\r\n", [(ops.ERR, "what")]),
    "error of any bytes": (b"-ERR '\xff'\r\n", [(ops.ERR, "\ufffd")]),
    "message": (b"MSG foo 9 5\r\nhello\r\n", [(ops.MSG, b"foo", b"9", b"", 0, b"hello")]),
    "reply": (b"MSG foo 9 bar 5\r\nhello\r\n", [(ops.MSG, b"foo", b"9", b"bar", 0, b"hello")]),
    "two blanks": (b"MSG foo 9  2\r\nhi\r\n", [(ops.MSG, b"foo", b"9", b"", 0, b"hi")]),
    "tabs": (b"MSG\tfoo\t9\t2\r\nhi\r\n", [(ops.MSG, b"foo", b"9", b"", 0, b"hi")]),
    "payload like protocol": (
        b"MSG a 1 6\r\nPING\r\n\r\n",
        [(ops.MSG, b"a", b"1", b"", 0, b"PING\r\n")],
    ),
    "headers": (b"HMSG a 1 3 5\r\nhhhpp\r\n", [(ops.HMSG, b"a", b"1", b"", 3, b"hhhpp")]),
    "headers and reply": (b"HMSG a 1 r 3 3\r\nhhh\r\n", [(ops.HMSG, b"a", b"1", b"r", 3, b"hhh")]),
    "unknown": (b"FOO\r\n", [(ops.FAULT, FAULT)]),
    "a client's operation": (b"PUB a 1\r\n", [(ops.FAULT, FAULT)]),
    "empty line": (b"\r\n", [(ops.FAULT, FAULT)]),
    "http": (b"HTTP/1.1 400 Bad Request\r\n", [(ops.FAULT, FAULT)]),
    "too few": (b"MSG a 1\r\n", [(ops.FAULT, FAULT)]),
    "too many": (b"MSG a 1 r 2 3\r\n", [(ops.FAULT, FAULT)]),
    "headers too few": (b"HMSG a 1 5\r\n", [(ops.FAULT, FAULT)]),
    "headers too many": (b"HMSG a 1 r 1 1 1\r\n", [(ops.FAULT, FAULT)]),
    "no size": (b"MSG a 1 x\r\n", [(ops.FAULT, FAULT)]),
    "negative": (b"MSG a 1 -1\r\n", [(ops.FAULT, FAULT)]),
    "headers longer than all": (b"HMSG a 1 5 4\r\n", [(ops.FAULT, FAULT)]),
    "no end": (b"PING\r\nMSG a 1 1\r\nhi\r\n", [(ops.PING,), (ops.FAULT, FAULT)]),
    "end without CR": (b"MSG a 1 2\r\nhi\nPING\r\n", [(ops.FAULT, FAULT)]),
    "too large": (b"MSG a 1 101\r\n", [(ops.FAULT, FAULT)]),
    "message line too long": (b"MSG " + b"x" * 200 + b" 1 0\r\n\r\n", [(ops.FAULT, FAULT)]),
    "line too long": (b"INFO " + b"x" * 200 + b"\r\n", [(ops.FAULT, FAULT)]),
}

eachRow = pytest.mark.parametrize(("data", "frames"), ROWS.values(), ids=ROWS)


def run(*parts: bytes) -> list[tuple[Any, ...]]:
    """The frames of input in parts; every fault has the same text."""
    decoder = ServerDecoder(maxPayload=100, maxLine=150)
    frames: list[tuple[Any, ...]] = []
    for part in parts:
        decoder.append(part)
        while (frame := decoder.next()) is not None:
            if frame[0] == ops.FAULT:
                assert frame[1]
                assert decoder.next() == frame
                return [*frames, (ops.FAULT, FAULT)]
            frames.append(frame)
    return frames


class TestRows:
    """Each row, in each way that its bytes can arrive."""

    @eachRow
    def test_oneChunk(self, data: bytes, frames: list[tuple[Any, ...]]) -> None:
        """The rows are read in one chunk."""
        assert run(data) == frames

    @eachRow
    def test_byteByByte(self, data: bytes, frames: list[tuple[Any, ...]]) -> None:
        """The rows are read one byte at a time."""
        assert run(*[bytes([byte]) for byte in data]) == frames

    @eachRow
    def test_everySplit(self, data: bytes, frames: list[tuple[Any, ...]]) -> None:
        """The rows are read in two pieces, wherever they are cut."""
        for cut in range(len(data)):
            assert run(data[:cut], data[cut:]) == frames

    @eachRow
    def test_trailing(self, data: bytes, frames: list[tuple[Any, ...]]) -> None:
        """Input behind a row is read as usual."""
        more = [] if frames and frames[-1][0] == ops.FAULT else [(ops.PING,)]
        assert run(data + b"PING\r\n") == frames + more


class TestBounds:
    """The memory of the decoder."""

    def test_lineThatNeverEnds(self) -> None:
        """A line that never ends is a fault at the limit."""
        decoder = ServerDecoder(maxLine=1000)
        for _ in range(300):
            decoder.append(b"INFO xxxxx")
            if decoder.next() is not None:
                break
        assert decoder.pending == 0
        frame = decoder.next()
        assert frame is not None and frame[0] == ops.FAULT

    def test_afterAFault(self) -> None:
        """Nothing is kept after a fault."""
        decoder = ServerDecoder()
        decoder.append(b"FOO\r\n")
        decoder.next()
        decoder.append(b"x" * 1000)
        assert decoder.pending == 0

    def test_largeMessageInPieces(self) -> None:
        """
        A large message in many pieces is put together in order; the limit can be switched off.
        """
        decoder = ServerDecoder(maxPayload=-1)
        body = bytes(range(256)) * 4000
        for part in pieces(b"MSG a 1 %d\r\n%b\r\n" % (len(body), body), range(0, 1 << 20, 777)):
            assert decoder.next() is None
            decoder.append(part)
        assert decoder.next() == (ops.MSG, b"a", b"1", b"", 0, body)
        assert decoder.pending == 0


@given(st.binary(max_size=80), st.lists(st.integers(0, 80), max_size=5))
def test_anyBytes(data: bytes, cuts: list[int]) -> None:
    """Any bytes give the same frames, however they are cut, and never an exception."""
    assert run(*pieces(data, cuts)) == run(data)


MESSAGES = st.tuples(
    st.sampled_from([b"a", b"b.c"]),
    st.sampled_from([b"", b"r"]),
    st.binary(max_size=30),
    st.integers(0, 5),
)


@given(st.lists(MESSAGES, max_size=5))
def test_readsWhatTheBrokerWrites(messages: list[tuple[bytes, bytes, bytes, int]]) -> None:
    """Messages that the broker writes are read unchanged."""
    decoder = ServerDecoder()
    for subject, reply, body, header in messages:
        message = Message(subject, body, reply, min(header, len(body)))
        decoder.append(frameFor(message, b"7", True))
        frame = decoder.next()
        op = ops.HMSG if message.headerLength else ops.MSG
        assert frame == (op, subject, b"7", reply, message.headerLength, body)
    assert decoder.next() is None


def asRead(line: bytes) -> tuple[Any, ...] | None:
    """The lines as the broker reads them."""
    decoder = Decoder()
    decoder.headers = True
    decoder.append(line)
    return decoder.next()


class TestLines:
    """Lines of a client, as the broker reads them."""

    def test_connect(self) -> None:
        """CONNECT has its options on one line, whatever text they contain."""
        options = {"name": 'a\r\n"b"\u00e9', "verbose": False}
        frame = asRead(connectLine(options))
        assert frame is not None
        assert parseConnect(frame[1]) == options

    def test_publish(self) -> None:
        """PUB and HPUB are read as they were written."""
        assert asRead(publishLine(b"a.b", b"", 0, 2) + b"hi\r\n") == (
            ops.PUB, b"a.b", b"", 0, b"hi", b"2", b"",
        )  # fmt: skip
        assert asRead(publishLine(b"a.b", b"r", 3, 5) + b"hhhhi\r\n") == (
            ops.HPUB, b"a.b", b"r", 3, b"hhhhi", b"5", b"3",
        )  # fmt: skip

    def test_subscribe(self) -> None:
        """SUB is read as it was written, with and without a group."""
        assert asRead(subscribeLine(b"a.>", b"", b"1")) == (ops.SUB, b"a.> 1")
        assert asRead(subscribeLine(b"a.>", b"v1.a", b"1")) == (ops.SUB, b"a.> v1.a 1")

    @pytest.mark.parametrize("subject", [b"", b"a b", b"a\r\nPING", b"a.*", b"a..b", b"a\x00"])
    def test_badSubjects(self, subject: bytes) -> None:
        """A subject that would break a line, or is invalid, is refused."""
        with pytest.raises(ValueError, match="publish to"):
            publishLine(subject, b"", 0, 0)
        if subject:
            with pytest.raises(ValueError, match="reply"):
                publishLine(b"a", subject, 0, 0)

    @pytest.mark.parametrize("pattern", [b"", b"a b", b"a\r\nPING", b"a..b", b"a.>.b", b"a\t"])
    def test_badPatterns(self, pattern: bytes) -> None:
        """An invalid pattern or group is refused."""
        with pytest.raises(ValueError, match="valid subject"):
            subscribeLine(pattern, b"", b"1")
        for queue in (b"a b", b"a\r\n", b" "):
            with pytest.raises(ValueError, match="queue"):
                subscribeLine(b"a", queue, b"1")
