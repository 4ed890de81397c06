"""
The reply map of an account: reply subjects that cross between clusters, remembered for a while.

A request to another cluster may overtake the interest in its reply subject, which takes another
connection. So the reply subject of such a request is mapped: the other cluster sends replies back
to where the request came from, without regard to interest. The responder there receives the
original reply subject, and for a while messages to it return the same way.

Entries live for one to two periods; without entries there is no timer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorTime

from natsbroker import hot
from natsbroker.subjects.grammar import hasWildcard, matches
from natsbroker.wire.values import Kind

#: The longest time that interest takes to other clusters, in seconds.
PERIOD = 2.0

#: Wildcard shapes are capped where subscriptions are made: here there may be as many.
_SHAPES = 1 << 16

#: The most reply subjects that are compared with a pattern that lost its interest.
_MOST_COMPARED = 1024


class _Aging:
    def __init__(self, clock: IReactorTime, period: float, aged: Callable[[], bool]) -> None:
        """C{aged} is called at the end of a period, and returns whether there are entries."""
        self._clock = clock
        self._period = period
        self._aged = aged
        self._timer: Any = None

    def start(self) -> None:
        if self._timer is None:
            self._timer = self._clock.callLater(self._period, self._passed)

    def stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _passed(self) -> None:
        self._timer = None
        if self._aged():
            self.start()


class RecentSubscriptions:
    """Patterns of recent subscriptions; the lane reads C{matcher} too."""

    def __init__(self, account: Any, clock: IReactorTime, period: float = PERIOD) -> None:
        self._index: hot.SubjectIndex[hot.Subscription] = hot.SubjectIndex(_SHAPES)
        self.matcher = hot.Matcher(self._index, 1024)
        # One entry for all patterns of a period, so that a pattern costs next to nothing.
        self._entries = [
            hot.Subscription(account, b">", b"", int(Kind.INTERNAL), None, None) for _ in range(2)
        ]
        self._young: list[bytes] = []
        self._old: list[bytes] = []
        self._aging = _Aging(clock, period, self._aged)

    def add(self, pattern: bytes) -> None:
        self._index.insert(pattern, self._entries[0])
        self._young.append(pattern)
        self.matcher.changed(pattern)
        self._aging.start()

    def cover(self, subject: bytes) -> bool:
        return bool(self._young or self._old) and bool(self.matcher.match(subject))

    def __len__(self) -> int:
        return len(self._index)

    def _aged(self) -> bool:
        gone = self._old
        self._old, self._young = self._young, []
        self._entries.reverse()
        # Patterns that have just become old belong to the second entry. The first one belonged to
        # those that are gone, and will belong to new ones.
        for pattern in gone:
            self._index.remove(pattern, self._entries[0])
            self.matcher.changed(pattern)
        return bool(self._old)

    def close(self) -> None:
        self._aging.stop()
        self._old += self._young
        self._young = []
        for pattern in self._old:
            for entry in self._entries:
                self._index.remove(pattern, entry)
        self._old = []
        self.matcher.changed(b">")


class GatewayReplyMap:
    def __init__(
        self, clock: IReactorTime, changed: Callable[[bytes], None], period: float = PERIOD
    ) -> None:
        self._changed = changed
        self._young: dict[bytes, bytes] = {}
        self._old: dict[bytes, bytes] = {}
        self._aging = _Aging(clock, period, self._aged)

    def add(self, reply: bytes, via: bytes) -> None:
        """C{via} is the prefix of the reply subject on the way back."""
        isNews = reply not in self
        self._young[reply] = via
        if isNews:
            self._changed(reply)
        self._aging.start()

    def forget(self, pattern: bytes) -> None:
        """
        Forget reply subjects without interest. If there are many, wildcards are not considered.
        """
        if not hasWildcard(pattern):
            replies = [pattern] if pattern in self else []
        elif len(self._young) + len(self._old) <= _MOST_COMPARED:
            replies = [reply for reply in {**self._old, **self._young} if matches(pattern, reply)]
        else:
            return
        for reply in replies:
            self._young.pop(reply, None)
            self._old.pop(reply, None)
            self._changed(reply)

    def viaOf(self, subject: bytes) -> bytes:
        return self._young.get(subject) or self._old.get(subject, b"")

    def __contains__(self, subject: bytes) -> bool:
        return subject in self._young or subject in self._old

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def __bool__(self) -> bool:
        return bool(self._young or self._old)

    def _aged(self) -> bool:
        gone, self._old, self._young = self._old, self._young, {}
        for reply in gone:
            if reply not in self._old:
                self._changed(reply)
        return bool(self._old)

    def close(self) -> None:
        self._aging.stop()
        self._young, self._old = {}, {}
