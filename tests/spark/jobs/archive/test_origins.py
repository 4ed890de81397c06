"""
Where messages come from.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.archive.archiver import ArchiveOrigin, Archiver, LogOrigin, Origin
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.delta import DeltaLakeTable
from natsbroker.spark.tables.snapshots import Range
from tests.spark.logged import extended
from tests.spark.support import BrokerStation, Station


def read(origin: Origin, start: int, stop: int) -> tuple[list[int], list[Range]]:
    """The sequences of a range, and what is lost."""
    state = origin.state()
    lost: list[Range] = []
    bounds = SequenceRange(state.log.name, state.log.identity, start, stop)
    batches = origin.batches(bounds, lost.append)
    return [seq for batch in batches for seq in batch.column("seq").to_pylist()], lost


class TestArchive:
    """An archive."""

    def test_ranges(self, tmp_path: Path) -> None:
        """A range of an archive has its messages and losses, from several files."""
        extended(tmp_path, [("a", b"x")] * 5, [(4, 9)])
        extended(tmp_path, [("a", b"y")] * 3)
        origin = ArchiveOrigin.of(str(tmp_path))
        state = origin.state()
        assert (state.log.name, state.start, state.stop) == ("LOG", 1, 12)
        assert read(origin, 3, 11) == ([3, 4, 5, 9, 10], [(4, 9)])
        assert read(origin, 5, 7) == ([5], [(5, 7)])
        assert read(origin, 9, 12) == ([9, 10, 11], [])

    def test_versionIsFixed(self, tmp_path: Path) -> None:
        """
        An opened version of an archive does not change. The newest version can be opened from it.
        """
        extended(tmp_path, [("a", b"x")])
        origin = ArchiveOrigin.of(str(tmp_path))
        extended(tmp_path, [("a", b"x")])
        assert origin.state().stop == 2
        assert origin.now().state().stop == 3


class TestLog:
    """A log on servers."""

    def test_channel(self, broker: BrokerStation, tmp_path: Path) -> None:
        """A channel gives the same rows as an archive of it."""
        name = broker.channel([b"%d" % n for n in range(9)])
        options = readOptions({"servers": broker.url, "channel": name})
        Archiver(options, DeltaLakeTable(tmp_path)).once()
        log, archive = LogOrigin(options), ArchiveOrigin.of(str(tmp_path))
        assert log.state() == archive.state()
        assert log.now().state().stop == 10
        bounds = SequenceRange(name, log.state().log.identity, 3, 8)
        rows = [
            [
                row
                for batch in source.batches(bounds, lambda lost: None)
                for row in batch.to_pylist()
            ]
            for source in (log, archive)
        ]
        assert [row["seq"] for row in rows[0]] == [3, 4, 5, 6, 7]
        assert rows[0] == rows[1]

    def test_lostMessage(self, station: Station) -> None:
        """A message that a stream no longer has is reported; a deleted message is no loss."""
        stream = station.stream()
        stream.fill([b"x"] * 10)
        stream.delete(7)
        options = readOptions({"servers": station.url, "stream": stream.name})
        origin = LogOrigin(options)
        assert read(origin, 1, 11) == ([1, 2, 3, 4, 5, 6, 8, 9, 10], [])
        stream.api("PURGE", {"seq": 4})
        assert read(origin, 1, 11) == ([4, 5, 6, 8, 9, 10], [(1, 4)])

    @pytest.mark.parametrize(
        "given", [{"stream": "A,B"}, {"channel": "a.*"}, {"stream": "A", "subject": "x"}]
    )
    def test_notOneWholeLog(self, given: dict[str, str]) -> None:
        """A selection that is not one whole log is refused."""
        with pytest.raises(OptionError, match="name exactly one stream or channel"):
            LogOrigin(readOptions({"servers": "h", **given}))
