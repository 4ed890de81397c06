"""
The messages that wait because a check of the first of them needs to look into the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, inlineCallbacks

from natsbroker.interfaces.records import StoreError, SubjectTallies
from natsbroker.jetstream.contracts import PublishedStream
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.subjectstates import (
    SubjectState,
    SubjectStates,
    SubjectUnknown,
)
from natsbroker.subjects.grammar import hasWildcard

if TYPE_CHECKING:
    from collections.abc import Generator


class JudgementQueue:
    """
    Judges messages in the order of their arrival, while some wait for the log.
    """

    def __init__(
        self,
        stream: PublishedStream,
        subjects: SubjectStates,
        judge: Callable[[Arrived], None],
        refuse: Callable[[bytes, JetStreamError], None],
        flush: Callable[[], None],
    ) -> None:
        """
        @param judge: checks a message and puts it into the batch.
        @param refuse: answers the publisher of a message.
        @param flush: appends the batch.
        """
        self._stream = stream
        self._subjects = subjects
        self._judge = judge
        self._refuse = refuse
        self._flush = flush
        self._waiting: deque[Arrived] | None = None
        self._drained: list[Deferred[None]] = []

    @property
    def isWaiting(self) -> bool:
        """
        Whether a look-up is under way.
        """
        return self._waiting is not None

    def close(self) -> None:
        """
        Forget what waits.
        """
        self._waiting = None

    def whenDrained(self) -> Deferred[None]:
        """
        Wait until no message waits any more.
        """
        waiting: Deferred[None] = Deferred()
        self._drained.append(waiting)
        return waiting

    def take(self, published: Arrived) -> None:
        """
        Judge a message, now or behind those that wait.
        """
        if self._waiting is None:
            self._tryTo(published)
        else:
            self._waiting.append(published)

    def _tryTo(self, published: Arrived) -> bool:
        """
        @return: whether the next message can be taken: this one does not wait for a look-up.
        """
        if published.origin is not None and published.origin.isWithdrawn:
            return True
        try:
            self._judge(published)
        except JetStreamError as error:
            self._refused(published, error)
        except SubjectUnknown as missing:
            self._waiting = deque([published])
            self._flush()
            self._stream.account.run(self._lookUp(missing))
            return False
        else:
            if published.trace is not None:
                published.trace.stored(published.subject)
        return True

    def _refused(self, published: Arrived, error: JetStreamError) -> None:
        if published.trace is not None:
            published.trace.refused(error)
        if published.origin is not None:
            published.origin.refused(error)
        else:
            self._refuse(published.reply, error)

    @inlineCallbacks
    def _lookUp(self, missing: SubjectUnknown) -> Generator[Deferred[Any], Any, None]:
        """
        Find the state of a subject, then judge what waits.
        """
        stream, subject = self._stream, missing.subject
        try:
            yield stream.quiet()
            yield stream.log.append([])
            count = last = 0

            def note(tallies: SubjectTallies) -> None:
                nonlocal count, last
                count += sum(each.count for each in tallies.values())
                last = max(last, *(each.last for each in tallies.values()))

            yield stream.eachTally((subject,), note)
            if missing.found is not None:
                missing.found((yield stream.get(last)))
        except StoreError as error:
            self._failWaiting(str(error))
            return
        self._subjects.found(subject, SubjectState(count, last))
        self._judgeAll(self._takeWaiting(), subject)
        if self._waiting is None:
            self._flush()
            self._judged()

    def _takeWaiting(self) -> deque[Arrived]:
        waiting, self._waiting = self._waiting or deque(), None
        return waiting

    def _judgeAll(self, waiting: deque[Arrived], subject: bytes) -> None:
        """
        Judge messages that waited for the state of a subject, or of a pattern, which holds for the
        first of them only.
        """
        while waiting:
            if not self._tryTo(waiting.popleft()):
                if self._waiting is not None:
                    self._waiting.extend(waiting)
                return
            if hasWildcard(subject):
                self._subjects.forget(subject)

    def _failWaiting(self, text: str) -> None:
        error = errors.STREAM_STORE_FAILED(err=text)
        for published in self._takeWaiting():
            self._refused(published, error)
        self._flush()
        self._judged()

    def _judged(self) -> None:
        """
        Nothing waits for a look-up any more.
        """
        waiting, self._drained = self._drained, []
        for each in waiting:
            each.callback(None)
