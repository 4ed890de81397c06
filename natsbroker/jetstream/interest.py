"""
The interest in single subjects: inboxes of pull requests and deliver subjects of consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zope.interface import implementer

from natsbroker.interfaces import IInterestWatcher, IMessageBus
from natsbroker.subjects.grammar import hasWildcard, matches
from natsbroker.subjects.interestfilter import InterestFilter
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

    def __init__(self, bus: IMessageBus) -> None:
        self._bus = bus
        self._watches: dict[bytes, list[_SubjectWatch]] = {}
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
            # The account may have very many subscriptions. What ends before it was counted is not
            # reported, so all subjects are looked at afterwards.
            self._end = self._bus.watchInterest(
                self, _ANY_KIND, isPatient=True, whenTold=lambda: self._lookAt(list(self._watches))
            )
        watch = _SubjectWatch(subject, queue, changed)
        self._watches.setdefault(subject, []).append(watch)
        watch.isThere = self.isThere(subject, queue)
        changed(watch.isThere)

        def end() -> None:
            others = self._watches.get(subject, [])
            if watch in others:
                others.remove(watch)
                if not others:
                    del self._watches[subject]

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
        if not self._watches:
            return
        if hasWildcard(pattern):
            subjects = [subject for subject in self._watches if matches(pattern, subject)]
        else:
            subjects = [pattern] if pattern in self._watches else []
        self._lookAt(subjects)

    def _lookAt(self, subjects: Sequence[bytes]) -> None:
        for subject in subjects:
            for watch in list(self._watches.get(subject, ())):
                isThere = self.isThere(subject, watch.queue)
                if isThere != watch.isThere:
                    watch.isThere = isThere
                    watch.changed(isThere)
