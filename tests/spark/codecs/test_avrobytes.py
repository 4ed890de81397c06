"""
Avro's binary encoding.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.spark.codecs.avrobytes import MOST_EMPTY, Input, Read, arrayOf, fixedOf, mapOf
from natsbroker.spark.codecs.payloads import BadPayload
from tests.spark.avrovalues import written


def zigzag(number: int) -> bytes:
    """A number as Avro has it."""
    return written("long", number)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers(number: int) -> None:
    """Every number of 64 bits is read."""
    source = Input(b"x" + zigzag(number) + b"y", 1)
    assert source.long() == number
    assert source.data[source.place :] == b"y"


HUGE = zigzag((1 << 63) - 1)

BAD: list[tuple[Read, bytes, str]] = [
    (Input.long, b"", "it ends in a number"),
    (Input.long, b"\x80\x80", "it ends in a number"),
    (Input.long, b"\x80" * 11 + b"\x00", "a number at byte 0 does not end"),
    (Input.long, b"\xff" * 9 + b"\x02", "a number at byte 0 has more than 64 bits"),
    (Input.whole, zigzag(1 << 31), "2147483648 at byte 0 is beyond 32 bits"),
    (Input.boolean, b"\x02", "2 at byte 0 is neither true nor false"),
    (Input.boolean, b"", "1 bytes are said to follow byte 0, and 0 do"),
    (Input.binary, zigzag(-1) + b"x", "-1 bytes are said to follow byte 1, and 1 do"),
    (Input.binary, HUGE + b"x", "9223372036854775807 bytes are said to follow byte 10, and 1 do"),
    (Input.text, zigzag(5) + b"four", "5 bytes are said to follow byte 1, and 4 do"),
    (Input.text, zigzag(1) + b"\xff", "a text at byte 0 is no UTF-8"),
    (fixedOf(3), b"ab", "3 bytes are said to follow"),
    (arrayOf(Input.long, 1), HUGE, "9223372036854775807 items are said to follow byte 0"),
    (arrayOf(Input.long, 1), zigzag(-(1 << 63)) + zigzag(0), "there is no room"),
    (arrayOf(Input.long, 1), zigzag(2) + b"\x00", "2 items are said to follow"),
    (arrayOf(Input.long, 1), zigzag(1) + b"\x00", "it ends in a number"),
    (arrayOf(fixedOf(0), 0), HUGE, f"it has more than {MOST_EMPTY} items that take no bytes"),
    (arrayOf(fixedOf(0), 0), zigzag(MOST_EMPTY) + zigzag(1) + b"\x00", "it has more than"),
    (arrayOf(Input.long, 1), zigzag(-1) + zigzag(9) + b"\x00\x00", "is said to have 9 bytes"),
    (arrayOf(Input.long, 1), zigzag(-1) + zigzag(-9) + b"\x00\x00", "is said to have -9 bytes"),
    (arrayOf(Input.long, 1), zigzag(-1) + zigzag(2) + b"\x00\x00", "not the bytes that it says"),
    (mapOf(Input.long), HUGE, "9223372036854775807 items are said to follow"),
    (mapOf(fixedOf(0)), zigzag(2) + (zigzag(1) + b"k") * 2 + b"\x00", "the key 'k' is there twice"),
]


@pytest.mark.parametrize(("read", "data", "error"), BAD, ids=range(len(BAD)))
def test_bad(read: Read, data: bytes, error: str) -> None:
    """Whatever bytes say of themselves is held against what there is."""
    with pytest.raises(BadPayload, match=error):
        read(Input(data))


def test_blocks() -> None:
    """Items come in blocks, which may say how many bytes they have."""
    data = zigzag(1) + zigzag(5) + zigzag(-2) + zigzag(2) + zigzag(6) + zigzag(7) + zigzag(0)
    source = Input(data)
    assert arrayOf(Input.long, 1)(source) == [5, 6, 7]
    assert source.place == len(data)


@pytest.mark.parametrize("number", [-1, 2, -(1 << 63)])
def test_index(number: int) -> None:
    """An index that is none is bad, also one that Python would count from the end."""
    with pytest.raises(BadPayload, match=f"{number} at byte 0 is none of 2 symbols"):
        Input(zigzag(number)).index(2, "symbols")
