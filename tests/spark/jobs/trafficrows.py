"""
Traffic events folded into rows.
"""

from __future__ import annotations

from typing import Any

from natsbroker.spark.jobs.traffic.totals import EventTotals, TimeWindows, readEvent
from tests.spark.eventlogs import event, traffic

S = 10**9


def folded(windows: TimeWindows, *times: float, **more: Any) -> EventTotals:
    """One message in each event at some times."""
    totals = EventTotals(windows)
    for time in times:
        row = traffic("A", "x", msgs_in=1, bytes_in=5, msgs_out=2, bytes_out=10)
        totals.add(readEvent(event("traffic", time, [row], **more)))
    return totals
