"""
Decoding a log into tables.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from natsbroker.spark.codecs.datatypes import ddlText
from natsbroker.spark.codecs.mappings import readMappings
from natsbroker.spark.codecs.registry import RegistryAccess
from natsbroker.spark.errors import DataLoss, DataSourceError, OptionError
from natsbroker.spark.jobs.archive.archiver import ArchiveOrigin, FilePlan
from natsbroker.spark.jobs.archive.tidying import compact
from natsbroker.spark.jobs.common import inline
from natsbroker.spark.jobs.decode.decoder import TableDecoder, TableOptions
from natsbroker.spark.tables.delta import DeltaLakeTable
from tests.spark.logged import extended
from tests.spark.registries import registryServer

ORDERS = 'orders.*=json:"id BIGINT NOT NULL, item STRING"'
SENSORS = 'sensor.>=json:"v DOUBLE"'


def order(number: int) -> tuple[str, bytes]:
    """A message."""
    return "orders.de", json.dumps({"id": number, "item": "cup"}).encode()


def decoderOf(tmp_path: Path, *texts: str, **more: Any) -> TableDecoder:
    """The decoder of the archive."""
    mappings = readMappings(texts or [ORDERS, SENSORS], more.pop("names", {}))
    origin = ArchiveOrigin.of(str(tmp_path / "log"))
    return TableDecoder(origin, str(tmp_path / "to"), mappings, **more)


def rowsOf(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table, in the order of its files."""
    table = DeltaLakeTable(tmp_path / "to" / name)
    paths = [file.path for file in table.require().files]
    return [row for x in paths for row in pq.read_table(table.directory / x).to_pylist()]


def seqsOf(tmp_path: Path, name: str) -> list[int]:
    """The sequences of its rows."""
    return [row["seq"] for row in rowsOf(tmp_path, name)]


