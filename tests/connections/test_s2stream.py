"""
S2 streams: those of nats-server are read, those that nats-server refuses are refused, and our
output is valid.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from cramjam import snappy
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.connections.s2stream import LARGEST, S2Decoder, S2Encoder, S2Error
from natsbroker.wire.compression import LEVELS, UNCOMPRESSED
from tests.links.s2frames import BEGIN, SNAPPY, checksum, chunk, compressed, literal, plain, varint
from tests.support import Names, onEach, pieces, using

PING = b"PING\r\n"

#: How much is read at once here, unless a test says.
MOST = 1 << 16

J = (
    b'{"id":1,"name":"alpha","tags":["a","b"],"ok":true},'
    b'{"id":2,"name":"beta","tags":["a","c"],"ok":true},'
    b'{"id":3,"name":"gamma","tags":["b","c"],"ok":false}'
)


def R(name: str, count: int) -> bytes:
    """Bytes without repetitions."""
    rows = (hashlib.sha256(b"%b:%d" % (name.encode(), row)).digest() for row in range(40000))
    return b"".join(row for row, _ in zip(rows, range(count // 32 + 1), strict=False))[:count]


def flushes() -> Iterator[tuple[str, bytes, bytes]]:
    """The recorded streams of nats-server: a name, the content and the stream."""
    for line in (Path(__file__).parent / "s2flushes.txt").read_text().splitlines():
        if not line.startswith("#"):
            level, text, wire = line.split(" | ")
            content = b"PONG\r\n"
            if "PONG" not in text:
                body = eval(text, {"J": J, "R": R, "bytes": bytes})
                content = b"RMSG $G t %d\r\n%b\r\n" % (len(body), body)
            yield f"{level} {text}", content, bytes.fromhex(wire)


FLUSHES = list(flushes())


def everything(decoder: S2Decoder, most: int = MOST) -> bytes:
    """All content that can be read."""
    contents = []
    while not decoder.isStarved:
        contents.append(decoder.read(most))
        assert len(contents[-1]) <= most
    return b"".join(contents)


def decoded(stream: bytes, largest: int = LARGEST) -> bytes:
    """The content of a stream."""
    decoder = S2Decoder(largest)
    decoder.feed(stream)
    return everything(decoder)


@onEach
@pytest.mark.parametrize(
    "content, stream", [flush[1:] for flush in FLUSHES], ids=[flush[0] for flush in FLUSHES]
)
def test_flushes(names: Names, content: bytes, stream: bytes) -> None:
    """A stream of nats-server at each of its levels is read."""
    with using(names):
        assert decoded(stream) == content


#: The content of a message, as the reader of nats-server got it.
MESSAGE = b"RMSG $G foo.x 3000\r\n" + b"abc" * 1000 + b"\r\n"

#: What nats-server 2.15.1 reads on a route, each followed by a PING; and what that stands for.
READ = [
    ("identifiers in a verb", plain(b"PI") + BEGIN + BEGIN + plain(b"NG\r\n"), PING),
    ("Snappy block", compressed(bytes(snappy.compress_raw(MESSAGE)), MESSAGE), MESSAGE),
    ("Snappy stream", bytes(snappy.compress(MESSAGE)), MESSAGE),
    ("repeat behind Snappy's identifier", SNAPPY + FLUSHES[4][2][10:], FLUSHES[4][1]),
    ("S2 behind Snappy", SNAPPY + BEGIN + plain(bytes(65537)), bytes(65537)),
    ("padding", chunk(0xFE, bytes(100)) + chunk(0x80, b"x") + chunk(0x99, bytes(70000)), b""),
    ("largest skipped", chunk(0xFD, bytes(0xFFFFFF)), b""),
    ("empty", plain(b"") + compressed(b"\x00", b""), b""),
    ("1000 empty", plain(b"") * 1000, b""),
    ("largest", plain(bytes(LARGEST)), bytes(LARGEST)),
    (
        "largest block",
        compressed(bytes(snappy.compress_raw(bytes(LARGEST))), bytes(LARGEST)),
        bytes(LARGEST),
    ),
    ("length in 5 bytes", compressed(b"\x86\x80\x80\x80\x00" + literal(PING), PING), PING),
]


@pytest.mark.parametrize("stream, content", [e[1:] for e in READ], ids=[e[0] for e in READ])
def test_read(stream: bytes, content: bytes) -> None:
    """A stream that nats-server accepts is read."""
    assert decoded(BEGIN + stream + plain(PING)) == content + PING


def test_skippedFirst() -> None:
    """A chunk to skip may come before the identifier."""
    assert decoded(chunk(0xFE, b"") + BEGIN + plain(PING)) == PING


#: What nats-server refuses, with why we do.
REFUSED = [
    ("plain text", PING, "chunk of type"),
    ("reserved 02", BEGIN + chunk(2, b"x"), "chunk of type 0x02"),
    ("reserved 7f", BEGIN + chunk(0x7F, b"x"), "chunk of type 0x7f"),
    ("short identifier", chunk(0xFF, b"S2sTw"), "chunk of type 0xff"),
    ("another identifier", chunk(0xFF, b"S2sTwX"), "another format"),
    ("no identifier", plain(PING), "no identifier"),
    ("checksum", BEGIN + chunk(1, bytes(4) + PING), "checksum"),
    ("checksum of a block", BEGIN + chunk(0, bytes(4) + varint(6) + literal(PING)), "checksum"),
    ("no room for a checksum", BEGIN + chunk(1, b"xx"), "2 bytes"),
    ("block without a checksum", BEGIN + chunk(0, b"xx"), "2 bytes"),
    ("Snappy too long", SNAPPY + plain(bytes(65537)), "chunk of type 0x01"),
    (
        "Snappy block too long",
        SNAPPY + compressed(bytes(snappy.compress_raw(bytes(65537))), bytes(65537)),
        "too long",
    ),
    ("too long", BEGIN + b"\x01" + (LARGEST + 5).to_bytes(3, "little"), "chunk of type 0x01"),
    ("body too long", BEGIN + b"\x00" + (LARGEST + 13).to_bytes(3, "little"), "type 0x00"),
    ("block too long", BEGIN + chunk(0, bytes(4) + varint(LARGEST + 1)), "too long"),
    ("block of 4 GiB", BEGIN + chunk(0, bytes(4) + b"\xff\xff\xff\xff\x0f"), "too long"),
    (
        "repeat from another chunk",
        BEGIN
        + compressed(varint(10) + literal(b"ab") + b"\x1e\x02\x00", b"ab" * 5)
        + chunk(0, checksum(PING) + varint(6) + literal(b"ab") + b"\x01\x00"),
        "before the beginning",
    ),
]


@pytest.mark.parametrize("stream, why", [e[1:] for e in REFUSED], ids=[e[0] for e in REFUSED])
def test_malformedStreams(stream: bytes, why: str) -> None:
    """A stream that nats-server refuses is refused as early as possible."""
    with pytest.raises(S2Error, match=why):
        decoded(stream)


def test_idle() -> None:
    """
    Chunks without content are limited: skipped ones by their length, and empty ones by their
    number.
    """
    skipped = chunk(0xFE, bytes(1000))
    assert decoded(BEGIN + skipped * 5 + plain(b"x") + skipped * 5, 1000) == b"x"
    for idle in (skipped, plain(b""), BEGIN):
        with pytest.raises(S2Error, match="without content"):
            decoded(BEGIN + idle * 130, 1000)


def test_smallLimit() -> None:
    """The limit of the content may be lower, and may change between chunks."""
    decoder = S2Decoder(100)
    decoder.feed(BEGIN + plain(bytes(100)) + plain(bytes(101)))
    assert decoder.read(MOST) == bytes(100)
    with pytest.raises(S2Error):
        decoder.read(MOST)
    bomb = compressed(bytes(snappy.compress_raw(bytes(101))), bytes(101))
    with pytest.raises(S2Error):
        decoded(BEGIN + bomb, 100)
    decoder = S2Decoder(100)
    decoder.feed(BEGIN + plain(b"x"))
    decoder.largest = LARGEST
    assert everything(decoder) == b"x"


def test_portions() -> None:
    """A large chunk is read in portions, and an empty chunk counts as a portion."""
    decoder = S2Decoder()
    decoder.feed(BEGIN + plain(bytes(range(256)) * 10))
    assert decoder.read(1000) == (bytes(range(256)) * 10)[:1000]
    assert everything(decoder, 1000) == (bytes(range(256)) * 10)[1000:]
    decoder.feed(plain(b"") * 100 + plain(b"x"))
    assert decoder.read(640) == b"" and not decoder.isStarved
    assert everything(decoder, 640) == b"x" and decoder.isStarved


@given(st.lists(st.integers(0, 700), max_size=8), st.sampled_from([e[2] for e in FLUSHES[:40]]))
def test_anySplit(cuts: list[int], stream: bytes) -> None:
    """The content is the same however the bytes of a stream are split."""
    stream = chunk(0xFE, b"skipped") + stream + stream + plain(b"") + plain(b"x")
    decoder, data = S2Decoder(), b""
    for piece in pieces(stream, cuts):
        decoder.feed(piece)
        data += everything(decoder, 50)
    assert data == decoded(stream)


@onEach
def test_byteByByte(names: Names) -> None:
    """A stream is decoded one byte at a time."""
    with using(names):
        for _, content, stream in FLUSHES:
            if len(stream) < 300:
                decoder, data = S2Decoder(), b""
                for place in range(len(stream)):
                    decoder.feed(stream[place : place + 1])
                    data += everything(decoder)
                assert data == content


@onEach
def test_damage(names: Names) -> None:
    """A damaged stream of one chunk is read completely or refused."""
    chance = random.Random(1)
    whole = [flush for flush in FLUSHES if len(flush[1]) < 1 << 20]
    with using(names):
        for _ in range(1500):
            _, content, stream = chance.choice(whole)
            damaged = bytearray(stream + stream)
            for _ in range(chance.choice([1, 1, 2, 5])):
                place = chance.randrange(len(damaged))
                damaged[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            decoder, data = S2Decoder(1 << 20), b""
            decoder.feed(bytes(damaged))
            try:
                while not decoder.isStarved:
                    data += decoder.read(MOST)
            except S2Error:
                pass
            assert data in (b"", content, content * 2)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("content", [e[1] for e in FLUSHES[:16]] + [R("z", 2_500_000), b""])
def test_encoded(level: str, content: bytes) -> None:
    """An encoded text is a stream of chunks of at most one MiB, and can be decoded."""
    stream = S2Encoder(level).encode(content)
    assert stream.startswith(BEGIN) and stream.count(BEGIN) == 1
    assert decoded(stream, 1 << 20) == content
    assert len(stream) <= len(content) + len(BEGIN) + 8 * (len(content) // (1 << 20) + 1)


def test_levels() -> None:
    """The lowest level does not compress, and the others compress what becomes smaller."""
    content = b"RMSG $G t 300\r\n" + b"a" * 300 + b"\r\n"
    assert S2Encoder(UNCOMPRESSED).encode(content) == BEGIN + plain(content)
    for level in LEVELS[1:]:
        encoder = S2Encoder(level)
        assert encoder.encode(content)[10] == 0 and len(encoder.encode(content)) < 100
        assert encoder.encode(PING) == BEGIN + plain(PING)
        assert encoder.encode(R("x", 1000)) == BEGIN + plain(R("x", 1000))
        encoder.level = UNCOMPRESSED
        assert encoder.encode(content) == BEGIN + plain(content)
