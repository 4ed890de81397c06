"""
The messages that wait because a check of one of them needs to look into the log.

One look-up is under way at a time, and only what could change its answer, or must not be stored
before the message that asks, waits for it:

  - messages of the same publisher, so that the sequences of a connection's messages to a stream
    rise in the order in which it sent them. Messages over a link have the link as their publisher.
    All messages that the broker sends, or reads from other streams, have one publisher together;
  - messages with a subject that the look-up counts.

All others are judged at once: they have no order with a message that is not acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, inlineCallbacks

from natsbroker.interfaces.records import StoreError, SubjectTallies
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.streams.publishanswers import Arrived, ReadMessage
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.subjectstates import (
    SubjectState,
    SubjectStates,
    SubjectUnknown,
)
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.verdicts import SubjectVerdicts

if TYPE_CHECKING:
    from collections.abc import Generator

MOST_WAITING = 10_000
"""The most messages of a stream that wait, as in nats-server."""

MOST_BYTES = 128 << 20
"""The most bytes of them."""


class _LookUp:
    """
    The look-up that one message waits for.

    @ivar subjects: the subjects whose states it asked for. Messages on other subjects do not change
        these.
    @ivar held: publishers whose next message waits because of its subject.
    @ivar cleared: how often the states of subjects were forgotten before.
    """

    def __init__(self, cleared: int) -> None:
        self.subjects = SubjectVerdicts(())
        self.held: list[object] = []
        self.cleared = cleared

    def asks(self, subject: bytes) -> None:
        self.subjects = SubjectVerdicts((*self.subjects.patterns, subject))


class JudgementQueue:
    """Judges messages, those of one publisher in the order of their arrival."""

    def __init__(
        self,
        stream: StreamCore,
        subjects: SubjectStates,
        judge: Callable[[Arrived], None],
        subjectsOf: Callable[[Arrived], Sequence[bytes] | None],
        refuse: Callable[[bytes, JetStreamError], None],
        flush: Callable[[], object],
    ) -> None:
        """
        @param judge: checks a message and puts it into the batch.
        @param subjectsOf: gives the subjects of what is stored with a message; C{None} if they are
            not known before it is judged.
        @param refuse: answers the publisher of a message.
        @param flush: appends the batch.
        """
        self._stream = stream
        self._subjects = subjects
        self._judge = judge
        self._subjectsOf = subjectsOf
        self._refuse = refuse
        self._flush = flush
        # The waiting messages by publisher, with the barriers behind them.
        self._lanes: dict[object, deque[Arrived | Deferred[None]]] = {}
        # Publishers whose next message needs a look-up of its own.
        self._asking: deque[object] = deque()
        self._current: _LookUp | None = None
        self._isWorking = False
        self._isClosed = False
        self._origin: ReadMessage | None = None  # That of the last judged message.
        self._messages = 0
        self._bytes = 0

    @property
    def isWaiting(self) -> bool:
        """Whether messages wait."""
        return bool(self._lanes)

    @property
    def isOwnWaiting(self) -> bool:
        """Whether messages wait that the stream makes itself or reads from others."""
        return None in self._lanes

    def close(self) -> None:
        """Forget what waits."""
        self._isClosed = True
        self._lanes.clear()
        self._asking.clear()
        self._current = None

    def whenOwnJudged(self) -> Deferred[None]:
        """Wait until the earlier messages that the stream made or read from others are judged."""
        waiting: Deferred[None] = Deferred()
        self._lanes[None].append(waiting)
        return waiting

    def take(self, published: Arrived) -> None:
        """Judge a message, now or when it has waited for what it must not overtake."""
        publisher = published.publisher
        if publisher in self._lanes:
            self._wait(published)
        elif self._current is not None and self._changes(published, self._current):
            if self._wait(published):
                self._current.held.append(publisher)
        elif self._tryTo(published) is not None and self._wait(published):
            self._ask(publisher)

    def _changes(self, published: Arrived, lookUp: _LookUp) -> bool:
        """Whether a message may change the result of a look-up."""
        subjects = self._subjectsOf(published)
        return subjects is None or any(lookUp.subjects[subject] for subject in subjects)

    def _wait(self, published: Arrived) -> bool:
        """
        Put a message behind those of its publisher. If too many wait, it is refused, unless the
        stream makes it itself or has read it.

        @return: whether it waits.
        """
        size = _sizeOf(published)
        isFull = self._messages >= MOST_WAITING or self._bytes + size > MOST_BYTES
        if isFull and not published.isSourced:
            self._refused(published, errors.STREAM_TOO_MANY_REQUESTS())
            return False
        self._messages += 1
        self._bytes += size
        self._lanes.setdefault(published.publisher, deque()).append(published)
        return True

    def _tryTo(self, published: Arrived) -> SubjectUnknown | None:
        """Judge a message, or return the look-up that it needs first."""
        origin = published.origin
        if self._stream.sources.areApart(self._origin, origin):
            self._flush()
        self._origin = origin
        if origin is not None and origin.isWithdrawn:
            return None
        try:
            self._judge(published)
        except JetStreamError as error:
            self._refused(published, error)
        except SubjectUnknown as missing:
            return missing
        else:
            if published.trace is not None:
                published.trace.stored(published.subject)
        return None

    def _refused(self, published: Arrived, error: JetStreamError) -> None:
        if published.trace is not None:
            published.trace.refused(error)
        if published.origin is not None:
            published.origin.refused(error)
        else:
            self._refuse(published.reply, error)

    def _ask(self, publisher: object) -> None:
        """Queue a publisher, whose next message needs a look-up."""
        self._asking.append(publisher)
        if not self._isWorking:
            self._stream.account.run(self._work())

    @inlineCallbacks
    def _work(self) -> Generator[Deferred[Any], Any, None]:
        """Do the look-ups that messages wait for, one after the other, and judge these messages."""
        self._isWorking = True
        try:
            while self._asking:
                publisher = self._asking.popleft()
                lookUp = _LookUp(self._subjects.cleared)
                try:
                    yield self._judgeFirst(publisher, lookUp)
                finally:
                    self._current = None
                    self._forget(lookUp)
                    self._next(publisher)
                    for waiting in (publisher, *lookUp.held):
                        self._drain(waiting)
                    self._flush()
        finally:
            self._isWorking = False

    @inlineCallbacks
    def _judgeFirst(
        self, publisher: object, lookUp: _LookUp
    ) -> Generator[Deferred[Any], Any, None]:
        """Judge the first message of a publisher once everything that it needs is known."""
        first = self._lanes[publisher][0]
        while not isinstance(first, Deferred) and (missing := self._tryTo(first)) is not None:
            lookUp.asks(missing.subject)
            self._current = lookUp
            self._flush()
            try:
                state = yield self._find(missing)
            except StoreError as error:
                if not self._isClosed:
                    self._refused(first, errors.STREAM_STORE_FAILED(err=str(error)))
                return
            if self._isClosed:
                return
            self._subjects.found(missing.subject, state)

    @inlineCallbacks
    def _find(self, missing: SubjectUnknown) -> Generator[Deferred[Any], Any, SubjectState]:
        """Read the state of a subject, or of all subjects that a pattern matches, from the log."""
        stream = self._stream
        while True:
            yield stream.quiet()
            yield stream.log.append([])
            cleared, count, last = self._subjects.cleared, 0, 0

            def note(tallies: SubjectTallies) -> None:
                nonlocal count, last
                count += sum(tally.count for tally in tallies.values())
                last = max(last, *(tally.last for tally in tallies.values()))

            yield stream.eachTally((missing.subject,), note)
            record = None
            if missing.notify is not None or cleared != self._subjects.cleared:
                record = yield stream.get(last)
            # A message that is gone now may have been read after one that was removed later.
            if record is not None or not last or cleared == self._subjects.cleared:
                break
        if missing.notify is not None:
            missing.notify(record)
        return SubjectState(count, last)

    @inlineCallbacks
    def learn(
        self, lasts: Callable[[], Mapping[bytes, int]]
    ) -> Generator[Deferred[Any], Any, None]:
        """
        Save the next messages a look-up each.

        @param lasts: gives subjects with their last durable sequences. It is called when no removal
            is under way and all earlier judged messages are announced.
        """
        stream, cleared = self._stream, self._subjects.cleared
        self._flush()
        self._subjects.isUsed = True  # Remember the messages judged from now on.
        yield stream.quiet()
        yield stream.log.append([])
        if cleared == self._subjects.cleared and not stream.upkeep.outcome.isOpen:
            for subject, last in lasts().items():
                if subject not in self._subjects.known:
                    self._subjects.found(subject, SubjectState(-1, last))

    def _forget(self, lookUp: _LookUp) -> None:
        """
        Forget states that are valid for one message only: those of patterns, and those of all
        subjects if messages were removed during the look-up.
        """
        isOld = lookUp.cleared != self._subjects.cleared
        for pattern in lookUp.subjects.patterns:
            if isOld or hasWildcard(pattern):
                self._subjects.forget(pattern)

    def _next(self, publisher: object) -> Arrived | Deferred[None] | None:
        """The first waiting message of a publisher; C{None} if none waits."""
        waiting = self._lanes.get(publisher)
        if waiting is None:
            return None
        first = waiting.popleft()
        if not waiting:
            del self._lanes[publisher]
        if not isinstance(first, Deferred):
            self._messages -= 1
            self._bytes -= _sizeOf(first)
        return first

    def _drain(self, publisher: object) -> None:
        """Judge the messages of a publisher until one needs a look-up."""
        while waiting := self._lanes.get(publisher):
            first = waiting[0]
            if not isinstance(first, Deferred) and self._tryTo(first) is not None:
                self._ask(publisher)
                return
            self._next(publisher)
            if isinstance(first, Deferred):
                # Earlier judged messages are in a batch that is not appended yet.
                self._flush()
                first.callback(None)


def _sizeOf(published: Arrived) -> int:
    return len(published.subject) + len(published.headers) + len(published.payload)
