"""
An archive and its log as one table.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from natsbroker.spark import cli
from natsbroker.spark.errors import DataLoss, OptionError
from natsbroker.spark.jobs.archive import tiering
from natsbroker.spark.jobs.archive.archiver import FilePlan
from natsbroker.spark.jobs.archive.job import archive
from natsbroker.spark.jobs.archive.tiering import archived, tiered
from natsbroker.spark.jobs.archive.verify import following, verified
from natsbroker.spark.tables.parquet import ArchiveDamaged
from natsbroker.spark.tables.snapshots import Log, TableError, TableSnapshot
from natsbroker.spark.tables.table import tableAt
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST
from tests.spark.support import BrokerStation, Station
from tests.spark.tablecontract import forge


def seqsOf(frame: Any) -> list[int]:
    """The sequences in a DataFrame."""
    return sorted(row.seq for row in frame.select("seq").collect())


def test_bothSides(spark: Any, broker: BrokerStation, station: Station, tmp_path: Path) -> None:
    """Each message comes once: from the archive up to its end, and then from the log."""
    name = broker.channel([b"old"] * 50)
    stream = station.stream()
    stream.fill([b"old"] * 50)
    for form, given in (
        ("", {"servers": broker.url, "channel": name}),
        ("delta", {"servers": station.url, "stream": stream.name}),
    ):
        root = str(tmp_path / str(len(list(tmp_path.iterdir()))))
        archive(None, given, root, form=form)
        source = {"servers": given["servers"]}
        assert seqsOf(tiered(spark, root, source)) == list(range(1, 51))
        if "channel" in given:
            broker.fill(name, [b"new"] * 25)
        else:
            stream.fill([b"new"] * 25)
        frame = tiered(spark, root, source)
        assert seqsOf(frame) == list(range(1, 76))
        assert frame.where("seq > 50 AND string(data) = 'new'").count() == 25
        assert archived(spark, root).count() == 50


def test_objects(spark: Any, broker: BrokerStation, bucket: str) -> None:
    """
    An archive in an object store: tasks read and check it, jobs work on it, and its log goes on
    behind it.
    """
    name = broker.channel(b"%d" % n for n in range(1, 51))
    root = f"{bucket}/lake/log"
    given = {"servers": broker.url, "channel": name}
    assert archive(spark, given, root, plan=FilePlan(20))["files"] == 3
    broker.fill(name, [b"new"] * 25)
    frame = tiered(spark, root, {"servers": broker.url})
    assert seqsOf(frame) == list(range(1, 76))
    assert frame.where("seq <= 50 AND int(string(data)) = seq").count() == 50
    assert (verified(None, given, root)["findings"], archived(spark, root).count()) == ([], 50)
    [row] = archived(spark, root, ("headers", "data", "seq")).where("seq = 7").collect()
    assert tuple(row) == ([], b"7", 7)
    table = tableAt(root)
    (table.root / table.require().files[1].path).unlink()
    with pytest.raises(PySparkException, match="is damaged: file: sequences 21 to 40"):
        archived(spark, root).count()


def test_onlyOneOfThem(spark: Any, startServer: StartServer, tmp_path: Path) -> None:
    """
    A message that retention removed comes from the archive. A gap between the two is an error.
    """
    config = "streaming { store_limits { max_msgs: 10 } }"
    broker = BrokerStation(startServer(OURS_FAST, config))
    broker.channel([b"x"] * 10, "c")
    source = {"servers": broker.url}
    archive(None, {**source, "channel": "c"}, str(tmp_path))
    broker.fill("c", [b"x"] * 10)
    assert seqsOf(tiered(spark, str(tmp_path), source)) == list(range(1, 21))
    broker.fill("c", [b"x"] * 5)
    with pytest.raises(DataLoss, match="sequences 11 to 15 are neither in the archive nor stored"):
        tiered(spark, str(tmp_path), source)
    frame = tiered(spark, str(tmp_path), {**source, "failOnDataLoss": "false"})
    assert seqsOf(frame) == [*range(1, 11), *range(16, 26)]


def test_empty(spark: Any, station: Station, tmp_path: Path) -> None:
    """An archive without messages is no error."""
    stream = station.stream()
    given = {"servers": station.url, "stream": stream.name}
    archive(None, given, str(tmp_path), form="iceberg")
    assert archived(spark, str(tmp_path)).count() == 0
    stream.fill([b"x"])
    assert tiered(spark, str(tmp_path), {"servers": station.url}).count() == 1


def test_anotherLogOrNoArchive(spark: Any, broker: BrokerStation, tmp_path: Path) -> None:
    """An archive of another log, one with another beginning, and a missing one are refused."""
    source = {"servers": broker.url}
    with pytest.raises(TableError, match="there is no archive"):
        tiered(spark, str(tmp_path), source)
    name = broker.channel([b"x"])
    archive(None, {**source, "channel": name}, str(tmp_path))
    with pytest.raises(OptionError, match="from where the archive stops"):
        tiered(spark, str(tmp_path), {**source, "startingOffsets": "1"})
    table = tableAt(tmp_path / "other")
    table.make()
    table.create(TableSnapshot.first(Log("channel", name, "test-cluster", "0" * 16), 1))
    with pytest.raises(DataLoss, match="was deleted and made again since it was archived"):
        tiered(spark, str(table.directory), source)


def test_archivedMeanwhile(
    spark: Any, broker: BrokerStation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message comes once, also if it is archived during the query."""
    name = broker.channel([b"x"] * 10)
    source = {"servers": broker.url}
    archive(None, {**source, "channel": name}, str(tmp_path))
    broker.fill(name, [b"y"] * 10)

    def late(*given: Any) -> Any:
        archive(None, {**source, "channel": name}, str(tmp_path))
        return following(*given)

    monkeypatch.setattr(tiering, "following", late)
    assert seqsOf(tiered(spark, str(tmp_path), source)) == list(range(1, 21))


