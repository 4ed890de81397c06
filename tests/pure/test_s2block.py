"""
Blocks of S2, in both implementations.
"""

from __future__ import annotations

import pytest
from cramjam import snappy
from hypothesis import given
from hypothesis import strategies as st

from tests.links.s2frames import literal, varint
from tests.support import COMPILED, PURE, Names, needsCompiled, onEach

#: The most that a block may stand for here, unless a test says.
MOST = 1 << 20

#: Blocks and what they stand for: each element, at the edges of each of its spellings.
BLOCKS = [
    ("empty", b"\x00", b""),
    ("literal", varint(3) + literal(b"abc"), b"abc"),
    ("literal of 60", varint(60) + literal(b"x" * 60), b"x" * 60),
    ("literal of 61", varint(61) + literal(b"y" * 61), b"y" * 61),
    ("literal of 300", varint(300) + literal(b"z" * 300), b"z" * 300),
    ("literal of 3 length bytes", varint(70000) + literal(b"z" * 70000), b"z" * 70000),
    ("literal of 4 length bytes", varint(3) + b"\xfc\x02\x00\x00\x00abc", b"abc"),
    ("copy of 4 to 11", varint(8) + literal(b"abcd") + b"\x01\x04", b"abcdabcd"),
    ("copy, 11 bits of offset", varint(1796) + literal(b"k" * 1792) + b"\xe1\x00", b"k" * 1796),
    ("copy, 2 bytes of offset", varint(10) + literal(b"ab") + b"\x1e\x02\x00", b"ab" * 5),
    ("copy, 4 bytes of offset", varint(10) + literal(b"ab") + b"\x1f\x02\x00\x00\x00", b"ab" * 5),
    ("copy that overlaps", varint(12) + literal(b"abc") + b"\x22\x03\x00", b"abc" * 4),
    ("repeat", varint(10) + literal(b"ab") + b"\x01\x02\x01\x00", b"ab" * 5),
    ("repeat of 8", varint(14) + literal(b"ab") + b"\x01\x02\x11\x00", b"ab" * 7),
    (
        "repeat, 1 length byte",
        varint(15) + literal(b"ab") + b"\x01\x02\x15\x00\x01",
        b"ab" * 7 + b"a",
    ),
    ("repeat, 2", varint(266) + literal(b"ab") + b"\x01\x02\x19\x00\x00\x00", b"ab" * 133),
    ("repeat, 3", varint(65546) + literal(b"ab") + b"\x01\x02\x1d\x00\x00\x00\x00", b"ab" * 32773),
    ("length in 5 bytes", b"\x83\x80\x80\x80\x00" + literal(b"abc"), b"abc"),
]

#: Blocks that are refused, and why.
DAMAGED = [
    ("nothing", b"", "truncated length"),
    ("length without an end", b"\x80\x80", "truncated length"),
    ("length in 6 bytes", b"\x83\x80\x80\x80\x80\x00" + literal(b"abc"), "length of too many"),
    ("length of 4 GiB", b"\xff\xff\xff\xff\x0f" + literal(b"abcdef"), "too long"),
    ("too few", varint(7) + literal(b"abcdef"), "shorter"),
    ("literal too long", varint(5) + literal(b"abcdef"), "longer"),
    ("copy too long", varint(7) + literal(b"abcd") + b"\x01\x04", "longer"),
    ("literal cut short", varint(6) + literal(b"abcdef")[:-1], "truncated literal"),
    ("literal without its length", varint(100) + b"\xf4\x01", "truncated literal"),
    ("copy cut short", varint(10) + literal(b"ab") + b"\x1e\x02", "truncated copy"),
    ("far copy cut short", varint(10) + literal(b"ab") + b"\x1f\x02\x00\x00", "truncated copy"),
    ("repeat cut short", varint(266) + literal(b"ab") + b"\x01\x02\x19\x00\x00", "truncated copy"),
    ("repeat first", varint(8) + literal(b"aaaa") + b"\x01\x00", "before the beginning"),
    ("offset of 0", varint(4) + literal(b"a") + b"\x0a\x00\x00", "before the beginning"),
    ("far offset of 0", varint(4) + literal(b"a") + b"\x0b\x00\x00\x00\x00", "before the"),
    ("offset before the start", varint(4) + literal(b"a") + b"\x0a\x02\x00", "before the"),
    ("far offset", varint(4) + literal(b"a") + b"\x0b\xff\xff\xff\xff", "before the beginning"),
]


