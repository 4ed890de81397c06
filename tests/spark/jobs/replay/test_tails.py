"""
The messages replayed into the end of a stream.
"""

from __future__ import annotations

import pytest

from natsbroker.spark.jobs.replay.replayer import replayed
from tests.spark.support import Station


@pytest.mark.parametrize("isDirect", [True, False])
def test_found(isDirect: bool, station: Station) -> None:
    """The replayed messages of a task are found by their headers, with and without direct get."""
    stream = station.stream(allow_direct=isDirect)
    for row in (1, 2, 3):
        stream.add("x", b"p", {"Nb-Replay": "job.0", "Nb-Origin-Sequence": str(row)})
    stream.fill([b"Nb-Replay: job.0"])
    for header in ({"K": "job.0"}, {"Nb-Replay": "job.1", "K": "job.0"}, {"Nb-Replay": "job.0"}):
        stream.add("x", b"", header)
    stream.add("x", b"", {"Nb-Replay": "job.0", "Nb-Origin-Sequence": "many"})
    stream.add("x", b"", {"Nb-Replay": "job.0", "Nb-Origin-Sequence": "4"})
    stream.delete(2)
    state = station.streams.state(stream.name)
    assert state.isDirect == isDirect

    def found(start: int, stop: int) -> list[tuple[int, int]]:
        return list(replayed(station.streams, state, (start, stop), "job.0"))

    assert found(1, state.stop) == [(1, 1), (3, 3), (4, 9)]
    assert found(2, 9) == [(3, 3)]
    assert found(10, 10) == []
    assert list(replayed(station.streams, state, (1, state.stop), "other.0")) == []


@pytest.mark.parametrize("isDirect", [True, False])
def test_emptyTail(isDirect: bool, station: Station) -> None:
    """If the stream was purged, no replayed messages are found."""
    stream = station.stream(allow_direct=isDirect)
    stream.add("x", b"p", {"Nb-Replay": "job.0", "Nb-Origin-Sequence": "1"})
    stream.api("PURGE")
    state = station.streams.state(stream.name)
    assert list(replayed(station.streams, state, (1, state.stop), "job.0")) == []
