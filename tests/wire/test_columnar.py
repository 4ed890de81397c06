"""
Columnar frames.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from array import array
from collections.abc import Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.wire.columnar import (
    MAGIC,
    ColumnFrame,
    FrameError,
    FramePosition,
    addToDigest,
    encodeFrame,
    readFrame,
    valuesOf,
)

Row = tuple[int, int, bytes, bytes, bytes]

PLACE = FramePosition(5, 17, 3, 40)


def columns(rows: Sequence[Row], damaged: tuple[int, ...] = ()) -> Any:
    """Columns as a log exports them."""
    parts: dict[str, Any] = {
        "sequences": array("Q", [row[0] for row in rows]),
        "timestamps": array("q", [row[1] for row in rows]),
        "damaged": damaged,
    }
    for place, (values, ends) in enumerate(
        (("subjects", "subjectEnds"), ("headers", "headerEnds"), ("payloads", "payloadEnds")), 2
    ):
        column: list[bytes] = [row[place] for row in rows]  # type: ignore[misc]
        parts[values] = b"".join(column)
        parts[ends] = array("q", accumulate(map(len, column), initial=0))
    return SimpleNamespace(**parts)


def rowsOf(frame: ColumnFrame) -> list[Row]:
    """The rows of a frame; fields without a column are empty."""
    nothing = [b""] * frame.rows

    def values(ends: memoryview, data: memoryview) -> list[bytes]:
        return valuesOf(ends.cast("i").tolist(), data) if ends else nothing

    subjects = values(frame.subjectEnds, frame.subjects)
    if frame.subject is not None:
        subjects = [frame.subject] * frame.rows
    return list(
        zip(
            frame.sequences.cast("Q").tolist(),
            frame.timestamps.cast("q").tolist(),
            subjects,
            values(frame.headerEnds, frame.headers),
            values(frame.payloadEnds, frame.payloads),
            strict=True,
        )
    )


ROWS: list[Row] = [
    (5, 1, b"a", b"NATS/1.0\r\n\r\n", b"one"),
    (7, 2, b"bc", b"", b""),
    (9, 2, b"", b"", b"x"),
]

texts = st.binary(max_size=20)
rows = st.lists(
    st.tuples(
        st.integers(1, (1 << 63) - 1),
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.sampled_from([b"s", b"s", b"t.u"]) | texts,
        st.just(b"") | texts,
        texts,
    ),
    max_size=20,
)


class TestFrames:
    """There and back."""

    @given(rows, st.lists(st.integers(0, (1 << 64) - 1), max_size=3), st.booleans())
    def test_comesBack(self, given: list[Row], damaged: list[int], isLast: bool) -> None:
        """A written frame is read again; its columns are aligned for eight-byte values."""
        data = encodeFrame(columns(given, tuple(damaged)), PLACE, isLast=isLast)
        frame = readFrame(data)
        assert rowsOf(frame) == given
        assert (frame.place, frame.isLast, frame.damaged) == (PLACE, isLast, tuple(damaged))
        assert len(data) % 8 == 0

    def test_copiesNothing(self) -> None:
        """The columns are views of the frame's bytes."""
        data = encodeFrame(columns(ROWS), PLACE)
        frame = readFrame(data)
        for column in (frame.sequences, frame.timestamps, frame.payloadEnds, frame.payloads):
            assert column.obj is data

    def test_oneSubject(self) -> None:
        """A subject that all rows share is stored once."""
        many: list[Row] = [(n, n, b"orders.new", b"", b"") for n in range(1, 101)]
        frame = readFrame(encodeFrame(columns(many), PLACE))
        assert (frame.subject, bytes(frame.subjects)) == (b"orders.new", b"orders.new")
        assert len(frame.subjectEnds) == 0
        assert rowsOf(frame) == many

    def test_leavesOut(self) -> None:
        """A column that was not requested is left out, as are headers that are all empty."""
        for name, place in (("subject", 2), ("headers", 3), ("data", 4)):
            frame = readFrame(encodeFrame(columns(ROWS), PLACE, [name]))
            assert rowsOf(frame) == [(*row[:place], b"", *row[place + 1 :]) for row in ROWS]
        frame = readFrame(encodeFrame(columns(ROWS[1:]), PLACE))
        assert (len(frame.headerEnds), len(frame.headers)) == (0, 0)

    def test_layout(self) -> None:
        """The bytes have the layout in the module's docstring."""
        data = encodeFrame(columns([(6, 9, b"ab", b"", b"cde")], (8,)), PLACE, isLast=True)
        head = struct.unpack_from("<4sHHIIQQQQIIQQQ", data)
        checked = zlib.crc32(data[:8] + data[12:])
        assert head == (MAGIC, 1, 1 | 2 | 8, checked, 1, 5, 17, 3, 40, 1, 0, 2, 0, 3)
        assert data[80:] == struct.pack("<QqiiQ8s8s", 6, 9, 0, 3, 8, b"ab", b"cde")


class TestRefused:
    """Data that is no frame."""

    @pytest.mark.parametrize("data", [b"", b"NBCF", bytes(100), b'{"error":{}}' * 10])
    def test_otherBytes(self, data: bytes) -> None:
        """Any other bytes are refused as a frame."""
        with pytest.raises(FrameError):
            readFrame(data)

    def test_otherVersion(self) -> None:
        """A frame of a later version is refused."""
        data = bytearray(encodeFrame(columns(ROWS), PLACE))
        data[4] = 2
        with pytest.raises(FrameError, match="version 2"):
            readFrame(bytes(data))

    def test_everyBitCounts(self) -> None:
        """A frame with any flipped bit is refused."""
        data = encodeFrame(columns(ROWS), PLACE)
        for place in range(len(data)):
            damaged = bytearray(data)
            damaged[place] ^= 0x10
            with pytest.raises(FrameError):
                readFrame(bytes(damaged))

    @pytest.mark.parametrize("change", [-8, 8])
    def test_otherLength(self, change: int) -> None:
        """A frame whose sections do not fill it is refused, even with the right checksum."""
        data = encodeFrame(columns(ROWS), PLACE)
        data = data[:change] if change < 0 else data + bytes(change)
        checked = zlib.crc32(data[:8] + data[12:])
        data = data[:8] + checked.to_bytes(4, "little") + data[12:]
        with pytest.raises(FrameError, match="than its header states"):
            readFrame(data)


def test_digest() -> None:
    """The digest covers every part of every row, and their boundaries."""
    sha256, expected = hashlib.sha256(), hashlib.sha256()
    addToDigest(sha256, *zip(*ROWS, strict=True))
    for sequence, timestamp, *values in ROWS:
        expected.update(struct.pack("<QqIII", sequence, timestamp, *map(len, values)))
        expected.update(b"".join(values))
    assert sha256.digest() == expected.digest()


def test_tooLarge() -> None:
    """Values that do not fit into one column are refused, and not cut."""
    row = columns([(5, 0, b"s", b"", b"payload")])
    row.payloadEnds[-1] = 1 << 31
    with pytest.raises(OverflowError, match="2147483648 bytes"):
        encodeFrame(row, PLACE)
