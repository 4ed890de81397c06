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
from natsbroker.spark.jobs.archive.verify import Comparison, Difference, verify
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.filing import writeFile
from natsbroker.spark.tables.formats import tableAt
from natsbroker.spark.tables.manifests import TableError
from natsbroker.spark.tables.table import ArchiveTable
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST
from tests.spark.support import BrokerStation, Station


def archived(
    station: Station | BrokerStation, root: Path, form: str = "", **given: str
) -> ArchiveTable:
    """An archive of a log, in files of 40."""
    table = tableAt(root, form)
    Archiver(readOptions({"servers": station.url, **given}), table, plan=FilePlan(40, 9)).once()
    return table


def compared(station: Station | BrokerStation, table: ArchiveTable, block: int = 16) -> Comparison:
    """What comes of comparing."""
    return verify(readOptions({"servers": station.url}), table, block=block)[1]


def forge(table: ArchiveTable, place: int, change: Any) -> None:
    """Put a file with other rows into an archive, as whole as any."""
    manifest = table.require()
    old = manifest.files[place]
    rows = pq.read_table(table.root / old.path)
    new = writeFile(table.root, change(rows).to_batches(), old.start, old.stop)
    assert table.commit(manifest.replaced([old], [new], 1.0))


def without(*seqs: int) -> Any:
    """Leaves out some rows."""

    def change(rows: Any) -> Any:
        return rows.filter(pa.array([each not in seqs for each in rows["seq"].to_pylist()]))

    return change


def otherData(seq: int) -> Any:
    """Gives one row other data."""

    def change(rows: Any) -> Any:
        data = [
            b"forged" if number == seq else each
            for number, each in zip(rows["seq"].to_pylist(), rows["data"].to_pylist(), strict=True)
        ]
        place = rows.schema.get_field_index("data")
        return rows.set_column(place, rows.schema.field(place), pa.array(data, pa.binary()))

    return change


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
    def test_same(self, log: tuple[Any, ArchiveTable], block: int) -> None:
        """An archive that was just made has no findings, whatever the blocks are."""
        station, table = log
        found = compared(station, table, block)
        assert found == Comparison((), table.require().rows, 0)

    def test_missing(self, log: tuple[Any, ArchiveTable]) -> None:
        """What is stored and not in the archive is found, in runs."""
        station, table = log
        forge(table, 0, without(5, 6, 7, 20))
        assert compared(station, table).findings == (
            Difference("missing", 5, 7, "is stored and not in the archive"),
            Difference("missing", 20, 20, "is stored and not in the archive"),
        )

    def test_differs(self, log: tuple[Any, ArchiveTable]) -> None:
        """What was archived otherwise is found."""
        station, table = log
        forge(table, 2, otherData(90))
        assert compared(station, table).findings == (
            Difference("differs", 90, 90, "has another data"),
        )

    def test_files(self, log: tuple[Any, ArchiveTable]) -> None:
        """A file that is gone, or is not as it was written, is found before it is read."""
        station, table = log
        files = table.require().files
        (table.root / files[0].path).unlink()
        data = bytearray((table.root / files[1].path).read_bytes())
        data[100] ^= 1
        (table.root / files[1].path).write_bytes(data)
        with open(table.root / files[2].path, "ab") as file:
            file.write(b"x")
        found = compared(station, table).findings
        assert [(each.kind, each.first, each.last) for each in found] == [
            ("file", 1, 40),
            ("file", 41, 80),
            ("file", 81, 100),
        ]
        for each, text in zip(found, ("No such file", "other bytes", "bytes and not"), strict=True):
            assert text in each.detail


class TestChannel:
    """What only our broker does."""

    def test_readsNothing(
        self, broker: BrokerStation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where fingerprints agree no message is read."""
        name = broker.channel(b"%d" % n for n in range(1, 101))
        table = archived(broker, tmp_path, channel=name)
        monkeypatch.setattr("natsbroker.spark.jobs.archive.verify.batchesOf", None)
        assert compared(broker, table).findings == ()

    def test_trimmed(self, startServer: StartServer, tmp_path: Path) -> None:
        """What retention took since it was archived is no finding; neither is what was lost."""
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
        manifest = table.require()
        other = replace(manifest, log=replace(manifest.log, identity="0" * 16), version=9)
        assert table.commit(other)
        with pytest.raises(DataLoss, match="was deleted and made again since it was archived"):
            compared(broker, table)


def test_deletedSince(station: Station, tmp_path: Path) -> None:
    """What the log has deleted since it was archived is counted, and no finding."""
    stream = station.stream()
    stream.fill([b"x"] * 100)
    table = archived(station, tmp_path, stream=stream.name)
    stream.delete(30, 31, 90)
    assert compared(station, table) == Comparison((), 100, 3)


def test_missingArchive(station: Station, tmp_path: Path) -> None:
    """Where there is no archive, that is the error."""
    with pytest.raises(TableError, match="there is no archive"):
        compared(station, tableAt(tmp_path))
