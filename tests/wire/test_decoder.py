"""
The client decoder: bytes to frames, whatever the pieces that they come in.

Every row runs whole, one byte at a time, cut in two at every place, and with something behind it;
everything runs on the pure and on the compiled decoder.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker import errors
from natsbroker.wire import ops
from tests.support import COMPILED, PURE, Names, needsCompiled, onEach, pieces

UNKNOWN = (ops.FAULT, errors.UNKNOWN_OPERATION)
BAD = (ops.FAULT, errors.BAD_ARGUMENTS)
LONG = (ops.FAULT, errors.CONTROL_LINE)
LARGE = (ops.FAULT, errors.PAYLOAD)
DENIED = (ops.FAULT, errors.AUTHORIZATION)


def pub(subject: bytes, body: bytes, reply: bytes = b"", sizeText: bytes = b"") -> tuple[Any, ...]:
    """The frame of a PUB."""
    return (ops.PUB, subject, reply, 0, body, sizeText or b"%d" % len(body), b"")


def hpub(
    subject: bytes, header: bytes, payload: bytes, reply: bytes = b"", texts: bytes = b""
) -> tuple[Any, ...]:
    """The frame of an HPUB; C{texts} are its sizes as they were written."""
    first, second = texts.split() if texts else (b"", b"")
    body = header + payload
    return (
        ops.HPUB,
        subject,
        reply,
        len(header),
        body,
        second or b"%d" % len(body),
        first or b"%d" % len(header),
    )


@dataclass(frozen=True)
class Row:
    """
    Bytes and the frames that they are.

    @ivar settings: attributes that are set on the decoder before.
    """

    name: str
    data: bytes
    frames: list[tuple[Any, ...]]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def isFault(self) -> bool:
        """Whether the row ends in a fault."""
        return bool(self.frames) and self.frames[-1][0] == ops.FAULT


H = {"headers": True}
ANNOUNCE = {"announce": True}
CLOSED = {"authorized": False}
SMALL = {"maxControlLine": 10}

ROWS = [
    Row("nothing", b"", []),
    Row("ping", b"PING\r\n", [(ops.PING,)]),
    Row("pong", b"PONG\r\n", [(ops.PONG,)]),
    Row("ok", b"+OK\r\n", [(ops.OK,)]),
    Row(
        "any case",
        b"pInG\r\npub a 1\r\nx\r\nSuB a 1\r\n",
        [(ops.PING,), pub(b"a", b"x"), (ops.SUB, b"a 1")],
    ),
    Row(
        "bare operations ignore their line",
        b"PING foo\r\nPINGX\r\n+OK \xff\r\nPONG\t\r\n",
        [(ops.PING,), (ops.PING,), (ops.OK,), (ops.PONG,)],
    ),
    Row(
        "LF ends a line",
        b"PING\nSUB a 1\nPUB a 1\nx\r\n",
        [(ops.PING,), (ops.SUB, b"a 1"), pub(b"a", b"x")],
    ),
    Row("only one CR goes", b"SUB a 1\r\r\n", [(ops.SUB, b"a 1\r")]),
    Row("blanks before arguments", b"SUB  \t a  1 \r\n", [(ops.SUB, b"a  1 ")]),
    Row("tab after the name", b"SUB\ta 1\r\n", [(ops.SUB, b"a 1")]),
    Row("no arguments but a space", b"SUB \r\nUNSUB \t\r\n", [(ops.SUB, b""), (ops.UNSUB, b"")]),
    Row("connect", b'CONNECT {"a": 1}\r\n', [(ops.CONNECT, b'{"a": 1}')]),
    Row("connect without a space", b"connect{}\r\n", [(ops.CONNECT, b"{}")]),
    Row("connect without arguments", b"CONNECT\r\n", [(ops.CONNECT, b"")]),
    Row("info", b"INFO {}\r\nINFO\r\n", [(ops.INFO, b"{}"), (ops.INFO, b"")]),
    Row("the peer's error", b"-ERR 'x'\r\n", [(ops.ERR, b"'x'")]),
    Row("publish", b"PUB foo 5\r\nhello\r\n", [pub(b"foo", b"hello")]),
    Row("publish with reply", b"PUB foo rep 5\r\nhello\r\n", [pub(b"foo", b"hello", b"rep")]),
    Row(
        "publish nothing",
        b"PUB foo 0\r\n\r\nPUB foo rep 0\r\n\r\n",
        [pub(b"foo", b""), pub(b"foo", b"", b"rep")],
    ),
    Row("publish with tabs", b"PUB\tfoo\t \t2\t\r\nhi\r\n", [pub(b"foo", b"hi")]),
    Row("leading zeros are kept", b"PUB foo 002\r\nhi\r\n", [pub(b"foo", b"hi", sizeText=b"002")]),
    Row(
        "operations inside a payload",
        b"PUB foo 14\r\nhi\r\nPUB x 1\r\ny\r\n",
        [pub(b"foo", b"hi\r\nPUB x 1\r\ny")],
    ),
    Row(
        "payload of line ends",
        b"PUB a 4\r\n\r\n\r\n\r\nPING\r\n",
        [pub(b"a", b"\r\n\r\n"), (ops.PING,)],
    ),
    Row("payload of a CR", b"PUB a 1\r\n\r\r\n", [pub(b"a", b"\r")]),
    Row(
        "any bytes in a payload",
        b"PUB a 256\r\n" + bytes(range(256)) + b"\r\n",
        [pub(b"a", bytes(range(256)))],
    ),
    Row(
        "any bytes in a subject",
        b"PUB f\xc3\xb6\x00\xff 0\r\n\r\n",
        [pub(b"f\xc3\xb6\x00\xff", b"")],
    ),
    Row("nine digits", b"PUB a 000000001\r\nx\r\n", [pub(b"a", b"x", sizeText=b"000000001")]),
    Row("ten digits", b"PUB a 0000000001\r\nx\r\n", [BAD]),
    Row("headers", b"HPUB a 4 6\r\nabcdhi\r\n", [hpub(b"a", b"abcd", b"hi")], H),
    Row("headers and reply", b"hpub a r 4 6\r\nabcdhi\r\n", [hpub(b"a", b"abcd", b"hi", b"r")], H),
    Row("headers only", b"HPUB a 4 4\r\nabcd\r\n", [hpub(b"a", b"abcd", b"")], H),
    Row("empty headers", b"HPUB a 0 2\r\nhi\r\n", [hpub(b"a", b"", b"hi", texts=b"0 2")], H),
    Row(
        "zeros in both sizes",
        b"HPUB a 04 006\r\nabcdhi\r\n",
        [hpub(b"a", b"abcd", b"hi", texts=b"04 006")],
        H,
    ),
    Row("headers not agreed", b"HPUB a 4 6\r\nabcdhi\r\n", [BAD]),
    Row("headers longer than all", b"HPUB a 7 6\r\n", [BAD], H),
    Row("headers of negative size", b"HPUB a -1 6\r\n", [BAD], H),
    Row("headers without size", b"HPUB a 6\r\n", [BAD], H),
    Row("headers with five arguments", b"HPUB a b c 6 6\r\n", [BAD], H),
    Row("no size", b"PUB foo\r\n", [BAD]),
    Row("no arguments", b"PUB \r\n", [BAD]),
    Row("four arguments", b"PUB foo bar baz 1\r\n", [BAD]),
    Row("negative size", b"PUB foo -1\r\n", [BAD]),
    Row("signed size", b"PUB foo +1\r\n", [BAD]),
    Row("size is no number", b"PUB foo abc\r\n", [BAD]),
    Row("size in other digits", "PUB foo ٣\r\n".encode(), [BAD]),
    Row("CR in arguments", b"PUB foo\r2\r\n", [BAD]),
    Row("CR among arguments", b"PUB foo \r 2\r\n", [BAD]),
    Row("payload too short", b"PUB foo 3\r\nhi\r\n", [UNKNOWN]),
    Row("payload too long", b"PUB foo 1\r\nhi\r\n", [UNKNOWN]),
    Row("payload ended by LF", b"PUB foo 2\r\nhi\nPING\r\n", [UNKNOWN]),
    Row("payload ended by CR and more", b"PUB foo 2\r\nhi\rX", [UNKNOWN]),
    Row("no payload after none", b"PUB foo 0\r\nPING\r\n", [UNKNOWN]),
    Row("payload too large", b"PUB foo 11\r\n", [LARGE], {"maxPayload": 10}),
    Row(
        "payload just right",
        b"PUB foo 10\r\n0123456789\r\n",
        [pub(b"foo", b"0123456789")],
        {"maxPayload": 10},
    ),
    Row("headers count too", b"HPUB foo 9 11\r\n", [LARGE], {**H, "maxPayload": 10}),
    Row(
        "no payload allowed",
        b"PUB foo 0\r\n\r\nPUB foo 1\r\n",
        [pub(b"foo", b""), LARGE],
        {"maxPayload": 0},
    ),
    Row(
        "no limit",
        b"PUB foo 12\r\n012345678901\r\n",
        [pub(b"foo", b"012345678901")],
        {"maxPayload": -1},
    ),
    Row(
        "announced",
        b"PUB foo r 2\r\nhi\r\n",
        [(ops.ANNOUNCED, b"foo"), pub(b"foo", b"hi", b"r")],
        ANNOUNCE,
    ),
    Row(
        "announced before the payload fails",
        b"PUB foo 2\r\nhiX",
        [(ops.ANNOUNCED, b"foo"), UNKNOWN],
        ANNOUNCE,
    ),
    Row(
        "announced headers",
        b"HPUB a 4 6\r\nabcdhi\r\n",
        [(ops.ANNOUNCED, b"a"), hpub(b"a", b"abcd", b"hi")],
        {**ANNOUNCE, **H},
    ),
    Row("not announced when refused", b"PUB foo 2 3 4\r\n", [BAD], ANNOUNCE),
    Row("empty line", b"\r\n", [UNKNOWN]),
    Row("only LF", b"\n", [UNKNOWN]),
    Row("leading blank", b" PING\r\n", [UNKNOWN]),
    Row("NUL", b"\x00", [UNKNOWN]),
    Row("http", b"GET / HTTP/1.1\r\n", [UNKNOWN]),
    Row("TLS", b"\x16\x03\x01\x02\x00", [UNKNOWN]),
    Row("unknown", b"FOO\r\n", [UNKNOWN]),
    Row("a server's operations", b"MSG a 1 1\r\n", [UNKNOWN]),
    Row("a link's operations", b"RS+ A foo\r\n", [UNKNOWN]),
    Row("an operation without blank", b"PUBX a 1\r\n", [UNKNOWN]),
    Row("an operation alone", b"PUB\r\n", [UNKNOWN]),
    Row("SUB alone", b"SUB\r\n", [UNKNOWN]),
    Row("UNSUB alone", b"UNSUB\r\n", [UNKNOWN]),
    Row("-ERR alone", b"-ERR\r\n", [UNKNOWN]),
    Row("part of an operation", b"PIN\r\n", [UNKNOWN]),
    Row(
        "good ones before a bad one",
        b"PING\r\nPUB a 1\r\nx\r\nFOO\r\n",
        [(ops.PING,), pub(b"a", b"x"), UNKNOWN],
    ),
    Row("line of the greatest length", b"SUB 0123456 9\r\n", [LONG], {"maxControlLine": 8}),
    Row("line just right", b"SUB 01234567 9\r\n", [(ops.SUB, b"01234567 9")], SMALL),
    Row("line one too long", b"SUB 012345678 9\r\n", [LONG], SMALL),
    Row("long line without end", b"SUB 0123456789X", [LONG], SMALL),
    Row("blanks do not count", b"SUB           1\r\n", [(ops.SUB, b"1")], SMALL),
    Row("long connect", b'CONNECT {"name":"x"}\r\n', [LONG], SMALL),
    Row("long publish", b"PUB 0123456789 1\r\n", [LONG], SMALL),
    Row("PING may be long", b"PING 01234567890123456789\r\n", [(ops.PING,)], SMALL),
    Row("length before arguments", b"PUB 01234567890123\r\n", [LONG], SMALL),
    Row("login required:", b"PING\r\n", [DENIED], CLOSED),
    Row("login required: to nonsense", b"X", [DENIED], CLOSED),
    Row("login required: to an empty line", b"\r\n", [DENIED], CLOSED),
    Row("login required: lets CONNECT in", b"CONNECT {}\r\n", [(ops.CONNECT, b"{}")], CLOSED),
    Row("login required: and something like it", b"CON\r\n", [UNKNOWN], CLOSED),
    Row(
        "login required: after CONNECT",
        b"connect {}\r\nSUB a 1\r\n",
        [(ops.CONNECT, b"{}"), DENIED],
        CLOSED,
    ),
]

eachRow = pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])


def make(names: Names, **settings: Any) -> Any:
    """A decoder with some attributes set."""
    decoder = names.Decoder()
    for name, value in settings.items():
        setattr(decoder, name, value)
    return decoder


def drain(decoder: Any) -> list[tuple[Any, ...]]:
    """All frames that are complete; a fault is taken once."""
    frames = []
    while (frame := decoder.next()) is not None:
        frames.append(frame)
        if frame[0] == ops.FAULT:
            break
    return frames


def run(decoder: Any, *parts: bytes) -> list[tuple[Any, ...]]:
    """The frames of input in parts, each read before the next comes; nothing after a fault."""
    frames: list[tuple[Any, ...]] = []
    for part in parts:
        decoder.append(part)
        frames += drain(decoder)
        if frames and frames[-1][0] == ops.FAULT:
            break
    return frames


@onEach
class TestRows:
    """Each row, in each way that its bytes can come."""

    @eachRow
    def test_oneChunk(self, names: Names, row: Row) -> None:
        """The frames of the row in one piece."""
        assert run(make(names, **row.settings), row.data) == row.frames

    @eachRow
    def test_byteByByte(self, names: Names, row: Row) -> None:
        """The row one byte at a time gives the same frames."""
        decoder = make(names, **row.settings)
        assert run(decoder, *[bytes([byte]) for byte in row.data]) == row.frames

    @eachRow
    def test_everySplit(self, names: Names, row: Row) -> None:
        """The row cut in two gives the same frames, wherever it is cut."""
        for cut in range(len(row.data) + 1):
            decoder = make(names, **row.settings)
            assert run(decoder, row.data[:cut], row.data[cut:]) == row.frames, cut

    @eachRow
    def test_readOnlyAtTheEnd(self, names: Names, row: Row) -> None:
        """The row in two pieces that are both appended before any is read gives the same frames."""
        for cut in range(len(row.data) + 1):
            decoder = make(names, **row.settings)
            decoder.append(row.data[:cut])
            decoder.append(row.data[cut:])
            assert drain(decoder) == row.frames

    @eachRow
    def test_withTrailingData(self, names: Names, row: Row) -> None:
        """Input behind a row is read as usual, and not at all after a fault."""
        decoder = make(names, **row.settings)
        expected = list(row.frames)
        if not row.isFault and row.settings.get("authorized", True):
            expected += (
                [(ops.PING,)] + [(ops.ANNOUNCED, b"z")] * decoder.announce + [pub(b"z", b"")]
            )
            assert run(decoder, row.data + b"PING\r\nPUB z 0\r\n\r\n") == expected
            assert decoder.pending == 0
        else:
            assert run(decoder, row.data)[-1:] == expected[-1:]

    @eachRow
    def test_counts(self, names: Names, row: Row) -> None:
        """
        Publishes and their bytes are counted when they are complete, and input when it arrives.
        """
        decoder = make(names, **row.settings)
        frames = run(decoder, row.data)
        bodies = [frame[4] for frame in frames if frame[0] in (ops.PUB, ops.HPUB)]
        assert decoder.messages == len(bodies)
        assert decoder.messageBytes == sum(map(len, bodies))
        assert decoder.received == len(row.data)


@onEach
class TestDecoder:
    """Properties beyond single rows."""

    def test_defaults(self, names: Names) -> None:
        """A new decoder has nats-server's limits and asks for no login."""
        decoder = names.Decoder()
        assert (decoder.maxControlLine, decoder.maxPayload) == (4096, 1 << 20)
        assert (decoder.headers, decoder.announce, decoder.authorized) == (False, False, True)
        assert (decoder.messages, decoder.messageBytes, decoder.received) == (0, 0, 0)
        assert decoder.next() is None
        assert decoder.pending == 0

    def test_limitsAsArguments(self, names: Names) -> None:
        """The limits can be given as arguments."""
        decoder = names.Decoder(5, 7)
        assert (decoder.maxControlLine, decoder.maxPayload) == (5, 7)

    def test_faultIsForEver(self, names: Names) -> None:
        """After a fault, every further read gives the same fault, and input is not kept."""
        decoder = names.Decoder()
        assert run(decoder, b"FOO\r\nPING\r\n") == [UNKNOWN]
        for _ in range(100):
            decoder.append(b"PING\r\n" * 1000)
            assert decoder.next() == UNKNOWN
        assert decoder.pending == 0

    def test_faultBeforeTheEndOfLine(self, names: Names) -> None:
        """A frame that cannot become valid is refused at the first byte that proves it."""
        for good, bad in [
            (b"P", b"X"),
            (b"PUB", b"\r"),
            (b"SU", b" "),
            (b"-ER", b"\n"),
            (b"U", b"P"),
        ]:
            decoder = names.Decoder()
            assert run(decoder, good) == []
            assert run(decoder, bad) == [UNKNOWN]

    def test_payloadFaultAtOnce(self, names: Names) -> None:
        """A payload that is not followed by a line end is refused at the first wrong byte."""
        for tail in (b"X", b"\n", b"\rX", b"\r\r"):
            decoder = names.Decoder()
            assert run(decoder, b"PUB a 2\r\nhi", tail[:-1]) == []
            assert run(decoder, tail[-1:]) == [UNKNOWN]

    @pytest.mark.parametrize("headers", [b"Nats-Trace-Dest: t", b"traceparent: x"])
    def test_tracedPayloadFault(self, names: Names, headers: bytes) -> None:
        """
        If a message is too large, the fault has its subject and headers when they may ask for a
        trace.
        """
        block = b"NATS/1.0\r\n%b\r\n\r\n" % headers
        line = b"HPUB foo %d 5000\r\n" % len(block)
        traced = (*LARGE, b"foo", block, 5000)
        for data, frame in (
            (line + block, traced),
            (b"PING\r\n" + line + block + b"payload", traced),
            (line + block[:-1], LARGE),
            (line, LARGE),
            (line + block.replace(headers, b"x" * len(headers)), LARGE),
        ):
            assert run(make(names, headers=True, maxPayload=100), data)[-1] == frame

    def test_attributesChangeBetweenFrames(self, names: Names) -> None:
        """A changed attribute applies from the next frame on, also to input that came before."""
        decoder = make(names, authorized=False, announce=True)
        decoder.append(b"CONNECT {}\r\nHPUB a 1 1\r\nx\r\nSUB 0123 1\r\nPUB a 9\r\n")
        assert decoder.next() == (ops.CONNECT, b"{}")
        decoder.authorized = decoder.headers = True
        decoder.announce = False
        assert decoder.next() == hpub(b"a", b"x", b"")
        decoder.maxControlLine = 6
        assert decoder.next() == (ops.SUB, b"0123 1")
        decoder.maxPayload = 8
        assert decoder.next() == LARGE

    def test_limitDoesNotConcernWhatIsAccepted(self, names: Names) -> None:
        """A publish whose line was accepted is completed, even if the limits shrink meanwhile."""
        decoder = make(names)
        decoder.append(b"PUB a 9\r\n0123")
        assert decoder.next() is None
        decoder.maxPayload = 1
        decoder.append(b"45678\r\n")
        assert decoder.next() == pub(b"a", b"012345678")

    def test_piecesAppendedTogether(self, names: Names) -> None:
        """Pieces of a payload that arrive while the reader is paused stay in order."""
        decoder = names.Decoder()
        decoder.append(b"PUB a 10\r\n01")
        assert decoder.next() is None
        for piece in (b"23", b"456789", b"\r", b"\nPI", b"NG\r\n", b"PUB b 1\r\n", b"x\r\n"):
            decoder.append(piece)
        assert drain(decoder) == [pub(b"a", b"0123456789"), (ops.PING,), pub(b"b", b"x")]

    def test_pendingCountsWhatIsNotRead(self, names: Names) -> None:
        """Unread bytes and the started part of a frame count as pending."""
        decoder = names.Decoder()
        decoder.append(b"PING\r\nSUB a")
        assert decoder.pending == 11
        assert drain(decoder) == [(ops.PING,)]
        assert decoder.pending == 5

    def test_ahead(self, names: Names) -> None:
        """The first unread byte can be inspected."""
        decoder = names.Decoder()
        assert decoder.ahead == -1
        decoder.append(b"PING\r\nSUB a")
        assert decoder.ahead == ord("P")
        assert drain(decoder) == [(ops.PING,)]
        assert decoder.ahead == ord("S")
        decoder.append(b" 1\r\n")
        assert drain(decoder) == [(ops.SUB, b"a 1")]
        assert decoder.ahead == -1

    @pytest.mark.parametrize("size", [1, 7, 4096])
    def test_longLineIsBounded(self, names: Names, size: int) -> None:
        """A line that never ends is a fault at the limit; no more than that is kept."""
        decoder = make(names, maxControlLine=4096)
        for _ in range(10_000):
            decoder.append(b"a" * size if decoder.received else b"SUB ")
            if drain(decoder):
                break
            assert decoder.pending <= 4096 + len(b"SUB ") + 1
        assert decoder.next() == LONG
        assert decoder.pending == 0

    def test_ignoredRestOfLineIsNotKept(self, names: Names) -> None:
        """The ignored rest of a PING's line is not kept, however long it is."""
        decoder = names.Decoder()
        decoder.append(b"PING")
        for _ in range(50):
            assert drain(decoder) == []
            decoder.append(b"x" * 10_000)
        assert drain(decoder) == []
        assert decoder.pending == 0
        assert run(decoder, b"\nPONG\n") == [(ops.PING,), (ops.PONG,)]

    def test_blanksAreBounded(self, names: Names) -> None:
        """A line of blanks that never ends does not fill the memory."""
        decoder = make(names, maxControlLine=100)
        decoder.append(b"SUB ")
        for _ in range(1000):
            decoder.append(b" " * 100)
            if drain(decoder):
                break
            assert decoder.pending < 5000

    def test_payloadIsBounded(self, names: Names) -> None:
        """While a payload arrives in small pieces, no more is kept than its size and its line."""
        decoder = make(names)
        size = 100_000
        line = b"PUB a %d\r\n" % size
        decoder.append(line)
        for _ in range(size // 100):
            assert drain(decoder) == []
            decoder.append(b"x" * 100)
            assert decoder.pending <= size + len(line)
        assert run(decoder, b"\r\n") == [pub(b"a", b"x" * size)]

    def test_framesOwnTheirBytes(self, names: Names) -> None:
        """A frame keeps its bytes while more input is read."""
        decoder = names.Decoder()
        frames = []
        for number in range(200):
            text = b"%d" % number * (number % 50)
            decoder.append(b"PUB s.%d %d\r\n%b\r\n" % (number, len(text), text))
            frames += drain(decoder)
        for number, frame in enumerate(frames):
            assert frame == pub(b"s.%d" % number, b"%d" % number * (number % 50))
            assert type(frame[4]) is bytes

    def test_largeInputIsNotSlow(self, names: Names) -> None:
        """A chunk of very many frames is read in order without keeping the read bytes."""
        decoder = names.Decoder()
        decoder.append(b"PUB a 1\r\nx\r\n" * 50_000)
        count = 0
        while decoder.next() is not None:
            count += 1
        assert count == 50_000
        assert decoder.pending == 0


SETTINGS = st.fixed_dictionaries(
    {
        "headers": st.booleans(),
        "announce": st.booleans(),
        "authorized": st.booleans(),
        "maxControlLine": st.sampled_from([0, 5, 20, 4096]),
        "maxPayload": st.sampled_from([-1, 0, 3, 1 << 20]),
    }
)

#: Bits of protocol, so that random input is often nearly right.
WORDS = st.sampled_from(
    [
        *(b"PUB", b"pub ", b"PUB foo 2\r\nhi\r\n", b"PUB a r 0\r\n\r\n"),
        *(b"HPUB ", b"HPUB a 1 2\r\nxy\r\n"),
        *(b"SUB ", b"SUB a 1\r\n", b"UNSUB 1\r\n", b"CONNECT {}\r\n", b"CONNECT"),
        *(b"PING", b"PING\r\n"),
        *(b"PONG\r\n", b"+OK", b"-ERR ", b"INFO {}\r\n", b" ", b"\t", b"\r", b"\n", b"\r\n", b"0"),
        *(b"2", b"-1", b"999999999", b"0000000000", b"a", b"foo.bar", b"x" * 30, b"\x00", b"\xff"),
    ]
)

INPUT = st.one_of(
    st.binary(max_size=60),
    st.lists(st.one_of(WORDS, st.binary(max_size=4)), max_size=12).map(b"".join),
)

CUTS = st.lists(st.integers(0, 400), max_size=8)


@onEach
class TestAnyBytes:
    """Random bytes."""

    @given(INPUT, CUTS, SETTINGS)
    def test_splitsDoNotMatter(
        self, names: Names, data: bytes, cuts: list[int], settings: dict[str, Any]
    ) -> None:
        """Any bytes give the same frames, however they are cut, and never an exception."""
        whole = run(make(names, **settings), data)
        assert run(make(names, **settings), *pieces(data, cuts)) == whole
        assert run(make(names, **settings), *[bytes([byte]) for byte in data]) == whole

    @given(INPUT, INPUT, SETTINGS)
    def test_moreInputKeepsWhatWasRead(
        self, names: Names, data: bytes, more: bytes, settings: dict[str, Any]
    ) -> None:
        """Frames that were read before more input arrived are the first of all frames."""
        before = run(make(names, **settings), data)
        after = run(make(names, **settings), data + more)
        assert after[: len(before)] == before

    @given(INPUT, SETTINGS)
    def test_frameShapes(self, names: Names, data: bytes, settings: dict[str, Any]) -> None:
        """Every frame has the members that its operation promises, and keeps to the limits."""
        lengths = {ops.PING: 1, ops.PONG: 1, ops.OK: 1, ops.PUB: 7, ops.HPUB: 7}
        for frame in run(make(names, **settings), data):
            assert type(frame) is tuple
            assert len(frame) == lengths.get(frame[0], 2)
            if frame[0] in (ops.PUB, ops.HPUB):
                _, subject, reply, headerLength, body, sizeText, headerText = frame
                assert subject and b" " not in subject + reply
                assert 0 <= headerLength <= len(body) == int(sizeText)
                assert int(headerText or 0) == headerLength
                assert settings["maxPayload"] < 0 or len(body) <= settings["maxPayload"]
                assert settings["headers"] or frame[0] == ops.PUB

    @given(
        st.lists(st.tuples(st.binary(min_size=1, max_size=9), st.binary(max_size=40)), max_size=6),
        CUTS,
    )
    def test_publishesRoundTrip(
        self, names: Names, messages: list[tuple[bytes, bytes]], cuts: list[int]
    ) -> None:
        """A written publish is read unchanged."""
        named = [(bytes(65 + byte % 26 for byte in name), body) for name, body in messages]
        data = b"".join(b"PUB %b %d\r\n%b\r\n" % (name, len(body), body) for name, body in named)
        expected = [pub(name, body) for name, body in named]
        assert run(make(names), *pieces(data, cuts)) == expected


@needsCompiled
class TestCompiledAgrees:
    """The pure and the compiled decoder side by side."""

    @given(INPUT, CUTS, SETTINGS)
    def test_sameFrames(self, data: bytes, cuts: list[int], settings: dict[str, Any]) -> None:
        """
        The decoders give the same frames, faults, counters and rest for any bytes in any pieces.
        """
        assert COMPILED is not None
        decoders = [make(names, **settings) for names in (PURE, COMPILED)]
        for part in pieces(data, cuts):
            for decoder in decoders:
                decoder.append(part)
            one, other = map(drain, decoders)
            assert one == other
            assert (
                len(
                    {(reader.messages, reader.messageBytes, reader.received) for reader in decoders}
                )
                == 1
            )
            assert len({reader.pending for reader in decoders}) == 1

    @given(st.lists(st.tuples(INPUT, SETTINGS, st.integers(0, 3)), max_size=5))
    def test_sameFramesWithChanges(self, steps: list[tuple[bytes, dict[str, Any], int]]) -> None:
        """
        The decoders agree also if attributes change meanwhile and not all input is read at once.
        """
        assert COMPILED is not None
        decoders = [make(names) for names in (PURE, COMPILED)]
        for data, settings, reads in steps:
            for decoder in decoders:
                for name, value in settings.items():
                    setattr(decoder, name, value)
                decoder.append(data)
            for _ in range(reads):
                one, other = (decoder.next() for decoder in decoders)
                assert one == other

    def test_manySeeds(self) -> None:
        """The decoders agree on thousands of nearly valid inputs."""
        assert COMPILED is not None
        rng = random.Random(4)
        words = [
            b"PUB ",
            b"HPUB ",
            b"SUB ",
            b"a ",
            b"b.c ",
            b"1",
            b"2 ",
            b"\r\n",
            b"x\r\n",
            b"PING",
            b" ",
        ]
        for _ in range(3000):
            data = b"".join(rng.choices(words, k=rng.randrange(12)))
            cuts = [rng.randrange(40) for _ in range(3)]
            one, other = (
                run(make(names, headers=True), *pieces(data, cuts)) for names in (PURE, COMPILED)
            )
            assert one == other, data
