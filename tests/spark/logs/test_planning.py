"""
From options to ranges.
"""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError, OptionError
from natsbroker.spark.logs import planning
from natsbroker.spark.logs.planning import checkedPatterns, planRanges, rfc3339, split
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.settings import readOptions
from tests.spark.support import Station, Stream


def planned(station: Station, *streams: Stream, **options: str) -> list[tuple[int, int]]:
    """
    @return: the ranges that are read.
    """
    names = ",".join(source.name for source in streams)
    values = readOptions({"servers": station.url, "stream": names, **options})
    losses: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "logLoss", losses.append)
        ranges = planRanges(station.streams, values)
    assert [bounds.stream for bounds in ranges] == [source.name for source in streams]
    assert bool(losses) == (options.get("failOnDataLoss") == "false")
    return [(bounds.start, bounds.stop) for bounds in ranges]


@pytest.fixture
def stream(station: Station) -> Stream:
    """
    A stream with the sequences 4 to 10.
    """
    made = station.stream()
    made.fill([b"x"] * 10)
    made.api("PURGE", {"seq": 4})
    return made


class TestOffsets:
    """Sequences."""

    def test_defaultRange(self, station: Station, stream: Stream) -> None:
        """By default, the range is that of the stored messages."""
        assert planned(station, stream, station.stream()) == [(4, 11), (1, 1)]

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [("5", "9", (5, 9)), ("4", "11", (4, 11)), ("11", "latest", (11, 11)), ("7", "7", (7, 7))],
    )
    def test_sequences(
        self, start: str, stop: str, expected: tuple[int, int], station: Station, stream: Stream
    ) -> None:
        """The sequence at the end of a range is excluded."""
        options = {"startingOffsets": start, "endingOffsets": stop}
        assert planned(station, stream, **options) == [expected]

    def test_perStream(self, station: Station, stream: Stream) -> None:
        """
        Offsets may be JSON with a value for each stream. Streams that are not named have the
        default.
        """
        other = station.stream()
        other.fill([b"x"] * 3)
        options = {
            "startingOffsets": f'{{"{stream.name}": 6, "{other.name}": "earliest"}}',
            "endingOffsets": f'{{"{other.name}": 3}}',
        }
        assert planned(station, stream, other, **options) == [(6, 11), (1, 3)]

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"startingOffsets": "latest"}, "startingOffsets cannot be 'latest' in a batch"),
            ({"endingOffsets": "earliest"}, "endingOffsets cannot be 'earliest' in a batch"),
            ({"startingOffsets": "0"}, "a sequence from 1 expected, not '0'"),
            ({"startingOffsets": "-5"}, "expected, not '-5'"),
            ({"startingOffsets": "first"}, "'earliest' or a sequence .*, not 'first'"),
            ({"startingOffsets": '{"X": 1}'}, "names 'X', which is not one of the streams"),
            ({"startingOffsets": '{"X": '}, "startingOffsets: not JSON"),
            ({"startingOffsets": "12"}, "ends before 11"),
            ({"endingOffsets": "12"}, "ends before 11"),
            ({"startingOffsets": "9", "endingOffsets": "6"}, "begin at 9 and stop at 6"),
        ],
    )
    def test_invalidOffsets(
        self, options: dict[str, str], why: str, station: Station, stream: Stream
    ) -> None:
        """Malformed offsets are refused."""
        values = readOptions({"servers": "h", "stream": stream.name, **options})
        with pytest.raises(OptionError, match=why):
            planRanges(station.streams, values)

    def test_timePerStream(self, station: Station, stream: Stream) -> None:
        """Offsets in JSON may be sequences, times and words."""
        other = station.stream()
        other.fill([b"x"] * 3)
        time = other.api("MSG.GET", {"seq": 2})["message"]["time"]
        offsets = json.dumps({stream.name: 6, other.name: time})
        assert planned(station, stream, other, startingOffsets=offsets) == [(6, 11), (2, 4)]
        assert planned(station, other, endingOffsets=json.dumps({other.name: time})) == [(1, 2)]
        for value, why in (
            ("2026-13-01T00:00:00Z", f"startingOffsets: {other.name}: not a time"),
            ("2026-11-20T00:00:00", "has no offset from UTC"),
            ("2199-01-01T00:00:00Z", "has no message from 2199"),
            ("soon", f"{other.name}: 'earliest', a time or a sequence from 1 expected"),
            ("a time", "a sequence from 1 expected, not 'a time'"),
        ):
            with pytest.raises(OptionError, match=why):
                planned(station, other, startingOffsets=json.dumps({other.name: value}))

    def test_wrongJSON(self, station: Station, stream: Stream) -> None:
        """A value in JSON that is no offset is refused."""
        for value in ("true", "1.5", "[]", "null", '"x"'):
            with pytest.raises(OptionError, match="a sequence from 1 expected"):
                planned(station, stream, startingOffsets=f'{{"{stream.name}": {value}}}')

    def test_ambiguous(self, station: Station, stream: Stream) -> None:
        """One sequence for several streams is refused."""
        with pytest.raises(OptionError, match=r'with several of them, say which: {"NAME": 5}'):
            planned(station, stream, station.stream(), startingOffsets="5")

    def test_loss(self, station: Station, stream: Stream) -> None:
        """A start that is not stored any more is a loss, or is reported."""
        with pytest.raises(DataLoss, match="sequences 2 to 3 are not stored any more"):
            planned(station, stream, startingOffsets="2")
        plan = planned(station, stream, startingOffsets="2", failOnDataLoss="false")
        assert plan == [(4, 11)]


