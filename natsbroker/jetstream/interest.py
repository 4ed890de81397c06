"""
The interest in single subjects: inboxes of pull requests and deliver subjects of consumers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zope.interface import implementer

from natsbroker.interfaces import IInterestWatcher, IMessageBus
from natsbroker.steps import PIECE, Steps, pieces
from natsbroker.storage.sortedsubjects import SortedSubjects
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.interestfilter import InterestFilter
from natsbroker.subjects.searching import PatternSearch
from natsbroker.wire.values import Kind

_ANY_KIND = InterestFilter(list(Kind), includesImports=True)


def _counts(subscription: Any, subject: bytes) -> bool:
    return bool(subscription.kind > Kind.LOCAL or subscription.pattern == subject)


class _SubjectWatch:
    __slots__ = ("changed", "isThere", "queue", "subject")

    def __init__(self, subject: bytes, queue: bytes, changed: Callable[[bool], None]) -> None:
        self.subject = subject
        self.queue = queue
        self.changed = changed
        self.isThere = False


@implementer(IInterestWatcher)
class SubjectInterest:
    """Calls back when a literal subject gains its first subscription or loses its last one."""

    def __init__(self, bus: IMessageBus, work: Callable[[Steps[None]], object]) -> None:
        """@param work: does something in steps."""
        self._bus = bus
        self._work = work
        self._watches: dict[bytes, list[_SubjectWatch]] = {}
        self._inOrder = SortedSubjects()
        # Whether subjects are looked at that changed patterns may have matched, and whether such a
        # pattern has changed meanwhile.
        self._isLooking = self._isStale = False
        self._end: Callable[[], None] | None = None

    def watch(
        self, subject: bytes, queue: bytes, changed: Callable[[bool], None]
    ) -> Callable[[], None]:
        """
        Call C{changed} with whether there is interest, at once and with each change. The returned
        callable ends the watch.

        @param subject: a literal subject.
        @param queue: only members of this queue group count; empty for any subscription.
        """
        if self._end is None:
            # The account may have very many subscriptions. The end of one that was not counted yet
            # is not reported, so all subjects are examined afterwards.
            self._end = self._bus.watchInterest(
                self, _ANY_KIND, isPatient=True, whenTold=self._lookAtAll
            )
        watch = _SubjectWatch(subject, queue, changed)
        if subject not in self._watches:
            self._watches[subject] = []
            self._inOrder.add(subject)
        self._watches[subject].append(watch)
        watch.isThere = self.isThere(subject, queue)
        changed(watch.isThere)

        def end() -> None:
            others = self._watches.get(subject, [])
            if watch in others:
                others.remove(watch)
                if not others:
                    del self._watches[subject]
                    self._inOrder.remove(subject)

        return end

    def isThere(self, subject: bytes, queue: bytes = b"") -> bool:
        """
        Whether a subscription to exactly this subject exists; with a queue group, one of its
        members. As in nats-server, subscriptions with wildcards do not count.
        """
        match = self._bus.matcher.match(subject)
        if queue:
            members = [(*here, *there) for name, here, there in match.groups if name == queue]
            return any(_counts(member, subject) for group in members for member in group)
        if not self._bus.hasInterest(subject, isRequest=False):
            return False
        return bool(match.links) or any(_counts(receiver, subject) for receiver in match.plain)

    def close(self) -> None:
        self._watches.clear()
        self._inOrder = SortedSubjects()
        if self._end is not None:
            self._end()
            self._end = None

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        self._look(pattern)

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        """Ignored: the number of members makes no difference."""

    def interestLost(self, pattern: bytes, queue: bytes) -> None:
        self._look(pattern)

    def _look(self, pattern: bytes) -> None:
        if not hasWildcard(pattern):
            self._lookAt(pattern)
            return
        if not self._watches:
            return
        # Clients subscribe to many patterns, which hardly ever match a subject that is watched.
        subjects, more = self._inOrder.find(PatternSearch(pattern), b"", PIECE)
        if more:
            self._lookAtAll()
            return
        for subject in subjects:
            self._lookAt(subject)

    def _lookAtAll(self) -> None:
        self._isStale = True
        if not self._isLooking:
            self._isLooking = True
            self._work(self._looking())

    def _looking(self) -> Steps[None]:
        try:
            while self._isStale:
                self._isStale = False
                for some in pieces(list(self._watches)):
                    for subject in some:
                        self._lookAt(subject)
                    yield
        finally:
            self._isLooking = False

    def _lookAt(self, subject: bytes) -> None:
        known: dict[bytes, bool] = {}
        for watch in list(self._watches.get(subject, ())):
            queue = watch.queue
            if queue not in known:
                known[queue] = self.isThere(subject, queue)
            if known[queue] != watch.isThere:
                watch.isThere = known[queue]
                watch.changed(watch.isThere)
