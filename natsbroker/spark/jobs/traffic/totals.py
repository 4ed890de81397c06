"""
Traffic by windows of time, and who causes most of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from natsbroker.spark.jobs.traffic.events import COUNTS, TEXTS, BrokerEvent, addTo, tooMany

_SECOND = 10**9

#: The most sums.
_MOST = 4_000_000

#: Account, kind of peer, peer, and prefix.
Who = tuple[str, str, str, str]
Sums = list[int]


@dataclass(frozen=True)
class TimeWindows:
    """
    Windows of time. All of them begin at multiples of C{slide} since 1970.

    @ivar slide: how much later the next begins.
    @ivar watermark: how late events may come: a window that ended longer ago than this before the
        newest event is closed.
    """

    size: int
    slide: int
    watermark: int

    def of(self, time: int) -> Iterator[int]:
        begin = time - time % self.slide
        while begin > time - self.size:
            yield begin
            begin -= self.slide


class TrafficTotals:
    """
    Sums of events of traffic.

    @ivar sums: for each window, by who it was.
    @ivar sizes: for each account how many messages of clients had which mean size, in bytes.
    @ivar first: when the earliest event began, in nanoseconds since 1970; 0 without any.
    @ivar last: when the latest one was made.
    """

    def __init__(self, windows: TimeWindows) -> None:
        self.windows = windows
        self.sums: dict[int, dict[Who, Sums]] = {}
        self.sizes: dict[str, Counter[int]] = {}
        self.servers: set[str] = set()
        self.first = 0
        self.last = 0
        self.events = 0
        self.malformed = 0
        self._size = 0

    def add(self, event: BrokerEvent) -> None:
        if event.kind != "traffic":
            return
        lasted = int(event.seconds * _SECOND)
        self._seen(event.time - lasted, event.time)
        self.events += 1
        self.servers.add(event.server)
        begins = list(self.windows.of(event.time - lasted // 2))
        for row in event.rows:
            account, kind, peer, prefix = (row.get(name, "") for name in TEXTS[:4])
            who = account, kind, peer, prefix
            counts = [row.get(name, 0) for name in COUNTS]
            for begin in begins:
                self._count(begin, who, counts)
            if who[1] == "client" and counts[0]:
                sizes = self.sizes.setdefault(who[0], Counter())
                sizes[counts[1] // counts[0]] += counts[0]

    def _seen(self, first: int, last: int) -> None:
        self.first = min(self.first, first) if self.last else first
        self.last = max(self.last, last)

    def _count(self, begin: int, who: Who, counts: Sums) -> None:
        window = self.sums.setdefault(begin, {})
        self._size += who not in window
        if self._size > _MOST:
            raise tooMany("sums")
        addTo(window, who, counts)

    def merge(self, other: TrafficTotals) -> None:
        if other.last:
            self._seen(other.first, other.last)
        self.events += other.events
        self.malformed += other.malformed
        self.servers |= other.servers
        for account, sizes in other.sizes.items():
            self.sizes.setdefault(account, Counter()).update(sizes)
        for begin, window in other.sums.items():
            for who, counts in window.items():
                self._count(begin, who, counts)

    # What came of it.

    @property
    def seconds(self) -> float:
        return (self.last - self.first) / _SECOND

    def closed(self, final: bool = False) -> list[int]:
        """
        When the windows begin that nothing can come for any more.
        """
        edge = self.last - self.windows.watermark - self.windows.size
        return sorted(begin for begin in self.sums if final or begin <= edge)

    def rows(self, final: bool = False) -> Iterator[dict[str, Any]]:
        seconds = self.windows.size / _SECOND
        for begin in self.closed(final):
            for (account, kind, peer, prefix), counts in sorted(self.sums[begin].items()):
                yield {
                    "window_start": begin,
                    "window_end": begin + self.windows.size,
                    "account": account,
                    "peer_kind": kind,
                    "peer": peer,
                    "subject_prefix": prefix,
                    **dict(zip(COUNTS, counts, strict=True)),
                    "msgs_in_rate": counts[0] / seconds,
                    "bytes_in_rate": counts[1] / seconds,
                    "msgs_out_rate": counts[2] / seconds,
                    "bytes_out_rate": counts[3] / seconds,
                }

    def totals(self, final: bool = False) -> dict[Who, Sums]:
        """
        Sums over time of the closed windows, where these do not overlap; else of every window that
        begins where the one before it ended.
        """
        found: dict[Who, Sums] = {}
        after = 0
        for begin in self.closed(final):
            if begin < after:
                continue
            after = begin + self.windows.size
            for who, counts in self.sums[begin].items():
                addTo(found, who, counts)
        return found

    def covered(self, final: bool = False) -> float:
        total, after = 0, 0
        for begin in self.closed(final):
            if begin >= after:
                after = begin + self.windows.size
                total += max(min(after, self.last) - max(begin, self.first), 0)
        return total / _SECOND


def percentile(sizes: Counter[int], part: float) -> int:
    left = part * sum(sizes.values())
    for size in sorted(sizes):
        left -= sizes[size]
        if left <= 0:
            return size
    return max(sizes, default=0)