class TestTimes:
    """Times."""

    def test_times(self, station: Station, stream: Stream) -> None:
        """
        Times select from the first message at or after the start, up to the first at or after the
        end.
        """
        early, late = "2020-01-01T00:00:00Z", "4102444800000"
        assert planned(station, stream, startingTimestamp=early) == [(4, 11)]
        assert planned(station, stream, endingTimestamp=late) == [(4, 11)]
        assert planned(station, stream, endingTimestamp=early) == [(4, 4)]

    def test_timeOfAMessage(self, station: Station) -> None:
        """The time of a message finds that message."""
        stream = station.stream()
        stream.fill([b"x"] * 3)
        answer = stream.api("MSG.GET", {"seq": 2})
        time = answer["message"]["time"]
        assert planned(station, stream, startingTimestamp=time) == [(2, 4)]
        assert planned(station, stream, endingTimestamp=time) == [(1, 2)]

    def test_tooLate(self, station: Station, stream: Stream) -> None:
        """
        A start after the last message is an error, or reads nothing with the strategy C{latest}.
        """
        late = "2199-01-01T00:00:00+01:00"
        with pytest.raises(OptionError, match="has no message from 2199-01-01"):
            planned(station, stream, startingTimestamp=late)
        options = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
        assert planned(station, stream, **options) == [(11, 11)]

    @pytest.mark.parametrize("which", ["starting", "ending"])
    def test_timeAndOffset(self, which: str, station: Station, stream: Stream) -> None:
        """A time and an offset together are refused."""
        options = {f"{which}Timestamp": "0", f"{which}Offsets": "5"}
        with pytest.raises(OptionError, match=f"{which}Timestamp and {which}Offsets exclude"):
            planned(station, stream, **options)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("0", "1970-01-01T00:00:00+00:00"),
            ("1500", "1970-01-01T00:00:01.500000+00:00"),
            ("2026-11-20T08:00:00Z", "2026-11-20T08:00:00Z"),
            ("2026-11-20T08:00:00.123456789+02:00", "2026-11-20T08:00:00.123456789+02:00"),
        ],
    )
    def test_spellings(self, text: str, expected: str) -> None:
        """A time may be in RFC 3339, with nanoseconds, or in milliseconds since 1970."""
        assert rfc3339(text, "o") == expected

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("yesterday", "startingTimestamp: not a time: 'yesterday'"),
            ("9" * 30, "startingTimestamp: not a time"),
            ("2026-13-20T08:00:00Z", "startingTimestamp: not a time"),
            ("2026-11-20T08:00:00+99:00", "startingTimestamp: not a time"),
            ("2026-11-20T08:00:00.1234567890Z", "startingTimestamp: not a time"),
            ("2026-11-20T08:00:00", "has no offset from UTC: write"),
            ("1763625600", "milliseconds are in 1970; for seconds, write 1763625600000"),
        ],
    )
    def test_wrongSpellings(self, text: str, why: str) -> None:
        """A time without an offset from UTC, and one that is malformed, is refused."""
        with pytest.raises(OptionError, match=why):
            rfc3339(text, "startingTimestamp")


