"""
Sids on a classic route: local ones, which this member sends, and remote ones, which the peer sends.

A sid is never used twice on one connection. Each member of a queue group has one, so that peers
that choose among sids choose fairly. A sid that has ended is remembered while messages to it may be
on their way.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from natsbroker.wire.dialects import cluster

#: The time for which a queue group without members is remembered, in seconds.
_MEMORY = 30.0

#: The most members of a queue group that have a sid each.
_MOST = 128

#: A pattern and a queue group.
_Interest = tuple[bytes, bytes]


class LocalSids:
    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._last = 0
        self._told: dict[_Interest, tuple[int, int]] = {}  # the number, and the weight
        self._groups: dict[int, bytes] = {}
        self._gone: deque[tuple[float, int]] = deque()

    def gained(self, pattern: bytes, queue: bytes, weight: int) -> Iterator[bytes]:
        key, weight = (pattern, queue), weight if queue else 1
        number, before = self._told.get(key, (0, 0))
        if not number:
            number = self._last = self._last + 1
            if queue:
                self._groups[number] = queue
        self._told[key] = number, weight
        first = 1 if before == weight else min(before, _MOST) + 1
        for member in range(first, min(weight, _MOST) + 1):
            sid = cluster.sidFor(number, member, queue)
            yield cluster.subscriptionLine(pattern, queue, sid)
        yield from self._lostLines(number, queue, weight, before)

    def lost(self, pattern: bytes, queue: bytes) -> Iterator[bytes]:
        number, weight = self._told.pop((pattern, queue))
        if queue:
            self._forget()
            self._gone.append((self._seconds() + _MEMORY, number))
        yield from self._lostLines(number, queue, 0, weight)

    @staticmethod
    def _lostLines(number: int, queue: bytes, after: int, before: int) -> Iterator[bytes]:
        for member in range(min(before, _MOST), after, -1):
            yield cluster.unsubscriptionLine(cluster.sidFor(number, member, queue))

    def group(self, sid: bytes) -> bytes:
        """The queue group of a sid; empty for none, or if it has had no member for a while."""
        self._forget()
        return self._groups.get(cluster.numberOf(sid), b"")

    def _forget(self) -> None:
        now, gone = self._seconds(), self._gone
        while gone and gone[0][0] <= now:
            del self._groups[gone.popleft()[1]]

    def __len__(self) -> int:
        return len(self._groups)


@dataclass(eq=False, slots=True)
class RemoteSid:
    """A peer's sid, which ends after C{maximum} messages; 0 for never."""

    sid: bytes
    pattern: bytes
    queue: bytes
    sent: int = 0
    maximum: int = 0

    @property
    def isFull(self) -> bool:
        return 0 < self.maximum <= self.sent


class RemoteSids:
    def __init__(self) -> None:
        self._sids: dict[bytes, RemoteSid] = {}
        self._places: dict[_Interest, OrderedDict[bytes, RemoteSid]] = {}

    def add(self, sid: bytes, pattern: bytes, queue: bytes) -> bool:
        """Add interest. Return whether it is new. A known sid is not changed."""
        if sid in self._sids:
            return False
        heard = self._sids[sid] = RemoteSid(sid, pattern, queue)
        self._places.setdefault((pattern, queue), OrderedDict())[sid] = heard
        return True

    def get(self, sid: bytes) -> RemoteSid | None:
        return self._sids.get(sid)

    def remove(self, heard: RemoteSid) -> None:
        del self._sids[heard.sid]
        key = heard.pattern, heard.queue
        del self._places[key][heard.sid]
        if not self._places[key]:
            del self._places[key]

    def weight(self, pattern: bytes, queue: bytes) -> int:
        return len(self._places.get((pattern, queue), ()))

    def choose(self, pattern: bytes, queue: bytes) -> RemoteSid:
        """Choose a sid: the next one in turn of a queue group, or the oldest one of a pattern."""
        place = self._places[pattern, queue]
        sid = next(iter(place))
        if queue:
            place.move_to_end(sid)
        return place[sid]

    def clear(self) -> None:
        self._sids.clear()
        self._places.clear()

    def __len__(self) -> int:
        return len(self._sids)
