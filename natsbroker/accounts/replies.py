"""
What an account remembers for a while of reply subjects that cross between clusters.

Over the connection to another cluster a request may overtake the news, on another connection, of
the subscription to its answers. So the reply subject of such a request is mapped: the other cluster
sends the answers back to where it came from, whoever is subscribed. Whoever answers there is given
the reply subject as it was, and for a while what is published to it takes the same way back.

Nothing is remembered longer than two periods, nor forgotten before one has passed; memory
is not held, and no timer runs, while there is nothing to remember.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorTime

from natsbroker import hot
from natsbroker.wire.values import Kind

__all__ = ["PERIOD", "GatewayReplyMap", "RecentSubscriptions"]

#: How long the news of a subscription may take to other clusters, in seconds.
PERIOD = 2.0

#: Wildcard shapes are capped where subscriptions are made: here there may be as many.
_SHAPES = 1 << 16


class _Aging:
    """
    Something that is called once in a period, as long as there is a reason.
    """

    def __init__(self, clock: IReactorTime, period: float, aged: Callable[[], bool]) -> None:
        """
        @param aged: called at the end of a period; tells whether to go on.
        """
        self._clock = clock
        self._period = period
        self._aged = aged
        self._timer: Any = None

    def start(self) -> None:
        """
        There is a reason.
        """
        if self._timer is None:
            self._timer = self._clock.callLater(self._period, self._passed)

    def stop(self) -> None:
        """
        There is none any more.
        """
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _passed(self) -> None:
        self._timer = None
        if self._aged():
            self.start()


class RecentSubscriptions:
    """
    The patterns that were subscribed to a short time ago.

    @ivar matcher: which of them match a subject; the fast lane asks it too.
    """

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
        """
        Somebody has subscribed.
        """
        self._index.insert(pattern, self._entries[0])
        self._young.append(pattern)
        self.matcher.changed(pattern)
        self._aging.start()

    def cover(self, subject: bytes) -> bool:
        """
        Whether a literal subject matches one of them.
        """
        return bool(self._young or self._old) and bool(self.matcher.match(subject))

    def __len__(self) -> int:
        return len(self._index)

    def _aged(self) -> bool:
        gone = self._old
        self._old, self._young = self._young, []
        self._entries.reverse()
        # What is young now is under the other entry, and what is to come under that of the gone.
        for pattern in gone:
            self._index.remove(pattern, self._entries[0])
            self.matcher.changed(pattern)
        return bool(self._old)

    def close(self) -> None:
        """
        Forget everything.
        """
        self._aging.stop()
        self._old += self._young
        self._young = []
        for pattern in self._old:
            for entry in self._entries:
                self._index.remove(pattern, entry)
        self._old = []
        self.matcher.changed(b">")


class GatewayReplyMap:
    """
    The answers that are to go back where the requests came from.
    """

    def __init__(
        self, clock: IReactorTime, changed: Callable[[bytes], None], period: float = PERIOD
    ) -> None:
        """
        @param changed: called with a subject where answers are published to, when that begins or
            ends to matter.
        """
        self._changed = changed
        self._young: dict[bytes, bytes] = {}
        self._old: dict[bytes, bytes] = {}
        self._aging = _Aging(clock, period, self._aged)

    def add(self, reply: bytes, via: bytes) -> None:
        """
        A request came.

        @param reply: where the answer is going to be published to.
        @param via: what is put in front of that.
        """
        isNews = reply not in self
        self._young[reply] = via
        if isNews:
            self._changed(reply)
        self._aging.start()

    def viaOf(self, subject: bytes) -> bytes:
        """
        What is put in front of a subject that somebody publishes to; no bytes for nothing.
        """
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
        """
        Forget everything.
        """
        self._aging.stop()
        self._young, self._old = {}, {}