def test_damaged(spark: Any, broker: BrokerStation, tmp_path: Path) -> None:
    """A message that differs from the archived one is an error with its sequence."""
    name = broker.channel([b"%d" % n for n in range(1, 11)])
    archive(None, {"servers": broker.url, "channel": name}, str(tmp_path))
    assert archived(spark, str(tmp_path)).count() == 10
    [file] = tableAt(tmp_path).require().files
    forge(tmp_path / file.path, 4)
    with pytest.raises(ArchiveDamaged, match="damaged: sequences 4 to 4: is not what was archived"):
        archived(spark, str(tmp_path))
    (tmp_path / file.path).unlink()
    with pytest.raises(ArchiveDamaged, match=r"file: sequences 1 to 10: data/.*No such file"):
        tiered(spark, str(tmp_path), {"servers": broker.url})


def test_command(
    spark: Any, broker: BrokerStation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to an SQL query is printed in JSON, one line a row."""

    class Lent:
        """The session of the tests, which is not stopped."""

        sql = spark.sql
        createDataFrame = spark.createDataFrame
        sparkContext = spark.sparkContext
        read = property(lambda self: spark.read)

        def stop(self) -> None:
            """Do nothing."""

    monkeypatch.setattr("natsbroker.spark.session", lambda *given: Lent())
    name = broker.channel([b"x"] * 3)
    archive(None, {"servers": broker.url, "channel": name}, str(tmp_path))
    broker.fill(name, [b"y"] * 2)
    arguments = ("tiered", "--servers", broker.url, "--archive", str(tmp_path))
    out, err = io.StringIO(), io.StringIO()
    question = "SELECT string(data) AS d, count(*) AS n FROM log GROUP BY 1 ORDER BY 1"
    assert cli.main((*arguments, "--sql", question), out, err) == 0, err.getvalue()
    *rows, last = map(json.loads, out.getvalue().splitlines())
    assert rows == [{"d": "x", "n": 3}, {"d": "y", "n": 2}]
    assert (last["job"], last["result"], last["rows"]) == ("tiered", "done", 2)
    out, err = io.StringIO(), io.StringIO()
    assert cli.main((*arguments, "--sql", "SELECT nothing FROM log"), out, err) == 3
    assert "nothing" in json.loads(out.getvalue())["error"]
    assert tiering.main(("--servers", "h"), io.StringIO(), err) == 2
