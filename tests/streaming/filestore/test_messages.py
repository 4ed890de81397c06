"""
The messages of a channel in nats-streaming-server's file store.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from natsbroker.streaming.filestore.framing import Report, SourceError
from natsbroker.streaming.filestore.messages import ChannelMessages, SourceMessage
from tests.streaming.filestore.writer import BEGINNING, STEP, ChannelWriter, append, cut, flip


@pytest.fixture
def channel(tmp_path: Path) -> ChannelWriter:
    """A channel called C{orders}."""
    return ChannelWriter(tmp_path / "orders", zlib.crc32)


def read(channel: ChannelWriter, after: int = 0) -> tuple[list[SourceMessage], int, Report]:
    """The messages, the last sequence, and the report."""
    report = Report()
    messages = ChannelMessages(channel.directory, "orders", zlib.crc32)
    return list(messages.read(report, after)), messages.last, report


def sequencesOf(channel: ChannelWriter) -> tuple[list[int], int]:
    """The sequences and the last one; nothing is damaged."""
    messages, last, report = read(channel)
    assert report.damaged == []
    return [message.sequence for message in messages], last


def test_indexEntry(tmp_path: Path) -> None:
    """
    An index that nats-streaming-server 0.25.6 wrote is read: sequence 1 is at 4, with 55 bytes.
    """
    channel = ChannelWriter(tmp_path / "alpha", zlib.crc32)
    index = "0100000000000000 0400000000000000 3fbc2bfd4186ea18 37000000 72c142a8"
    append(channel.path("msgs.1.idx"), bytes.fromhex(index))
    channel.message(1, b"x" * 34, timestamp=0x18EA8641FD2BBC3F, isIndexed=False)
    messages, last, report = read(channel)
    assert [(message.sequence, message.size, message.timestamp) for message in messages] == [
        (1, 55, 0x18EA8641FD2BBC3F)
    ]
    assert (last, report.notes, report.damaged) == (1, [], [])


def test_message(channel: ChannelWriter) -> None:
    """A message has its sequence, timestamp, reply subject and data; data may be empty."""
    channel.message(7, b"data", reply="answers")
    channel.message(8)
    (one, two), last, _ = read(channel)
    assert (one.sequence, one.timestamp, one.reply, one.data) == (
        7, BEGINNING + 7 * STEP, "answers", b"data",
    )  # fmt: skip
    assert (two.reply, two.data, last) == ("", b"", 8)


def test_after(channel: ChannelWriter) -> None:
    """Only messages above a sequence are returned. The last sequence is the channel's."""
    channel.messages(1, 5)
    messages, last, _ = read(channel, 3)
    assert ([message.sequence for message in messages], last) == ([4, 5], 5)


def test_slicesInOrderOfNumber(channel: ChannelWriter) -> None:
    """Slices are ordered by number, not by name, and need not begin with 1."""
    channel.messages(21, 22, part=10)
    channel.messages(11, 12, part=9)
    channel.path("msgs.8.dat.bak").write_bytes(b"archived")
    assert sequencesOf(channel) == ([11, 12, 21, 22], 22)


def test_sliceWithoutNumber(channel: ChannelWriter) -> None:
    """A slice whose name has no number is refused, as by the server."""
    channel.path("msgs.x.dat").write_bytes(b"\x01\0\0\0")
    with pytest.raises(SourceError, match=r"orders/msgs.x.dat: 'x' is not the number"):
        read(channel)


def test_missingDataFile(channel: ChannelWriter) -> None:
    """A slice whose data file is missing leaves a gap, which is reported."""
    for part in (1, 2, 3):
        channel.messages(part * 10, part * 10 + 1, part)
    channel.path("msgs.2.dat").unlink()
    messages, last, report = read(channel)
    assert ([message.sequence for message in messages], last) == ([10, 11, 30, 31], 31)
    assert report.notes == ["orders/msgs.2.idx is there without its data file"]


def test_emptyChannel(channel: ChannelWriter) -> None:
    """A channel that only has subscribers has no message, and its last sequence is 0."""
    assert sequencesOf(channel) == ([], 0)


class TestIndexDecides:
    """With a usable index, the index alone decides which records count."""

    def test_unindexedTail(self, channel: ChannelWriter) -> None:
        """Records that the index does not name were never acknowledged: they are left out."""
        channel.messages(1, 3)
        channel.message(4, b"unacknowledged", isIndexed=False)
        assert sequencesOf(channel) == ([1, 2, 3], 3)

    def test_sequenceTwice(self, channel: ChannelWriter) -> None:
        """If a sequence is in the data twice, the index decides which record counts."""
        channel.messages(1, 2)
        channel.message(3, b"lost", isIndexed=False)
        channel.message(3, b"kept")
        messages, _, report = read(channel)
        assert [message.data for message in messages] == [b"1", b"2", b"kept"]
        assert report.damaged == []

    def test_hole(self, channel: ChannelWriter) -> None:
        """Zeros in the middle of the data, or at the end of either file, do not matter."""
        channel.messages(1, 2)
        append(channel.path("msgs.1.dat"), bytes(64))
        channel.messages(3, 4)
        append(channel.path("msgs.1.dat"), bytes(64))
        append(channel.path("msgs.1.idx"), bytes(64))
        assert sequencesOf(channel) == ([1, 2, 3, 4], 4)

    def test_flippedBit(self, channel: ChannelWriter) -> None:
        """A damaged message is reported with channel and sequence. Later messages are returned."""
        offsets = [channel.message(number, b"data") for number in (1, 2, 3)]
        flip(channel.path("msgs.1.dat"), offsets[1] + 20)
        messages, last, report = read(channel)
        assert ([message.sequence for message in messages], last) == ([1, 3], 3)
        assert report.damaged == [
            f"orders: message 2 is damaged (msgs.1.dat at {offsets[1]}: "
            "the checksum does not match)"
        ]

    def test_lastMessageDamaged(self, channel: ChannelWriter) -> None:
        """If the last message is damaged, its sequence stays used."""
        channel.message(1, b"data")
        flip(channel.path("msgs.1.dat"), channel.message(2, b"data") + 20)
        messages, last, report = read(channel)
        assert ([message.sequence for message in messages], last, len(report.damaged)) == (
            [1],
            2,
            1,
        )

    def test_otherMessage(self, channel: ChannelWriter) -> None:
        """A record that is intact but not the message in the index is damage."""
        channel.message(1, b"a", isIndexed=False)
        channel.messages(2, 3)
        index = channel.path("msgs.1.idx")
        entry = bytearray(index.read_bytes())
        entry[4 + 8 : 4 + 16] = (4).to_bytes(8, "little")
        entry[4 + 28 : 4 + 32] = zlib.crc32(entry[4:32]).to_bytes(4, "little")
        index.write_bytes(entry)
        messages, _, report = read(channel)
        assert [message.sequence for message in messages] == [3]
        assert report.damaged == ["orders: message 2 is damaged (msgs.1.dat at 4: it is message 1)"]


