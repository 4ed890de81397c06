"""
Traffic by windows of time.
"""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.traffic import totals as traffics
from natsbroker.spark.jobs.traffic.events import readEvent
from natsbroker.spark.jobs.traffic.totals import TimeWindows, TrafficTotals, percentile
from tests.spark.eventlogs import BEGIN, event
from tests.spark.jobs.trafficrows import S, folded

WHO = ("A", "client", "", "x")


def test_windows() -> None:
    """Each moment is in as many windows as overlap."""
    assert list(TimeWindows(60, 60, 0).of(125)) == [120]
    assert list(TimeWindows(60, 20, 0).of(125)) == [120, 100, 80]
    assert list(TimeWindows(60, 20, 0).of(120)) == [120, 100, 80]
    assert list(TimeWindows(50, 20, 0).of(119)) == [100, 80]


def test_sums() -> None:
    """An event counts where the middle of its time is."""
    found = folded(TimeWindows(60 * S, 60 * S, 0), 10, 20, 64, 66)
    begins = [BEGIN * S, (BEGIN + 60) * S]
    assert [found.sums[begin][WHO][:4] for begin in begins] == [[3, 15, 6, 30], [1, 5, 2, 10]]
    assert found.seconds == 66.0


def test_closed() -> None:
    """A window is closed when the watermark has passed its end, or when nothing more is to come."""
    found = folded(TimeWindows(60 * S, 60 * S, 30 * S), 10, 70, 149)
    assert found.closed() == [BEGIN * S]
    assert found.closed(final=True) == [(BEGIN + each) * S for each in (0, 60, 120)]
    found = folded(TimeWindows(60 * S, 60 * S, 30 * S), 10, 70, 150)
    assert found.closed() == [BEGIN * S, (BEGIN + 60) * S]


def test_rows() -> None:
    """Rates are over the length of a window."""
    found = folded(TimeWindows(60 * S, 60 * S, 0), 10, 20)
    (row,) = found.rows(final=True)
    assert row == {
        "window_start": BEGIN * S,
        "window_end": (BEGIN + 60) * S,
        "account": "A",
        "peer_kind": "client",
        "peer": "",
        "subject_prefix": "x",
        "msgs_in": 2,
        "bytes_in": 10,
        "msgs_out": 4,
        "bytes_out": 20,
        "no_interest": 0,
        "rs_minus_sent": 0,
        "slow_drops": 0,
        "msgs_in_rate": 2 / 60,
        "bytes_in_rate": 10 / 60,
        "msgs_out_rate": 4 / 60,
        "bytes_out_rate": 20 / 60,
    }
    assert list(found.rows()) == []


def test_totals() -> None:
    """Totals count nothing twice where windows overlap."""
    found = folded(TimeWindows(60 * S, 20 * S, 0), *range(10, 610, 10))
    total = found.totals(final=True)[WHO][0]
    assert total <= 60
    assert total == pytest.approx(found.covered(final=True) / 10, abs=6)
    assert folded(TimeWindows(60 * S, 60 * S, 0), 70, 80).covered(final=True) == 20.0
    assert folded(TimeWindows(60 * S, 60 * S, 0), 70, 80).covered() == 0.0
    assert folded(TimeWindows(60 * S, 60 * S, 0), *range(10, 610, 10)).totals(True)[WHO][0] == 60


def test_merge() -> None:
    """Sums do not depend on the order, and pass to workers."""
    windows = TimeWindows(60 * S, 20 * S, 0)
    times = [10, 70, 20, 200, 30]
    whole = folded(windows, *times)
    part = folded(windows, *times[3:])
    part.merge(pickle.loads(pickle.dumps(folded(windows, *times[:3], server="N2"))))
    part.merge(TrafficTotals(windows))
    assert part.sums == whole.sums
    assert (part.first, part.last, part.events) == (whole.first, whole.last, 5)
    assert part.servers == {"N1", "N2"}
    assert part.sizes == whole.sizes == {"A": Counter({5: 5})}


def test_otherKindsOfEvents() -> None:
    """Events of another kind are left alone."""
    found = TrafficTotals(TimeWindows(S, S, 0))
    found.add(readEvent(event("interest", 1, [])))
    assert (found.events, found.sums) == (0, {})


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many sums are an error that says what to do."""
    monkeypatch.setattr(traffics, "_MOST", 3)
    windows = TimeWindows(S, S, 0)
    folded(windows, 1, 2, 3)
    with pytest.raises(DataSourceError, match="too many sums: take a larger --window"):
        folded(windows, 1, 2, 3, 4)


def test_percentile() -> None:
    """The size that a part of messages does not exceed."""
    sizes = Counter({10: 90, 1000: 9, 5000: 1})
    assert [percentile(sizes, part) for part in (0.5, 0.9, 0.95, 0.99, 1.0)] == [
        *(10, 10),
        *(1000, 1000),
        5000,
    ]
    assert percentile(Counter(), 0.5) == 0