class TestTables:
    """The content of the tables."""

    def test_everyMessage(self, tmp_path: Path) -> None:
        """Each message is a row of its table or a dead letter, with its place and bytes."""
        messages = [
            order(1),
            ("sensor.a.b", b'{"v": 1.5}'),
            ("orders.fr", b'{"id": "x"}'),
            ("other", b"\xff\x00"),
            order(5),
        ]
        extended(tmp_path / "log", messages)
        decoder = decoderOf(tmp_path, plan=FilePlan(2, 2))
        assert decoder.once() == 6
        first, second = rowsOf(tmp_path, "orders_any")
        assert (first["seq"], first["subject"], first["id"], first["item"]) == (
            1,
            "orders.de",
            1,
            "cup",
        )
        assert first["time"].timestamp() == pytest.approx(1_700_000_000.000001, abs=1e-6)
        assert (second["seq"], second["id"]) == (5, 5)
        [sensor] = rowsOf(tmp_path, "sensor_all")
        assert (sensor["seq"], sensor["v"]) == (2, 1.5)
        [dead] = rowsOf(tmp_path, "orders_any__dlq")
        assert {**dead, "time": None, "crc32": None} == {
            "crc32": None,
            "seq": 3,
            "subject": "orders.fr",
            "data": b'{"id": "x"}',
            "time": None,
            "headers": [{"key": "K", "value": "3"}],
            "time_ns": 1_700_000_000_000_003_003,
            "stream": "LOG",
            "reason": "Expected `int`, got `str` - at `$.id`",
            "schema": ORDERS,
        }
        [other] = rowsOf(tmp_path, "others__dlq")
        assert (other["seq"], other["data"], other["schema"]) == (4, b"\xff\x00", None)
        assert other["reason"] == "there is no schema for its subject"
        assert rowsOf(tmp_path, "sensor_all__dlq") == []
        assert decoder.summary() == {
            "tables": {
                "orders_any": 2,
                "orders_any__dlq": 1,
                "others__dlq": 1,
                "sensor_all": 1,
                "sensor_all__dlq": 0,
            },
            "stop": 6,
            "dead": 2,
            "ignored": 0,
            "lost": [],
            "first": {"seq": 3, "reason": "Expected `int`, got `str` - at `$.id`"},
        }

    def test_begun(self, tmp_path: Path) -> None:
        """A decoder knows whether its tables already exist."""
        extended(tmp_path / "log", [order(1)])
        assert not decoderOf(tmp_path).hasBegun()
        decoderOf(tmp_path).once()
        assert decoderOf(tmp_path).hasBegun()

    def test_registryAway(self, tmp_path: Path) -> None:
        """A registry that fails ends the job; a message with an unknown schema is a dead letter."""
        extended(
            tmp_path / "log", [("orders.de", bytes((0, 0, 0, 0, number))) for number in (1, 2)]
        )
        with registryServer() as server:
            schema = {"schema": '{"type": "record", "name": "R", "fields": []}'}
            server.answers = {
                "/subjects/s/versions/latest": {"id": 1, "schema": ""},
                "/schemas/ids/1": schema,
            }
            access = RegistryAccess(server.url)
            mappings = readMappings(["orders.*=registry:s"], {}, True, access)
            origin = ArchiveOrigin.of(str(tmp_path / "log"))
            decoder = TableDecoder(origin, str(tmp_path / "to"), mappings)
            server.failures = [401]
            with pytest.raises(DataSourceError, match="401"):
                decoder.once()
            assert decoder.once() == 3
        assert seqsOf(tmp_path, "orders_any") == [1]
        [dead] = rowsOf(tmp_path, "orders_any__dlq")
        assert dead["seq"] == 2
        assert "there is no /schemas/ids/2" in dead["reason"]

    def test_unmappedSubjects(self, tmp_path: Path) -> None:
        """Messages without a schema can be passed over, and are counted."""
        extended(tmp_path / "log", [order(1), ("other", b"x"), ("other", b"y")])
        decoder = decoderOf(tmp_path, options=TableOptions(areOthersKept=False))
        decoder.once()
        assert (decoder.ignored, decoder.dead) == (2, 0)
        assert not (tmp_path / "to" / "others__dlq").exists()

    def test_firstMatches(self, tmp_path: Path) -> None:
        """The first schema whose pattern matches has the message."""
        extended(tmp_path / "log", [("a.b", b'{"x": 1}'), ("a.c", b'{"y": 2}')])
        decoderOf(tmp_path, 'a.b=json:"x INT"', 'a.>=json:"y INT"').once()
        assert (seqsOf(tmp_path, "a_b"), seqsOf(tmp_path, "a_all")) == ([1], [2])

    def test_prefix(self, tmp_path: Path) -> None:
        """A schema with the names of the coordinates is refused, unless these get others."""
        extended(tmp_path / "log", [("a", b'{"Time": 7}')])
        with pytest.raises(
            OptionError,
            match="has a column Time, and so has each table: rename the table's with --prefix",
        ):
            decoderOf(tmp_path, 'a=json:"Time INT"')
        decoderOf(tmp_path, 'a=json:"Time INT"', options=TableOptions("nb_")).once()
        [row] = rowsOf(tmp_path, "a")
        assert list(row) == ["nb_seq", "nb_subject", "nb_time", "Time"]
        assert row["Time"] == 7

    def test_noColumns(self, tmp_path: Path) -> None:
        """Large and numerous payloads are decoded in batches of limited size."""
        big = b'{"item": "' + b"x" * 300_000 + b'", "id": 1}'
        extended(tmp_path / "log", [("orders.de", big)] * 9 + [order(n) for n in range(3000)])
        decoderOf(tmp_path, ORDERS).once()
        assert seqsOf(tmp_path, "orders_any") == list(range(1, 3010))

    def test_lostMessage(self, tmp_path: Path) -> None:
        """A message that the log has lost is recorded as lost in each table."""
        extended(tmp_path / "log", [order(1)], [(2, 10)])
        extended(tmp_path / "log", [order(10)])
        decoder = decoderOf(tmp_path, plan=FilePlan(4, 1))
        assert decoder.once() == 11
        assert decoder.summary()["lost"] == [[2, 10]]
        for name in ("orders_any", "orders_any__dlq", "others__dlq"):
            assert DeltaLakeTable(tmp_path / "to" / name).require().lost == ((2, 10),)

    def test_deadLettersAreAnArchive(self, tmp_path: Path) -> None:
        """
        Dead letters have the columns of an archive, so that they can be decoded with another
        schema.
        """
        extended(tmp_path / "log", [order(1), ("orders.de", b'{"id": 2, "new": true}')])
        decoderOf(tmp_path, ORDERS).once()
        again = readMappings(['orders.*=json:"id BIGINT, new BOOLEAN"'], {})
        origin = ArchiveOrigin.of(str(tmp_path / "to" / "orders_any__dlq"))
        TableDecoder(origin, str(tmp_path / "again"), again).once()
        [file] = DeltaLakeTable(tmp_path / "again" / "orders_any").require().files
        [row] = pq.read_table(tmp_path / "again" / "orders_any" / file.path).to_pylist()
        assert (row["seq"], row["id"], row["new"]) == (2, 2, True)