class TestScan:
    """Without a usable index the data file is scanned."""

    def test_indexMissing(self, channel: ChannelWriter) -> None:
        """Without an index, all intact records count."""
        channel.messages(1, 3)
        channel.path("msgs.1.idx").unlink()
        messages, last, report = read(channel)
        assert ([message.sequence for message in messages], last) == ([1, 2, 3], 3)
        assert report.notes == ["orders/msgs.1.idx is missing: the data file is scanned"]

    def test_indexDamaged(self, channel: ChannelWriter) -> None:
        """A damaged entry of the index, or an incomplete last one, loses no message."""
        channel.messages(1, 3)
        flip(channel.path("msgs.1.idx"), 4 + 32 + 1)
        assert sequencesOf(channel) == ([1, 2, 3], 3)
        channel.path("msgs.1.idx").write_bytes(b"\x01\0\0\0" + bytes(31) + b"\1")
        assert sequencesOf(channel) == ([1, 2, 3], 3)

    def test_torn(self, channel: ChannelWriter) -> None:
        """
        An incomplete last record is left out and reported; the sequence before it is the last one.
        """
        channel.messages(1, 3)
        cut(channel.path("msgs.1.dat"), 3)
        cut(channel.path("msgs.1.idx"), 20)
        messages, last, report = read(channel)
        assert ([message.sequence for message in messages], last) == ([1, 2], 2)
        assert (len(report.notes), report.damaged) == (2, [])
        assert "are not a whole record" in report.notes[1]

    def test_indexAhead(self, channel: ChannelWriter) -> None:
        """A sequence that the index names and the data lacks is reported and stays used."""
        channel.messages(1, 3)
        cut(channel.path("msgs.1.dat"), 3)
        messages, last, report = read(channel)
        assert ([message.sequence for message in messages], last) == ([1, 2], 3)
        assert "the index ends with 3, the data with 2" in report.notes[-1]

    def test_laterCopyWins(self, channel: ChannelWriter) -> None:
        """A sequence that comes twice replaces the first record and all records behind it."""
        channel.messages(1, 3)
        channel.message(2, b"again")
        channel.path("msgs.1.idx").unlink()
        messages, last, _ = read(channel)
        assert ([message.data for message in messages], last) == ([b"1", b"again"], 2)

    def test_hole(self, channel: ChannelWriter) -> None:
        """Records behind zeros are found, so that no acknowledged message is lost."""
        channel.messages(1, 2)
        append(channel.path("msgs.1.dat"), bytes(1 << 20))
        channel.messages(3, 4)
        append(channel.path("msgs.1.dat"), bytes(99))
        channel.path("msgs.1.idx").unlink()
        messages, _, report = read(channel)
        assert [message.sequence for message in messages] == [1, 2, 3, 4]
        assert (len(report.notes), report.damaged) == (2, [])

    @pytest.mark.parametrize("place", [0, 3, 9, 20])
    def test_flippedBit(self, channel: ChannelWriter, place: int) -> None:
        """
        A flipped bit in any part of a record loses that record only, and its place is reported.
        """
        offsets = [channel.message(number, b"x" * 99) for number in range(1, 5)]
        flip(channel.path("msgs.1.dat"), offsets[1] + place)
        channel.path("msgs.1.idx").unlink()
        messages, last, report = read(channel)
        assert ([message.sequence for message in messages], last) == ([1, 3, 4], 4)
        size = offsets[2] - offsets[1]
        assert report.damaged == [
            f"orders/msgs.1.dat: {size} bytes at {offsets[1]} are not a record"
        ]

    def test_longName(self, tmp_path: Path) -> None:
        """The scan works with names of channels whose length takes two bytes."""
        channel = ChannelWriter(tmp_path / ("x" * 200), zlib.crc32)
        offsets = [channel.message(number, b"data") for number in (1, 2, 3)]
        flip(channel.path("msgs.1.dat"), offsets[1])
        channel.path("msgs.1.idx").unlink()
        messages = ChannelMessages(channel.directory, "x", zlib.crc32)
        assert [record.sequence for record in messages.read(Report())] == [1, 3]


def test_slicesOverlap(channel: ChannelWriter) -> None:
    """A sequence that an earlier slice has is damage, not a second message."""
    channel.messages(1, 3)
    channel.messages(3, 4, part=2)
    messages, _, report = read(channel)
    assert [message.sequence for message in messages] == [1, 2, 3, 4]
    assert report.damaged == ["orders/msgs.2.dat: 3 comes again behind 3"]
