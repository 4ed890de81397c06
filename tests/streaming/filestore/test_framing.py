"""
Framing and checksums of nats-streaming-server's file store.

The literal bytes were written by nats-streaming-server 0.25.6.
"""

from __future__ import annotations

import pytest

from natsbroker.streaming.filestore.framing import (
    POLYNOMIALS,
    Report,
    SourceError,
    TypedRecord,
    checksumFor,
    typedRecords,
)

#: "publisher is deleted" in a clients.dat.
DELETED = bytes.fromhex("0b0000024a03dc0f0a097075626c6973686572")
#: "message 1 was sent to subscription 1" and "it was acknowledged", in a subs.dat.
SENT, ACKNOWLEDGED = (bytes.fromhex(head + "03bff7d808011001") for head in ("04000005", "04000004"))
VERSION = b"\x01\0\0\0"


def read(data: bytes, polynomial: int = POLYNOMIALS[0]) -> tuple[list[TypedRecord], list[str]]:
    """The records, and what was reported of an incomplete one."""
    torn: list[str] = []
    records = list(typedRecords("x.dat", data, checksumFor(polynomial), torn.append))
    return records, torn


@pytest.mark.parametrize(
    ("polynomial", "expected"),
    list(zip(POLYNOMIALS, (0xCBF43926, 0xE3069283, 0x2D3DD0AE), strict=True)),
)
def test_checkValues(polynomial: int, expected: int) -> None:
    """Each polynomial gives its published check value."""
    assert checksumFor(polynomial)(b"123456789") == expected


def test_records() -> None:
    """Records are returned with type, payload and place."""
    records, torn = read(VERSION + SENT + ACKNOWLEDGED)
    payload = bytes.fromhex("08011001")
    assert records == [TypedRecord(5, payload, 4), TypedRecord(4, payload, 16)]
    assert torn == []


def test_zerosEndTheFile() -> None:
    """A header of zeros ends the file, whatever follows."""
    records, torn = read(VERSION + DELETED + bytes(8) + DELETED)
    assert (len(records), torn) == (1, [])


@pytest.mark.parametrize("missing", [1, 11, 12, 18])
def test_tornTail(missing: int) -> None:
    """
    An incomplete last record is left out and reported, whether its header or its payload is cut
    off.
    """
    records, torn = read((VERSION + DELETED + DELETED)[:-missing])
    assert len(records) == 1
    assert torn == ["x.dat: the last record, at 23, is incomplete and left out"]


def test_flippedBit() -> None:
    """A record that does not match its checksum ends the reading with its place."""
    with pytest.raises(SourceError, match=r"x.dat: the record at 23 does not match its checksum"):
        read(VERSION + DELETED + DELETED[:-1] + b"s")


def test_otherVersion() -> None:
    """An unknown file version is refused."""
    with pytest.raises(SourceError, match=r"x.dat does not begin with file version 1"):
        read(b"\x02\0\0\0" + DELETED)


def test_reportCollectsAndShows() -> None:
    """Notes and damage are kept apart, and shown in the order in which they come."""
    shown: list[str] = []
    report = Report(shown.append)
    report.note("a")
    report.damage("b")
    report.note("c")
    assert (report.notes, report.damaged, shown) == (["a", "c"], ["b"], ["a", "b", "c"])