class TestAgain:
    """Several runs, one after another."""

    def test_goesOn(self, tmp_path: Path) -> None:
        """A second run adds the new messages, and no others."""
        extended(tmp_path / "log", [order(n) for n in range(1, 6)])
        decoderOf(tmp_path).once()
        extended(tmp_path / "log", [order(6)])
        decoder = decoderOf(tmp_path)
        assert decoder.once() == 7
        assert decoder.added["orders_any"] == 1
        assert seqsOf(tmp_path, "orders_any") == [1, 2, 3, 4, 5, 6]

    def test_newTable(self, tmp_path: Path) -> None:
        """A new schema decodes from the beginning. The other tables stay as they are."""
        extended(tmp_path / "log", [order(1), ("sensor.a", b'{"v": 2}'), order(3)])
        decoderOf(tmp_path, ORDERS, plan=FilePlan(2, 1)).once()
        extended(tmp_path / "log", [("sensor.b", b'{"v": 4}'), order(5)])
        decoder = decoderOf(tmp_path, ORDERS, SENSORS, plan=FilePlan(2, 2))
        assert decoder.once() == 6
        assert seqsOf(tmp_path, "orders_any") == [1, 3, 5]
        assert seqsOf(tmp_path, "sensor_all") == [2, 4]
        # From where the first run had stopped, both go on together.
        for name, starts in (("orders_any", [1, 3, 4]), ("sensor_all", [1, 4])):
            files = DeltaLakeTable(tmp_path / "to" / name).require().files
            assert [int(file.path[5:25]) for file in files] == starts
        assert seqsOf(tmp_path, "others__dlq") == [2]

    def test_otherLog(self, tmp_path: Path) -> None:
        """A table is of one log, which was not made again."""
        extended(tmp_path / "log", [order(1)])
        decoderOf(tmp_path).once()
        (tmp_path / "log").rename(tmp_path / "old")
        extended(tmp_path / "log", [order(1), order(2)], identity="two")
        with pytest.raises(DataLoss, match="stream LOG was deleted and made again"):
            decoderOf(tmp_path).once()
        assert seqsOf(tmp_path, "orders_any") == [1]

    def test_endOnRequest(self, tmp_path: Path) -> None:
        """A decoder that is asked to end does so after the present versions."""
        extended(tmp_path / "log", [order(n) for n in range(20)])
        told: list[tuple[int, int]] = []
        decoder = decoderOf(tmp_path, plan=FilePlan(3, 2))
        decoder.onProgress = lambda *now: told.append(now)
        decoder.isOver = lambda: bool(told)
        assert decoder.once() == 7
        assert told == [(7, 21)]

    def test_racing(self, tmp_path: Path) -> None:
        """
        With two decoders at once, each message is stored once, and the loser's files are removed.
        """
        extended(tmp_path / "log", [order(n) for n in range(30)])

        def slow(work: Any, tasks: Sequence[Any]) -> list[Any]:
            done = inline(work, tasks)
            if len(tasks) == 3:
                decoderOf(tmp_path, plan=FilePlan(7, 2)).once()
            return done

        decoder = decoderOf(tmp_path, run=slow, plan=FilePlan(5, 3))
        decoder.once()
        assert decoder.added["orders_any"] == 0
        assert seqsOf(tmp_path, "orders_any") == list(range(1, 31))
        table = DeltaLakeTable(tmp_path / "to" / "orders_any")
        there = {f"data/{path.name}" for path in (table.directory / "data").iterdir()}
        assert there == {file.path for file in table.require().files}

    def test_killedBetween(self, tmp_path: Path) -> None:
        """
        A decoder that is killed between the commits of two tables continues without loss or
        duplicates.
        """
        extended(tmp_path / "log", [order(1), ("orders.de", b"?"), ("x", b""), order(4), order(5)])

        class Killed(BaseException):
            """The end of a process by a signal."""

        def append(self: DeltaLakeTable, *given: Any) -> bool:
            if self.root.name == "sensor_all":
                raise Killed
            return bool(before(self, *given))

        before = DeltaLakeTable.append
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DeltaLakeTable, "append", append)
            with pytest.raises(Killed):
                decoderOf(tmp_path, plan=FilePlan(2, 1)).once()
        assert seqsOf(tmp_path, "orders_any") == [1]
        assert decoderOf(tmp_path, plan=FilePlan(3, 1)).once() == 6
        assert seqsOf(tmp_path, "orders_any") == [1, 4, 5]
        assert seqsOf(tmp_path, "orders_any__dlq") == [2]
        assert seqsOf(tmp_path, "others__dlq") == [3]


