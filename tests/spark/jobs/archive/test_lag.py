"""
The job C{lag}.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from natsbroker.spark import cli
from natsbroker.spark.datasource.offsets import offsetOf
from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.archive.job import archive
from natsbroker.spark.jobs.archive.verify import lagReport, placesOf
from natsbroker.spark.tables.table import FORMATS
from tests.spark.support import BrokerStation, Station


def ran(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the line of JSON, and standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(("lag", *arguments), out, err)
    lines = out.getvalue().splitlines()
    return code, json.loads(lines[-1]) if lines else {}, err.getvalue()


def test_unknown() -> None:
    """The lag behind a deleted log is unknown, and is not drawn."""
    logs: dict[str, dict[str, Any]] = {
        "a": {"next": 5, "last": 4, "behind": 0},
        "b": {"next": 5, "error": "it is gone"},
    }
    (section,) = lagReport(logs, 0).sections
    assert section.chart is not None and section.chart.series == {"": [("a", 0.0)]}
    assert list(section.rows) == [("a", 5, 4, 0, ""), ("b", 5, "", "", "it is gone")]


@pytest.mark.parametrize("form", FORMATS)
def test_archive(form: str, broker: BrokerStation, tmp_path: Path) -> None:
    """
    The lag of an archive is the number of sequences after its end. A lag above C{--most} gives exit
    code 1.
    """
    name = broker.channel([b"x"] * 10)
    archive(None, {"servers": broker.url, "channel": name}, str(tmp_path), form=form)
    source = ("--servers", broker.url, "--archive", str(tmp_path))
    assert ran(*source, "--most", "0")[0] == 0
    broker.fill(name, [b"x"] * 5)
    page = tmp_path.with_suffix(".html")
    code, summary, _ = ran(*source, "--most", "5", "--html", str(page))
    assert summary.pop("html") == str(page)
    assert f'<td>{name}</td><td class="n">11</td><td class="n">15</td>' in page.read_text("utf-8")
    assert (code, summary["behind"]) == (0, 5)
    assert summary["logs"] == {name: {"next": 11, "last": 15, "behind": 5}}
    assert ran(*source, "--most", "4")[:2][0] == 1
    assert ran(*source)[0] == 0


def test_query(spark: Any, station: Station, tmp_path: Path) -> None:
    """
    The lag of a streaming query is the messages that it has not planned, also of deleted streams.
    """
    streams = [station.stream() for _ in range(4)]
    for stream in streams:
        stream.fill([b"x"] * 10)
    names = ",".join(stream.name for stream in streams)
    checkpoint = tmp_path / "checkpoint"
    query = (
        spark.readStream.format("natsbroker")
        .options(servers=station.url, stream=names, startingOffsets="earliest")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    source = ("--servers", station.url, "--checkpoint", str(checkpoint), "--stream", names)
    assert ran(*source)[1]["behind"] == 0
    late, trimmed, gone, again = streams
    late.fill([b"x"] * 7)
    trimmed.fill([b"x"] * 10)
    trimmed.api("PURGE", {"seq": 16})
    gone.api("DELETE")
    again.api("DELETE")
    again.make()
    code, summary, errors = ran(*source)
    assert (code, summary["result"], summary["behind"]) == (1, "found", 17)
    assert summary["logs"] == {
        late.name: {"next": 11, "last": 17, "behind": 7},
        trimmed.name: {
            "next": 11,
            "last": 20,
            "behind": 10,
            "error": "sequences 11 to 15 are not stored any more",
        },
        gone.name: {"next": 11, "error": "it is gone"},
        again.name: {"next": 11, "error": "it was deleted and made again"},
    }
    assert len(errors.splitlines()) == 3


def test_places(tmp_path: Path) -> None:
    """The lag is that of the last complete micro-batch, over all its sources of natsbroker."""
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()

    def planned(batch: int, *sources: dict[str, int]) -> None:
        offsets = [
            offsetOf({name: ("t", seq) for name, seq in source.items()}) for source in sources
        ]
        lines = ["v1", "{}", '{"kafka":{"0":1}}', *map(json.dumps, offsets)]
        (tmp_path / "offsets" / str(batch)).write_text("\n".join(lines))

    planned(9, {"a": 1})
    planned(10, {"a": 5, "b": 8}, {"c": 3, "a": 4})
    planned(11, {"a": 50}, {"c": 30})
    for batch in (9, 10):
        (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
    assert placesOf(tmp_path) == {"a": ("t", 4), "b": ("t", 8), "c": ("t", 3)}


def test_noCheckpoint(tmp_path: Path) -> None:
    """A directory without a checkpoint of such a query is an error."""
    with pytest.raises(DataSourceError, match="there is no checkpoint"):
        placesOf(tmp_path)
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
        with pytest.raises(DataSourceError, match="there is no checkpoint"):
            placesOf(tmp_path)
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    (tmp_path / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0}\n{"kafka":{"0":1}}\n')
    with pytest.raises(DataSourceError, match="does not read with the data source"):
        placesOf(tmp_path)


@pytest.mark.parametrize(
    "more", [(), ("--archive", "a", "--checkpoint", "c"), ("--checkpoint", "c")]
)
def test_usageErrors(more: tuple[str, ...]) -> None:
    """A wrong command line ends with 2."""
    assert ran("--servers", "h", *more)[0] == 2