@onEach
@pytest.mark.parametrize(
    "block, content", [block[1:] for block in BLOCKS], ids=[e[0] for e in BLOCKS]
)
def test_elements(names: Names, block: bytes, content: bytes) -> None:
    """Every element of a block is decoded, at any place in the data."""
    assert names.decodeBlock(block, 0, len(block), MOST) == content
    assert names.decodeBlock(b"x" + block + b"y", 1, len(block) + 1, MOST) == content


@onEach
@pytest.mark.parametrize(
    "block, why", [block[1:] for block in DAMAGED], ids=[e[0] for e in DAMAGED]
)
def test_damaged(names: Names, block: bytes, why: str) -> None:
    """Data that is no valid block is refused, also if more data follows."""
    for data in (block, block + b"\x00" * 9):
        with pytest.raises(ValueError, match=why):
            names.decodeBlock(data, 0, len(block), MOST)


@onEach
def test_limit(names: Names) -> None:
    """A block that declares more content than its limit is refused before it is decoded."""
    exact = varint(12) + literal(b"a") + b"\x2a\x01\x00"
    assert names.decodeBlock(exact, 0, len(exact), 12) == b"a" * 12
    with pytest.raises(ValueError, match="too long"):
        names.decodeBlock(exact, 0, len(exact), 11)


@onEach
@pytest.mark.parametrize("start, stop", [(-1, 2), (2, 1), (0, 9)])
def test_noPart(names: Names, start: int, stop: int) -> None:
    """A part that reaches beyond the data is refused."""
    with pytest.raises(IndexError):
        names.decodeBlock(b"\x01\x00a", start, stop, MOST)


#: Bytes with repetitions, near and far.
CONTENT = st.lists(
    st.tuples(st.binary(max_size=40), st.integers(1, 50)).map(lambda pair: pair[0] * pair[1]),
    max_size=12,
).map(b"".join)


@given(CONTENT)
def test_roundTrip(content: bytes) -> None:
    """A block that the library compresses is decoded by both."""
    block = bytes(snappy.compress_raw(content))
    for names in filter(None, (PURE, COMPILED)):
        assert names.decodeBlock(block, 0, len(block), MOST) == content


#: Elements with what they add to the length, which make sense more often than noise does.
ELEMENT = st.one_of(
    st.binary(min_size=1, max_size=70).map(lambda content: (literal(content), len(content))),
    st.tuples(st.integers(0, 7), st.integers(1, 80)).map(
        lambda drawn: (bytes([drawn[0] << 2 | 1, drawn[1]]), 4 + drawn[0])
    ),
    st.tuples(st.integers(0, 63), st.integers(0, 80), st.sampled_from([2, 4])).map(
        lambda drawn: (
            bytes([drawn[0] << 2 | (drawn[2] // 2 + 1)]) + drawn[1].to_bytes(drawn[2], "little"),
            drawn[0] + 1,
        )
    ),
    st.integers(0, 4).map(lambda offset: (bytes([offset << 2 | 1, 0]), 4 + offset)),
    st.integers(0, 255).map(lambda offset: (bytes([0x15, 0, offset]), 8 + offset)),
    st.binary(max_size=3).map(lambda content: (content, 0)),
)


@needsCompiled
@given(st.lists(ELEMENT, max_size=12), st.sampled_from([0, 0, 0, 1, -1, 400]))
def test_twins(elements: list[tuple[bytes, int]], off: int) -> None:
    """Both implementations give the same bytes or the same error."""
    length = max(sum(element[1] for element in elements) + off, 0)
    block = varint(length) + b"".join(element[0] for element in elements)
    results: list[object] = []
    for names in filter(None, (PURE, COMPILED)):
        try:
            results.append(names.decodeBlock(block, 0, len(block), MOST))
        except ValueError as error:
            results.append(str(error))
    assert results[0] == results[1]
