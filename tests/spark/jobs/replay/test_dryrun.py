"""
The messages that a replay would publish.
"""

from __future__ import annotations

from typing import Any

from natsbroker.spark.jobs.replay.job import dryRun
from natsbroker.spark.jobs.replay.replayer import ReplayTask
from natsbroker.spark.settings import readOptions
from tests.spark.support import Station, Stream


def tried(station: Station, stream: Stream, counts: list[Any], *maps: str) -> dict[str, Any]:
    """The result for some subjects with their rows."""
    options = readOptions({"servers": station.url, "stream": stream.name})
    return dryRun(options, ReplayTask(stream=stream.name, maps=maps), counts)


def test_trial(station: Station) -> None:
    """Rows are counted, and also those that the stream would refuse. No message is published."""
    stream = station.stream()
    counts = [("a.x", 1), ("b", 2), ("a.y", 3), ("b", 1)]
    assert tried(station, stream, counts, f"a.*={stream.name}.*") == {
        "rows": 0,
        "would": 7,
        "untaken": 3,
        "examples": ["b"],
    }
    assert station.streams.state(stream.name).messages == 0
    nothing = {"rows": 0, "would": 0, "untaken": 0, "examples": []}
    assert tried(station, stream, []) == nothing


def test_noSubject(station: Station) -> None:
    """Subjects with wildcards count as not taken. Only some of them are listed."""
    stream = station.stream()
    counts = tried(station, stream, [(f"{stream.name}.*.{n}", 1) for n in range(1, 20)])
    assert (counts["untaken"], len(counts["examples"])) == (19, 5)
