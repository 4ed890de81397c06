"""
Comparing archives with their logs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from natsbroker.spark.errors import DataLoss
from natsbroker.spark.jobs.archive.archiver import Archiver, FilePlan
from natsbroker.spark.jobs.archive.verify import Comparison, verified
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.parquet import Difference, withChecksums
from natsbroker.spark.tables.snapshots import TableError, TableSnapshot
from natsbroker.spark.tables.table import ArchiveTable, tableAt
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST
from tests.spark.support import BrokerStation, Station
from tests.spark.tablecontract import forge


def archived(
    station: Station | BrokerStation, root: Path, form: str = "", **given: str
) -> ArchiveTable:
    """An archive of a log, in files of 40."""
    table = tableAt(root, form)
    Archiver(readOptions({"servers": station.url, **given}), table, plan=FilePlan(40, 9)).once()
    return table


def compared(station: Station | BrokerStation, table: ArchiveTable, block: int = 16) -> Comparison:
    """The result of a comparison."""
    report = verified(None, {"servers": station.url}, str(table.root), block)
    findings = tuple(Difference(**finding) for finding in report["findings"])
    return Comparison(findings, report["rows"], report["deleted"])


@pytest.fixture(params=["channel", "stream", "channel-iceberg", "stream-delta"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, ArchiveTable]:
    """A log of a hundred messages, of either kind, with its archive."""
    kind, _, form = request.param.partition("-")
    if kind == "channel":
        broker: BrokerStation = request.getfixturevalue("broker")
        name = broker.channel(b"%d" % n for n in range(1, 101))
        return broker, archived(broker, tmp_path, form, channel=name)
    station: Station = request.getfixturevalue("station")
    stream = station.stream()
    stream.add("a", b"1", {"K": "v", "k": " w"})
    stream.fill([b"%d" % n for n in range(2, 101)])
    stream.delete(50, 51)
    return station, archived(station, tmp_path, form, stream=stream.name)


class TestBoth:
    """Channels and streams alike."""

    @pytest.mark.parametrize("block", [1, 16, 1_000_000])
    def test_noFindings(self, log: tuple[Any, ArchiveTable], block: int) -> None:
        """A new archive equals its log, for blocks of any size."""
        station, table = log
        comparison = compared(station, table, block)
        assert comparison == Comparison((), table.require().rows, 0)

    def test_damage(self, log: tuple[Any, ArchiveTable]) -> None:
        """
        Messages that are missing, duplicated, changed or in an unreadable file are found with their
        sequences.
        """
        station, table = log
        paths = [table.directory / file.path for file in table.require().files]
        rows = pq.read_table(paths[0])
        isKept = pa.array([sequence not in (5, 6, 7, 20) for sequence in rows["seq"].to_pylist()])
        pq.write_table(pa.concat_tables([rows.filter(isKept), rows.slice(30, 1)]), paths[0])
        forge(paths[1], 60)
        paths[2].write_bytes(paths[2].read_bytes()[:-20])
        findings = compared(station, table).findings
        assert [(finding.kind, finding.first, finding.last) for finding in findings] == [
            ("file", 1, 40),
            ("doubled", 31, 31),
            ("missing", 5, 7),
            ("missing", 20, 20),
            ("damaged", 60, 60),
            ("differs", 60, 60),
            ("file", 81, 100),
            ("missing", 81, 100),
        ]
        assert "has 37 rows and not 40" in findings[0].detail

    def test_pages(self, log: tuple[Any, ArchiveTable]) -> None:
        """A damaged page is found; the readable messages are compared."""
        station, table = log
        path = table.directory / table.require().files[1].path
        data = bytearray(path.read_bytes())
        column = pq.read_metadata(path).row_group(0).column(2)
        # The dictionary is the first of the column's pages.
        data[column.dictionary_page_offset + column.total_compressed_size - 5] ^= 1
        path.write_bytes(data)
        first, *others = compared(station, table).findings
        assert (first.kind, first.first, first.last) == ("file", 41, 80)
        assert {finding.kind for finding in others} == {"missing"}

    def test_replaced(self, log: tuple[Any, ArchiveTable]) -> None:
        """A message that was replaced together with its checksum is found as well."""
        station, table = log
        path = table.directory / table.require().files[2].path
        forge(path, 90)
        pq.write_table(withChecksums(pq.read_table(path)), path)
        assert compared(station, table).findings == (
            Difference("differs", 90, 90, "has another data"),
        )


class TestChannel:
    """The findings that only our broker can report."""

    def test_readsNothing(
        self, broker: BrokerStation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If fingerprints agree, no message is read."""
        name = broker.channel(b"%d" % n for n in range(1, 101))
        table = archived(broker, tmp_path, channel=name)
        monkeypatch.setattr("natsbroker.spark.jobs.archive.archiver.batchesOf", None)
        assert compared(broker, table).findings == ()

    def test_trimmed(self, startServer: StartServer, tmp_path: Path) -> None:
        """
        Messages that retention removed from the log, and those recorded as lost, are no findings.
        """
        config = "streaming { store_limits { max_msgs: 50 } }"
        broker = BrokerStation(startServer(OURS_FAST, config))
        broker.channel([b"%d" % n for n in range(1, 51)], "c")
        table = archived(broker, tmp_path, channel="c")
        broker.fill("c", [b"x"] * 25)
        assert compared(broker, table) == Comparison((), 25, 0)
        broker.fill("c", [b"x"] * 100)
        archived(broker, tmp_path, channel="c")
        assert table.require().lost == ((51, 126),)
        assert compared(broker, table).findings == ()

    def test_otherLog(self, broker: BrokerStation, tmp_path: Path) -> None:
        """A log that was made again cannot be compared with."""
        name = broker.channel([b"x"])
        table = archived(broker, tmp_path, channel=name)
        other = tableAt(tmp_path / "other")
        other.make()
        log = replace(table.require().log, identity="0" * 16)
        other.create(TableSnapshot.first(log, 1))
        with pytest.raises(DataLoss, match="was deleted and made again since it was archived"):
            compared(broker, other)


def test_deletedSince(station: Station, tmp_path: Path) -> None:
    """
    Messages that were deleted from the log after they were archived are counted, and are no
    findings.
    """
    stream = station.stream()
    stream.fill([b"x"] * 100)
    table = archived(station, tmp_path, stream=stream.name)
    stream.delete(30, 31, 90)
    assert compared(station, table) == Comparison((), 100, 3)


def test_missingArchive(station: Station, tmp_path: Path) -> None:
    """Where there is no archive, that is the error."""
    with pytest.raises(TableError, match="there is no archive"):
        compared(station, tableAt(tmp_path))
