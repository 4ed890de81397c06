"""
Traffic by windows of time.
"""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from natsbroker.spark.errors import ApiError, DataSourceError
from natsbroker.spark.jobs.traffic import totals as traffics
from natsbroker.spark.jobs.traffic.totals import EventTotals, TimeWindows, foldEvents, readEvent
from natsbroker.spark.settings import readOptions
from tests.spark.eventlogs import BEGIN, event, traffic
from tests.spark.jobs.trafficrows import S, folded
from tests.spark.support import BrokerStation

WHO = ("A", "client", "", "x")

WINDOWS = TimeWindows(10**10, 10**10, 0)


def test_windows() -> None:
    """A time belongs to every window that contains it."""
    assert list(TimeWindows(60, 60, 0).of(125)) == [120]
    assert list(TimeWindows(60, 20, 0).of(125)) == [120, 100, 80]
    assert list(TimeWindows(60, 20, 0).of(120)) == [120, 100, 80]
    assert list(TimeWindows(50, 20, 0).of(119)) == [100, 80]


def test_sums() -> None:
    """An event counts in the window with the middle of its interval."""
    totals = folded(TimeWindows(60 * S, 60 * S, 0), 10, 20, 64, 66)
    begins = [BEGIN * S, (BEGIN + 60) * S]
    assert [totals.sums[begin][WHO][:4] for begin in begins] == [[3, 15, 6, 30], [1, 5, 2, 10]]
    assert (totals.first, totals.last) == (BEGIN * S, (BEGIN + 66) * S)


def test_merge() -> None:
    """Sums from several workers, in any order, are those of a single one."""
    windows = TimeWindows(60 * S, 20 * S, 0)
    times = [10, 70, 20, 200, 30]
    whole = folded(windows, *times)
    part = folded(windows, *times[3:])
    part.merge(pickle.loads(pickle.dumps(folded(windows, *times[:3], server="N2"))))
    part.merge(EventTotals(windows))
    assert part.sums == whole.sums
    assert (part.first, part.last, part.kinds) == (whole.first, whole.last, {"traffic": 5})
    assert part.servers == {"N1", "N2"}
    assert part.sizes == whole.sizes == {"A": Counter({5: 5})}


def test_interestCountsNothing() -> None:
    """Events of interest change no sum, and are in no window."""
    totals = EventTotals(TimeWindows(S, S, 0))
    totals.add(readEvent(event("interest", 1, [traffic("A", "x", msgs_in=1)])))
    assert (totals.kinds, totals.sums, totals.last) == ({"interest": 1}, {}, 0)


def test_withoutWindows() -> None:
    """Without windows sums are those of a cluster."""
    totals = EventTotals()
    for cluster in ("eu", "us", "eu"):
        row = traffic("A", "x", msgs_in=2)
        totals.add(readEvent(event("traffic", 1, [row], cluster=cluster)))
    assert {cluster: sums[WHO][0] for cluster, sums in totals.sums.items()} == {"eu": 4, "us": 2}


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many sums are an error with the remedy."""
    monkeypatch.setattr(traffics, "_MOST", 3)
    windows = TimeWindows(S, S, 0)
    folded(windows, 1, 2, 3)
    with pytest.raises(DataSourceError, match="too many sums: take a larger --window"):
        folded(windows, 1, 2, 3, 4)


def test_fold(broker: BrokerStation) -> None:
    """
    Events of a channel are counted over any number of tasks. Other messages count as malformed.
    """
    events = [event("traffic", n, [traffic("A", "x", msgs_in=n)]) for n in range(40)]
    name = broker.channel([*events[:20], b"strange", *events[20:]])
    told: list[tuple[int, int]] = []
    for tasks in ("1", "20"):
        options = readOptions({"servers": broker.url, "channel": name, "minPartitions": tasks})
        totals = foldEvents(
            options,
            WINDOWS,
            lambda work, pieces: [work(piece) for piece in pieces],
            lambda done, end: told.append((done, end)),
        )
        assert (totals.kinds["traffic"], totals.malformed) == (40, 1)
        assert sum(window[WHO][0] for window in totals.sums.values()) == sum(range(40))
    assert told[0] == told[-1] == (41, 41)
    assert len(told) == 4


def test_missing(broker: BrokerStation) -> None:
    """A channel that is not there is an error."""
    options = readOptions({"servers": broker.url, "channel": "nothing.here"})
    with pytest.raises(ApiError, match=r"nothing\.here"):
        foldEvents(options, WINDOWS, lambda work, pieces: [])
