"""The number, duration and size of the commits of a thread that writes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from natsbroker.interfaces.records import Histogram
from natsbroker.storage.jobs import AppendJob, Job

SECONDS = (
    *(0.000025, 0.00005, 0.0001, 0.00025, 0.0005),
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
RECORDS = tuple(2.0**power for power in range(15))
BYTES = tuple(4.0**power for power in range(3, 14))


class _Values:
    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def histogram(self) -> Histogram:
        return Histogram(self._bounds, tuple(self._counts), self._total)


class CommitFigures:
    def __init__(self) -> None:
        self._commits = _Values(SECONDS)
        self._syncs = _Values(SECONDS)
        self._records = _Values(RECORDS)
        self._bytes = _Values(BYTES)

    def synced(self, seconds: float) -> None:
        """A write has waited for the disk, or the database."""
        self._syncs.add(seconds)

    def committed(self, jobs: Sequence[Job], seconds: float) -> None:
        """Count a durable group; C{seconds} have passed since it was closed."""
        appends = [each.encoded for each in jobs if isinstance(each, AppendJob)]
        records = sum([len(each.blobs) for each in appends])
        self.appended(records, sum([each.size for each in appends]), seconds)

    def appended(self, records: int, size: int, seconds: float) -> None:
        """A group that has these records, and bytes of them, is durable."""
        self._commits.add(seconds)
        self._records.add(records)
        self._bytes.add(size)

    def histograms(self) -> tuple[Histogram, Histogram, Histogram, Histogram]:
        """The seconds of commits, those of syncs, and the records and bytes of commits."""
        return (
            self._commits.histogram(),
            self._syncs.histogram(),
            self._records.histogram(),
            self._bytes.histogram(),
        )
