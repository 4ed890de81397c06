"""
What a replay would publish.
"""

from __future__ import annotations

from natsbroker.spark.jobs.replay.job import DryRun, dryRun
from natsbroker.spark.jobs.replay.replayer import ReplayTask
from tests.spark.support import Station


def test_tried(station: Station) -> None:
    """Rows are counted, and those that the stream would not take; nothing is published."""
    stream = station.stream()
    task = ReplayTask("job", "plan", "IN", stream.name, maps=(f"a.*={stream.name}.*",))
    rows = [(n, subject, b"", None, None) for n, subject in enumerate(("a.x", "b", "a.y", "b"), 4)]
    found = dryRun(station.connection, "", task, rows)
    assert found == DryRun(4, 4, 7, 2, ["b"])
    assert found.summary() == {
        "rows": 0,
        "would": 4,
        "first": 4,
        "last": 7,
        "untaken": 2,
        "examples": ["b"],
    }
    assert station.streams.state(stream.name).messages == 0
    assert dryRun(station.connection, "", task, []) == DryRun()


def test_noSubject(station: Station) -> None:
    """What is no subject to publish to is not taken, and only a few examples are given."""
    stream = station.stream()
    task = ReplayTask("job", "plan", "IN", stream.name)
    rows = [(n, f"{stream.name}.*.{n}", b"", None, None) for n in range(1, 20)]
    found = dryRun(station.connection, "", task, rows)
    assert (found.untaken, len(found.examples)) == (19, 5)


def test_joined() -> None:
    """Of several tasks, the sums; one that has no rows changes nothing."""
    parts = [DryRun(2, 3, 9, 1, ["b"]), DryRun(), DryRun(1, 2, 2, 1, ["a"])]
    assert DryRun.joined(parts) == DryRun(3, 2, 9, 2, ["a", "b"])
    assert DryRun.joined([]) == DryRun()