class TestStreams:
    """Streams that cannot be read."""

    def test_missing(self, station: Station) -> None:
        """A missing stream is named."""
        values = readOptions({"servers": "h", "stream": "NOWHERE"})
        with pytest.raises(ApiError, match="there is no stream NOWHERE"):
            planRanges(station.streams, values)

    def test_millisecondsAsSequence(self, station: Station) -> None:
        """A time that is given as a sequence is refused, with the right option."""
        stream = station.stream()
        with pytest.raises(OptionError, match="startingTimestamp takes milliseconds since 1970"):
            planned(station, stream, startingOffsets="1763625600000")
        with pytest.raises(OptionError, match=r"ends before 1$"):
            planned(station, stream, startingOffsets="17")

    def test_notDirect(self, station: Station) -> None:
        """A stream that does not answer direct gets is refused, with the remedy."""
        stream = station.stream(allow_direct=False)
        with pytest.raises(DataSourceError, match=f"nats stream edit {stream.name} --allow-direct"):
            planned(station, stream)


class TestPatterns:
    """Filters."""

    @pytest.mark.parametrize(
        ("patterns", "expected"),
        [
            ([], ()),
            (["a.*", "a.b", "c"], ("a.*", "c")),
            (["a", ">"], ()),
            (["a.*.c", "a.b.*"], ("a.*.c", "a.b.*")),
        ],
    )
    def test_included(self, patterns: list[str], expected: tuple[str, ...]) -> None:
        """A filter that another one contains is left out."""
        assert checkedPatterns(patterns) == expected

    @pytest.mark.parametrize("pattern", ["a..b", "a b", ".", "a.>.b"])
    def test_invalidSubjects(self, pattern: str) -> None:
        """A text that is no subject is refused."""
        with pytest.raises(OptionError, match="subject: not a valid subject"):
            checkedPatterns([pattern])


lengths = some.lists(some.integers(0, 50_000), min_size=1, max_size=4)


class TestSplit:
    """Tasks."""

    @given(lengths, some.integers(0, 40), some.integers(1, 60_000), some.integers(0, 8))
    def test_tiles(self, given: list[int], least: int, most: int, processors: int) -> None:
        """The pieces are the ranges, without gap and overlap, and none is too long."""
        ranges = [SequenceRange(f"S{n}", "then", 5, 5 + length) for n, length in enumerate(given)]
        pieces = split(ranges, least, most, processors)
        for bounds in ranges:
            mine = [piece for piece in pieces if piece.stream == bounds.stream]
            if bounds.start < bounds.stop:
                assert (mine[0].start, mine[-1].stop) == (bounds.start, bounds.stop)
            for one, other in itertools.pairwise(mine):
                assert one.stop == other.start
        assert all(0 < piece.stop - piece.start <= most for piece in pieces)
        assert len(pieces) >= min(least, sum(given))

    def test_fewAreOneTask(self) -> None:
        """A small stream is one task, unless more are requested."""
        bounds = SequenceRange("S", "then", 1, 1001)
        assert len(split([bounds], 0, 10**6, 8)) == 1
        assert len(split([bounds], 8, 10**6, 8)) == 8
        assert len(split([SequenceRange("S", "then", 1, 10**6)], 0, 10**6, 8)) == 8