class TestSchemas:
    """Schemas that change between two runs."""

    def run(self, tmp_path: Path, ddl: str, *payloads: bytes) -> TableDecoder:
        """Decode some more messages with a schema."""
        extended(tmp_path / "log", [("a", payload) for payload in payloads])
        decoder = decoderOf(tmp_path, f'a=json:"{ddl}"')
        decoder.once()
        return decoder

    def test_newColumn(self, tmp_path: Path) -> None:
        """A new column is null in earlier rows, and a removed one in later rows."""
        self.run(tmp_path, "x INT NOT NULL, y STRUCT<p: INT>", b'{"x": 1, "y": {"p": 2}}')
        self.run(tmp_path, "z STRING, y STRUCT<q: INT>", b'{"z": "new", "y": {"q": 3}}')
        table = DeltaLakeTable(tmp_path / "to" / "a")
        written = ddlText(table.columns())
        assert written.endswith("time TIMESTAMP, x INT, y STRUCT<p: INT, q: INT>, z STRING")
        first, second = rowsOf(tmp_path, "a")
        assert (first["x"], first["y"]) == (1, {"p": 2})
        assert (second["x"], second["y"], second["z"]) == (None, {"p": None, "q": 3}, "new")

    def test_narrower(self, tmp_path: Path) -> None:
        """Values of a narrower type fit into an existing column."""
        self.run(tmp_path, "x BIGINT, y DOUBLE", b'{"x": 1, "y": 2}')
        decoder = self.run(tmp_path, "x INT, y FLOAT", b'{"x": 3, "y": 0.5}')
        assert decoder.clashes == {}
        assert [(row["x"], row["y"]) for row in rowsOf(tmp_path, "a")] == [(1, 2.0), (3, 0.5)]

    def test_clash(self, tmp_path: Path) -> None:
        """
        If the type of a column changes, every message becomes a dead letter, and the table stays.
        """
        self.run(tmp_path, "x INT", b'{"x": 1}')
        decoder = self.run(tmp_path, "x STRING", b'{"x": "two"}')
        reason = "column x is INT in the table and STRING now"
        assert decoder.summary()["clashes"] == {"a": reason}
        [dead] = rowsOf(tmp_path, "a__dlq")
        assert (dead["seq"], dead["data"]) == (2, b'{"x": "two"}')
        assert dead["reason"] == f"the schema does not fit the table: {reason}"
        assert seqsOf(tmp_path, "a") == [1]
        self.run(tmp_path, "x INT", b'{"x": 3}')
        assert seqsOf(tmp_path, "a") == [1, 3]

    def test_compact(self, tmp_path: Path) -> None:
        """Tables are compacted with all their columns, also later ones."""
        self.run(tmp_path, "x INT, y STRUCT<p: INT>", b'{"x": 1, "y": {"p": 2}}', b"wrong")
        self.run(tmp_path, "z STRING, y STRUCT<q: INT>", b'{"z": "new", "y": {"q": 3}}', b"so")
        dead = rowsOf(tmp_path, "a__dlq")
        for name in ("a", "a__dlq"):
            table = DeltaLakeTable(tmp_path / "to" / name)
            assert compact(table) == 2
            [file] = table.require().files
            assert file.rows == 2
        assert sorted(rowsOf(tmp_path, "a__dlq"), key=itemgetter("seq")) == dead
        rows = sorted(rowsOf(tmp_path, "a"), key=itemgetter("seq"))
        assert [(row["seq"], row["x"], row["z"]) for row in rows] == [
            (1, 1, None),
            (3, None, "new"),
        ]
        assert [row["y"] for row in rows] == [
            {"p": 2, "q": None},
            {"p": None, "q": 3},
        ]
