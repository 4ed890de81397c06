"""
The job C{replay}.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from natsbroker.spark import cli
from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.jobs.replay.job import replay
from natsbroker.spark.jobs.replay.replayer import ReplayOptions
from natsbroker.spark.jobs.replay.sources import LogSource, SqlSource
from tests.spark.jobs.replayed import parquet, payloads
from tests.spark.replaykilling import isWhole, rounds
from tests.spark.support import Station, Stream


def ran(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the line of JSON, and standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(("replay", *arguments), out, err)
    lines = out.getvalue().splitlines()
    return code, json.loads(lines[-1]) if lines else {}, err.getvalue()


def command(station: Station, source: Stream, target: Stream, *more: str) -> tuple[str, ...]:
    """The arguments of a replay from a stream to another one, here."""
    maps = ("--map", f"{source.name}.>={target.name}.>", "--master", "inline")
    to = ("--to-servers", station.url, "--to-stream", target.name)
    return ("--servers", station.url, "--stream", source.name, *to, *maps, *more)


def filled(station: Station, count: int = 9) -> Stream:
    """A stream whose messages are of three subjects."""
    stream = station.stream()
    for number in range(1, count + 1):
        stream.add(f"s{number % 3}", b"%d" % number)
    return stream


class TestHere:
    """Without Spark."""

    def test_resumedReplay(self, station: Station) -> None:
        """Every row is published once. The same command later publishes the new ones."""
        source, target = filled(station), station.stream(duplicate_window=100_000_000)
        code, summary, errors = ran(*command(station, source, target))
        assert (code, errors) == (0, "")
        name = summary.pop("name")
        assert name.startswith("replay-")
        assert summary.pop("seconds") >= 0
        assert summary == {
            "job": "replay",
            "result": "done",
            "stop": 10,
            "rows": 9,
            "duplicates": 0,
            "found": 0,
            "tasks": 1,
            "resumed": 1,
            "stopped": False,
        }
        source.fill([b"10"])
        summary = ran(*command(station, source, target))[1]
        assert (summary["name"], summary["rows"], summary["resumed"]) == (name, 1, 10)
        assert payloads(station, target) == list(range(1, 11))

    def test_condition(self, station: Station) -> None:
        """
        Jobs with different conditions have different names. A finished job publishes nothing again.
        """
        source, target = filled(station), station.stream()
        where = ("--where", f"subject = '{source.name}.s1' AND seq > 2")
        names = {ran(*command(station, source, target, *where))[1]["name"] for _ in range(2)}
        assert len(names) == 1
        assert payloads(station, target) == [4, 7]
        code, summary, _ = ran(*command(station, source, target, "--job", "mine", "--no-ledger"))
        assert (code, summary["name"], summary["rows"], summary["duplicates"]) == (0, "mine", 9, 2)
        assert payloads(station, target) == [4, 7, 1, 2, 3, 5, 6, 8, 9]

    def test_dryRun(self, station: Station) -> None:
        """
        A dry run publishes nothing and prints the counts. A row that the stream would refuse makes
        the exit status 1.
        """
        source, target = filled(station), station.stream()
        code, summary, _ = ran(*command(station, source, target, "--dry-run", "--where", "seq > 4"))
        assert (code, summary["would"], summary["untaken"]) == (0, 5, 0)
        arguments = command(station, source, target, "--dry-run", "--map", "a=b")
        code, summary, _ = ran(
            *(argument.replace(f"{target.name}.>", "other.>") for argument in arguments)
        )
        assert (code, summary["result"], summary["untaken"]) == (1, "found", 9)
        assert summary["examples"][0].startswith("other.s")
        assert station.streams.state(target.name).messages == 0

    def test_parquet(self, station: Station, tmp_path: Path) -> None:
        """Parquet files are replayed by ascending sequence, with a given name of the origin."""
        target = station.stream()
        row = {"subject": f"{target.name}.x", "data": b"7"}
        parquet(tmp_path, [{**row, "seq": 2}, {**row, "seq": 1}])
        to = ("--to-servers", station.url, "--to-stream", target.name, "--master", "inline")
        code, summary, _ = ran("--parquet", str(tmp_path), "--origin", "files", *to)
        assert (code, summary["rows"], summary["stop"]) == (0, 2, None)
        hdrs = station.streams.call(f"STREAM.MSG.GET.{target.name}", {"seq": 1}, "")
        assert hdrs["message"]["subject"] == f"{target.name}.x"

    def test_archive(self, station: Station, tmp_path: Path) -> None:
        """An archive that is not there is the error."""
        to = ("--to-servers", station.url, "--to-stream", "S", "--master", "inline")
        code, summary, _ = ran("--archive", str(tmp_path), *to)
        assert (code, "there is no archive" in summary["error"]) == (3, True)

    @pytest.mark.parametrize(
        ("more", "text"),
        [
            (("--map", "a..b=c"), "map: a..b=c: invalid subject"),
            (("--map", "a"), "map: OLD=NEW expected"),
            (("--speed", "2x", "--order", "subject"), "speed: it needs the order stream"),
            (("--speed", "-1"), "rate and speed are 0 or more"),
            (("--window", "0"), "window 1 to 100000"),
            (("--job", "a.b"), "job: letters, digits"),
            (("--where", "nosuch = 1"), "where: 'nosuch = 1': there is no column"),
            (("--to-option", "usr=x"), "did you mean 'user'"),
        ],
    )
    def test_invalidOptions(self, more: tuple[str, ...], text: str, station: Station) -> None:
        """An impossible option is refused before anything is published."""
        source, target = filled(station, 3), station.stream()
        code, summary, _ = ran(*command(station, source, target, *more))
        assert (code, text in summary["error"]) == (2, True), summary
        assert station.streams.state(target.name).messages == 0

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (("--to-servers", "h", "--to-stream", "S"), "one of the arguments"),
            (("--stream", "A", "--archive", "x", "--to-stream", "S"), "not allowed with"),
            (("--stream", "A", "--to-servers", "h", "--to-stream", "S"), "need --servers"),
            (("--sql", "x", "--to-servers", "h", "--to-stream", "S", "--speed", "fast"), "--speed"),
            (
                ("--archive", "x", "--to-servers", "h", "--to-stream", "S", "--to-option", "x"),
                "--to-option: takes NAME=VALUE",
            ),
        ],
    )
    def test_wrongCommandLine(self, arguments: tuple[str, ...], text: str) -> None:
        """A wrong command line ends with 2 and says why."""
        code, _, errors = ran(*arguments, "--master", "inline")
        assert (code, text in errors) == (2, True), errors

    def test_sql(self, station: Station) -> None:
        """SQL needs Spark."""
        to = ("--to-servers", station.url, "--to-stream", station.stream().name)
        code, summary, _ = ran("--sql", "SELECT 1", "--origin", "q", *to, "--master", "inline")
        assert (code, "--sql needs Spark" in summary["error"]) == (2, True)

    def test_speed(self, station: Station) -> None:
        """A replay at a thousand times the original speed publishes all messages in order."""
        source, target = filled(station), station.stream()
        assert ran(*command(station, source, target, "--speed", "1000x"))[1]["rows"] == 9
        assert payloads(station, target) == list(range(1, 10))


class TestSpark:
    """In Spark's workers."""

    def replayed(
        self,
        spark: Any,
        station: Station,
        source: Stream,
        target: Stream,
        wanted: ReplayOptions,
        **more: Any,
    ) -> dict[str, Any]:
        """The summary of a replay."""
        log = LogSource({"servers": station.url, "stream": source.name})
        to = {"servers": station.url, "stream": target.name}
        return replay(spark, log, to, wanted, **more)

    def test_subjects(self, spark: Any, station: Station) -> None:
        """
        Each subject is in order, though several tasks publish; a second run publishes only the new
        rows.
        """
        source, target = filled(station, 60), station.stream(duplicate_window=100_000_000)
        maps = (f"{source.name}.>={target.name}.>",)
        wanted = ReplayOptions(order="subject", tasks=2, maps=maps, rate=1e6)
        summary = self.replayed(spark, station, source, target, wanted)
        assert (summary["rows"], summary["tasks"]) == (60, 2)
        source.add("s1", b"61")
        source.add("s2", b"62")
        summary = self.replayed(spark, station, source, target, wanted)
        assert summary["rows"] == 2
        # A task that none of the subjects falls to has nothing to resume.
        subjects = [(f"{source.name}.s{number}",) for number in range(3)]
        tasks = spark.createDataFrame(subjects, "subject STRING").selectExpr(
            "pmod(hash(subject), 2)"
        )
        assert (summary["resumed"] > 1) == (tasks.distinct().count() == 2)
        copied = payloads(station, target)
        for rest in range(3):
            mine = [payload for payload in copied if payload % 3 == rest]
            assert mine == sorted(mine)
        assert sorted(copied) == list(range(1, 63))

    @pytest.mark.parametrize("order", ["stream", "none"])
    def test_orderOfRows(self, order: str, spark: Any, station: Station) -> None:
        """With the stream's order, all rows are in order; without an order, all rows are there."""
        source, target = filled(station, 40), station.stream()
        maps = (f"{source.name}.>={target.name}.>",)
        wanted = ReplayOptions("seq > 20", order=order, tasks=3, maps=maps)
        trial = self.replayed(spark, station, source, target, wanted, isDryRun=True)
        assert (trial["would"], trial["untaken"]) == (20, 0)
        summary = self.replayed(spark, station, source, target, wanted)
        assert (summary["rows"], summary["tasks"]) == (20, 1 if order == "stream" else 3)
        copied = payloads(station, target)
        assert sorted(copied) == list(range(21, 41))
        assert order == "none" or copied == sorted(copied)

    def test_hereAndThere(self, spark: Any, station: Station) -> None:
        """A replay that began in Spark is continued without Spark."""
        source, target = filled(station, 40), station.stream(duplicate_window=100_000_000)
        wanted = ReplayOptions("seq > 20", maps=(f"{source.name}.>={target.name}.>",))
        assert self.replayed(spark, station, source, target, wanted)["rows"] == 20
        source.fill([b"41", b"42"])
        summary = self.replayed(None, station, source, target, wanted)
        assert (summary["rows"], summary["resumed"]) == (2, 41)
        assert payloads(station, target) == list(range(21, 43))

    def test_workerFails(self, spark: Any, station: Station) -> None:
        """A worker's error is raised with its text."""
        target = station.stream()
        source = SqlSource(f"SELECT 1L AS seq, '{target.name}.x' AS subject, 'x' AS data", "q")
        twice = SqlSource(f"{source._query} UNION ALL {source._query}", "q")
        to = {"servers": station.url, "stream": target.name}
        with pytest.raises(
            DataSourceError, match=r"^q: the sequence 1 comes after 1: each must be"
        ):
            replay(spark, twice, to)
        assert replay(spark, source, to)["rows"] == 1
        with pytest.raises(DataSourceError, match=r"^stream NOSUCH: stream not found$"):
            replay(spark, source, {**to, "stream": "NOSUCH"})


def test_unusableOptions(station: Station) -> None:
    """Options that contradict the target or have no meaning are refused."""
    source = LogSource({"servers": station.url, "stream": filled(station, 1).name})
    to = {"servers": station.url, "stream": "S"}
    for wanted, text in (
        (ReplayOptions(order="any"), "order: stream, subject, none"),
        (ReplayOptions(tasks=0), "task"),
    ):
        with pytest.raises(OptionError, match=text):
            replay(None, source, to, wanted)
    with pytest.raises(OptionError, match="name the one stream"):
        replay(None, source, {"servers": station.url, "stream": "A,B"})


def test_killed(ownStation: Station) -> None:
    """
    A replay is killed at random moments, and restarted when the stream has forgotten all ids. It
    publishes each message once and in order. Without its ledger, some come twice.
    """
    counts = rounds(ownStation, 8000, 2, 11, "--rate", "8000")
    assert isWhole(counts), counts
    for name in ("IN", "OUT"):
        ownStation.streams.call(f"STREAM.DELETE.{name}", {}, name)
    counts = rounds(ownStation, 8000, 1, 12, "--rate", "8000", "--no-ledger")
    assert counts["copied"] > counts["different"] == 8000, counts
