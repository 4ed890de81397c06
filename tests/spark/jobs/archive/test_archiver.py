"""
Archiving.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from natsbroker.spark.errors import ApiError, DataLoss, OptionError
from natsbroker.spark.jobs.archive.archiver import Archiver, FilePlan, LogOrigin, copyRange
from natsbroker.spark.jobs.common import inline
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.parquet import COLUMNS
from natsbroker.spark.tables.snapshots import TableError
from natsbroker.spark.tables.table import ArchiveTable, tableAt
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST
from tests.spark.support import BrokerStation, Station


def optionsOf(station: Station | BrokerStation, **given: str) -> dict[str, Any]:
    """Options of the data source."""
    return readOptions({"servers": station.url, **given})


def rowsOf(table: ArchiveTable) -> list[dict[str, Any]]:
    """Every message of an archive, in order."""
    files = [path.path for path in table.require().files]
    return [row for path in files for row in pq.read_table(table.directory / path).to_pylist()]


class TestChannel:
    """A channel of our broker."""

    def test_everyMessage(self, broker: BrokerStation, tmp_path: Path) -> None:
        """Every message is archived once, in consecutive files; a second run adds the new ones."""
        name = broker.channel(b"%d" % n for n in range(1, 1001))
        table = tableAt(tmp_path)
        progress: list[tuple[int, int]] = []
        archiver = Archiver(optionsOf(broker, channel=name), table, plan=FilePlan(300, 2))
        archiver.onProgress = lambda done, end: progress.append((done, end))
        archiver.once()
        snapshot = tableAt(tmp_path).require()
        assert progress == [(601, 1001), (1001, 1001)]
        assert (snapshot.version, snapshot.start, snapshot.stop, snapshot.lost) == (2, 1, 1001, ())
        assert [(file.first, file.last) for file in snapshot.files] == [
            (1, 300),
            (301, 600),
            (601, 900),
            (901, 1000),
        ]
        rows = rowsOf(table)
        assert [row["seq"] for row in rows] == list(range(1, 1001))
        assert [row["data"] for row in rows] == [b"%d" % n for n in range(1, 1001)]
        assert list(rows[0]) == [*COLUMNS, "crc32"]
        broker.fill(name, [b"more"])
        assert archiver.once().stop == 1002
        assert archiver.once().version == 3
        assert (archiver.rows, archiver.files, archiver.lost) == (1001, 5, [])

    def test_files(self, broker: BrokerStation, tmp_path: Path) -> None:
        """The table has the size and rows of each file, whose pages have checksums."""
        name = broker.channel([b"x"] * 10)
        table = tableAt(tmp_path)
        Archiver(optionsOf(broker, channel=name), table).once()
        [file] = table.require().files
        assert (file.bytes, file.rows) == ((tmp_path / file.path).stat().st_size, 10)
        data = bytearray((tmp_path / file.path).read_bytes())
        column = pq.read_metadata(tmp_path / file.path).row_group(0).column(2)
        data[column.dictionary_page_offset + column.total_compressed_size - 2] ^= 1
        with pytest.raises(OSError, match="CRC checksum verification failed"):
            pq.read_table(pa.BufferReader(bytes(data)), page_checksum_verification=True)

    def test_hold(self, startServer: StartServer, tmp_path: Path) -> None:
        """With a hold, retention waits until messages are archived, and then removes them."""
        config = "streaming { store_limits { max_msgs: 5 } }"
        broker = BrokerStation(startServer(OURS_FAST, config))
        broker.channel([b"%d" % n for n in range(1, 4)], "c")
        archiver = Archiver(optionsOf(broker, channel="c"), tableAt(tmp_path))
        table = archiver.once(hold=1000).table
        broker.fill("c", [b"%d" % n for n in range(4, 31)])
        state = broker.channels.call("INFO", "c")
        assert (state["first"], state["holds"][0]["name"]) == (4, f"archive-{table}")
        assert archiver.once(hold=1000).lost == ()
        assert [row["seq"] for row in rowsOf(tableAt(tmp_path))] == list(range(1, 31))
        state = broker.channels.call("INFO", "c")
        assert (state["first"], state["holds"][0]["floor"]) == (26, 31)

    def test_lostMessage(self, startServer: StartServer, tmp_path: Path) -> None:
        """
        A message that retention took before it was archived is recorded, and the rest is archived.
        """
        config = "streaming { store_limits { max_msgs: 5 } }"
        broker = BrokerStation(startServer(OURS_FAST, config))
        broker.channel([b"%d" % n for n in range(1, 4)], "c")
        archiver = Archiver(optionsOf(broker, channel="c"), tableAt(tmp_path), plan=FilePlan(10, 9))
        archiver.once()
        broker.fill("c", [b"%d" % n for n in range(4, 31)])
        archiver.once()
        snapshot = tableAt(tmp_path).require()
        assert (snapshot.lost, snapshot.stop) == (((4, 26),), 31)
        assert [row["seq"] for row in rowsOf(tableAt(tmp_path))] == [1, 2, 3, *range(26, 31)]
        assert [(tile.start, tile.stop) for tile in snapshot.tiles] == [(1, 4), (4, 31)]
        assert archiver.summary()["lost"] == [[4, 26]]

    def test_madeAgain(self, startServer: StartServer, tmp_path: Path) -> None:
        """A channel that was made again is refused, and the archive stays as it was."""
        config = "streaming { store_limits { max_inactivity: '1s' } }"
        broker = BrokerStation(startServer(OURS_FAST, config))
        broker.channel([b"x"], "c")
        archiver = Archiver(optionsOf(broker, channel="c"), tableAt(tmp_path))
        archiver.once()
        before = tableAt(tmp_path).require()
        broker.server.waitForLog('Channel "c" has been deleted', fromStart=True)
        with pytest.raises(ApiError, match="there is no channel c"):
            archiver.once()
        broker.channel([b"y", b"z"], "c")
        with pytest.raises(DataLoss, match="channel c was deleted and made again since it was"):
            archiver.once()
        assert tableAt(tmp_path).require() == before

    def test_racing(self, broker: BrokerStation, tmp_path: Path) -> None:
        """The loser of a race leaves no file and continues behind the winner."""
        name = broker.channel(b"%d" % n for n in range(1, 101))
        options = optionsOf(broker, channel=name)

        def slow(work: Any, tasks: Sequence[Any]) -> list[Any]:
            done = inline(work, tasks)
            if len(tasks) == 4:
                Archiver(options, tableAt(tmp_path), plan=FilePlan(30, 1)).once()
                broker.fill(name, [b"101"])
            return done

        archiver = Archiver(options, tableAt(tmp_path), slow, FilePlan(30, 4))
        archiver.once()
        archiver.once()
        snapshot = tableAt(tmp_path).require()
        assert [row["seq"] for row in rowsOf(tableAt(tmp_path))] == list(range(1, 102))
        assert (archiver.rows, snapshot.stop) == (1, 102)
        names = {f"data/{path.name}" for path in (tmp_path / "data").iterdir()}
        assert names == {file.path for file in snapshot.files}

    def test_vacuumed(self, broker: BrokerStation, tmp_path: Path) -> None:
        """A new file that is deleted before the table names it is not added."""
        name = broker.channel([b"x"] * 10)

        def robbed(work: Any, tasks: Sequence[Any]) -> list[Any]:
            done = inline(work, tasks)
            (tmp_path / done[0].files[""][0].path).unlink()
            return done

        with pytest.raises(TableError, match="was deleted before the table named it"):
            Archiver(optionsOf(broker, channel=name), tableAt(tmp_path), robbed).once()
        assert tableAt(tmp_path).require().files == ()

    def test_endOnRequest(self, broker: BrokerStation, tmp_path: Path) -> None:
        """An archiver that is asked to end does so after the present version."""
        name = broker.channel([b"x"] * 100)
        isOver: list[bool] = []
        options = optionsOf(broker, channel=name)
        archiver = Archiver(options, tableAt(tmp_path), plan=FilePlan(10, 2))
        archiver.onProgress = lambda done, end: isOver.append(True)
        archiver.isOver = lambda: bool(isOver)
        assert archiver.once().stop == 21


class TestStream:
    """A stream of nats-server."""

    def test_everyMessageOfAStream(self, station: Station, tmp_path: Path) -> None:
        """
        Every message of a stream is archived with its headers. Only purged messages count as lost.
        """
        stream = station.stream()
        stream.add("a", b"one", {"K": "v"})
        stream.fill([b"%d" % n for n in range(2, 21)])
        stream.delete(5, 6)
        archiver = Archiver(
            optionsOf(station, stream=stream.name), tableAt(tmp_path), plan=FilePlan(7)
        )
        assert archiver.once().lost == ()
        rows = rowsOf(tableAt(tmp_path))
        assert [row["seq"] for row in rows] == [1, 2, 3, 4, *range(7, 21)]
        assert rows[0]["headers"] == [{"key": "K", "value": "v"}]
        assert rows[0]["subject"] == f"{stream.name}.a"
        stream.fill([b"x"] * 10)
        stream.api("PURGE", {"seq": 26})
        assert archiver.once().lost == ((21, 26),)
        assert archiver.rows == 23

    def test_noHold(self, station: Station, tmp_path: Path) -> None:
        """nats-server has no holds, so no message is archived."""
        stream = station.stream()
        archiver = Archiver(optionsOf(station, stream=stream.name), tableAt(tmp_path))
        with pytest.raises(OptionError, match="hold: only channels of our broker can be held"):
            archiver.once(hold=10)
        assert tableAt(tmp_path).latest() is None

    def test_emptyStream(self, station: Station, tmp_path: Path) -> None:
        """
        A stream without messages gives an archive without files, with the same first sequence.
        """
        stream = station.stream(first_seq=50)
        archiver = Archiver(optionsOf(station, stream=stream.name), tableAt(tmp_path))
        archiver.once()
        snapshot = tableAt(tmp_path).require()
        assert (snapshot.version, snapshot.start, snapshot.stop) == (0, 50, 50)

    def test_otherLog(self, station: Station, tmp_path: Path) -> None:
        """An archive of one stream refuses another stream."""
        one, two = station.stream(), station.stream()
        Archiver(optionsOf(station, stream=one.name), tableAt(tmp_path)).once()
        with pytest.raises(OptionError, match=f"is an archive of stream {one.name}"):
            Archiver(optionsOf(station, stream=two.name), tableAt(tmp_path)).once()

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ({"stream": "A,B"}, "name exactly one stream or channel to archive"),
            ({"channel": "a.*"}, "name exactly one stream or channel to archive"),
            ({"stream": "A", "subject": "x"}, "an archive must have every message of its log"),
            ({}, "name at least one stream or channel"),
        ],
    )
    def test_notOneWholeLog(self, given: dict[str, str], text: str, tmp_path: Path) -> None:
        """A selection of several logs, or of a part of one, is refused."""
        with pytest.raises(OptionError, match=text):
            Archiver(readOptions({"servers": "h", **given}), tableAt(tmp_path))


class TestFiles:
    """Writing a file."""

    def test_writeFails(self, broker: BrokerStation, tmp_path: Path) -> None:
        """A file that cannot be written whole is an error with its reason, and leaves nothing."""
        name = broker.channel([b"x" * 1000] * 2000)
        options = optionsOf(broker, channel=name)
        table = tableAt(tmp_path)
        archiver = Archiver(options, table)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        table.make()
        state = broker.channels.state(name)
        bounds = SequenceRange(name, state.created, 1, 2001)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
            with pytest.raises(TableError, match="File too large"):
                copyRange(LogOrigin(options), tmp_path, "", bounds)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        assert list((tmp_path / "data").iterdir()) == []
        archiver.once()
        assert archiver.rows == 2000
