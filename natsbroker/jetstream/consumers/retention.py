"""
Interest and work-queue retention: a stream removes the messages that its consumers have settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, inlineCallbacks, succeed
from twisted.python.failure import Failure

from natsbroker.interfaces.records import Record, StoreError
from natsbroker.jetstream.model.streamconfig import RetentionPolicy
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.streamrecords import SLICE

if TYPE_CHECKING:
    from collections.abc import Generator

    from natsbroker.jetstream.consumers.consumer import Consumer
    from natsbroker.jetstream.consumers.table import ConsumerTable


class ConsumerRetention:
    """Removes the messages of a stream that no consumer needs."""

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._owed: set[int] = set()

    def release(
        self, sequences: Collection[int], consumer: Consumer | None = None
    ) -> Deferred[Any]:
        """
        Remove those of some messages that no consumer needs. Messages that the store fails to
        remove are remembered until they are gone.

        @param consumer: the consumer that has settled them; in a work queue no other consumer has
            them. C{None} for messages behind the floor of a consumer, because a reset moved the
            floor past them, or because they are gone.
        """
        if self._owed:
            self._owed.update(sequences)
            return succeed(None)
        releasing: Deferred[Any]
        if consumer is None or self._stream.config.retention is RetentionPolicy.INTEREST:
            turns = self._stream.account.turns
            releasing = turns.begin(self._releaseUnlessNeeded(sequences, consumer))
        else:
            own = _ownFilters(consumer, sequences)
            releasing = self._stream.remove(sequences, filters=own)
        return releasing.addErrback(self._notReleased, sequences)

    def _notReleased(self, failure: Failure, sequences: Collection[int]) -> Deferred[Any]:
        failure.trap(StoreError)
        self._owed.update(sequences)
        paying: Deferred[Any] = self._stream.upkeep.carryOut(self._pay)
        return paying

    async def _pay(self) -> None:
        while self._owed:
            # If a consumer settles one of these messages from now on, the message is put back into
            # the list.
            some = [self._owed.pop() for _ in range(min(SLICE, len(self._owed)))]
            try:
                await self._releaseUnlessNeeded(some, None)
            except StoreError:
                self._owed.update(some)
                raise

    async def _releaseUnlessNeeded(self, sequences: Collection[int], but: object) -> None:
        waiting = deque(sequences)
        while waiting:
            await self._stream.remove(await self.takeUnneeded(waiting, but))
            if waiting:
                await self._stream.account.turns.turn()

    async def takeUnneeded(self, waiting: deque[int], but: object = None) -> list[int]:
        """
        @param waiting: sequences. Those that are examined in this turn are taken from it.
        @return: those of them that no consumer needs.
        """
        consumers = self._stream.consumers
        wanting: dict[bytes, list[Consumer]] = {}
        unneeded: list[int] = []
        looked = 0
        while waiting and looked < SLICE:
            sequence, subject = waiting.popleft(), b""
            if consumers.isFiltered:
                record = await self._stream.get(sequence)
                if record is None:
                    continue
                subject = record.subject
            if subject not in wanting:
                wanting[subject] = [
                    other for other in consumers.wanting(subject) if other is not but
                ]
            looked += len(wanting[subject]) + 1
            if not any(consumer.needs(sequence) for consumer in wanting[subject]):
                unneeded.append(sequence)
        return unneeded

    def releaseUnneeded(self) -> Deferred[None]:
        """Remove messages that no consumer needs."""
        return self._releaseWhere(_isUnneeded, self._stream.last)

    def begin(self) -> Deferred[None]:
        """
        Remove the messages that consumers settled before the retention became interest. As in
        nats-server, a message that no consumer wants stays if there are consumers.
        """
        return self._releaseWhere(_isSettled, self._stream.last)

    async def compare(self) -> None:
        """
        Remove the messages that consumers have settled, and those that an earlier run could not
        remove. Keep messages that no consumer has reached, even if the only consumer was in memory
        and is gone after a restart.
        """
        consumers, last = self._stream.consumers.values(), self._stream.last
        delivered = max(
            (consumer.core.pending.deliveredStream for consumer in consumers), default=0
        )
        isShared = self._stream.config.retention is RetentionPolicy.INTEREST
        isUnneeded = _isUnneeded if isShared else _isConfirmed
        await self._releaseWhere(isUnneeded, min(delivered, last))

    @inlineCallbacks
    def _releaseWhere(
        self, isUnneeded: Callable[[Record, ConsumerTable], bool], last: int
    ) -> Generator[Deferred[Any], Any, None]:
        stream = self._stream
        sequence = max(stream.first, 1)
        if sequence <= last and not stream.consumers:
            # All messages are compared in one search, because a stream may have millions of them.
            yield stream.discardBefore(last + 1)
            return
        while sequence <= last:
            # The cost of each message grows with the number of consumers.
            limit = max(SLICE // max(len(stream.consumers), 1), 1)
            page = yield stream.read((), sequence, limit, 1 << 24)
            yield stream.account.turns.turn()
            yield stream.remove(
                [record.sequence for record in page.records if isUnneeded(record, stream.consumers)]
            )
            sequence = page.next


def _ownFilters(consumer: Consumer, sequences: Collection[int]) -> tuple[bytes, ...]:
    """
    The filters of a consumer of a work queue, if the consumer has delivered messages that match
    them.
    """
    return consumer.filters if consumer.core.passedOver < min(sequences) else ()


def _isUnneeded(record: Record, consumers: ConsumerTable) -> bool:
    return not any(
        consumer.needs(record.sequence) for consumer in consumers.wanting(record.subject)
    )


def _isSettled(record: Record, consumers: ConsumerTable) -> bool:
    if consumers and not consumers.isWanted(record.subject):
        return False
    return _isUnneeded(record, consumers)


def _isConfirmed(record: Record, consumers: ConsumerTable) -> bool:
    """Whether a message of a work queue was settled, and not passed over."""
    wanting = consumers.wanting(record.subject)
    return bool(wanting) and not any(
        consumer.needs(record.sequence) or record.sequence <= consumer.core.passedOver
        for consumer in wanting
    )
