"""
Reports to an operator.
"""

from __future__ import annotations

from natsbroker.streaming.filestore.report import Report


def test_collectsAndShows() -> None:
    """Notes and damage are kept apart, and shown in the order in which they come."""
    shown: list[str] = []
    report = Report(shown.append)
    report.note("a")
    report.damage("b")
    report.note("c")
    assert (report.notes, report.damaged, shown) == (["a", "c"], ["b"], ["a", "b", "c"])
