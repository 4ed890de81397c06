"""
Interest and work-queue retention: a stream removes what its consumers have settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, inlineCallbacks

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.contracts import MessageNeeds, RetainingStream
from natsbroker.jetstream.model.streamconfig import RetentionPolicy
from natsbroker.jetstream.streams.reading import SLICE

if TYPE_CHECKING:
    from collections.abc import Generator


class ConsumerRetention:
    """
    Removes the messages of a stream that no consumer needs.
    """

    def __init__(self, stream: RetainingStream) -> None:
        self._stream = stream

    def _consumers(self, but: object = None) -> list[MessageNeeds]:
        return [each for each in self._stream.consumers.values() if each is not but]

    async def release(self, consumer: object, sequences: Collection[int]) -> None:
        """
        Remove those of some messages that no other consumer needs. In a work queue no other one
        has them.

        @param consumer: has settled them.
        """
        if self._stream.config.retention is RetentionPolicy.INTEREST:
            await self._releaseUnlessNeeded(sequences, consumer)
        else:
            await self._stream.remove(sequences)

    async def releaseLate(self, sequences: Collection[int]) -> None:
        """
        Remove those of some messages that no consumer needs. They are acknowledged, but lie behind
        the floor of the consumer: a reset has moved it past them, or they are gone already.
        """
        await self._releaseUnlessNeeded(sequences, None)

    async def _releaseUnlessNeeded(self, sequences: Collection[int], but: object) -> None:
        waiting = deque(sequences)
        while waiting:
            await self._stream.remove(await self.takeUnneeded(waiting, self._consumers(but)))
            if waiting:
                await self._stream.account.deadlines.turn()

    async def takeUnneeded(self, waiting: deque[int], others: Sequence[MessageNeeds]) -> list[int]:
        """
        @param waiting: sequences; as many are taken from it as are looked at in one turn.
        @return: those that none of some consumers needs.
        """
        isFiltered = any(each.filters for each in others)
        wanting: dict[bytes, Sequence[MessageNeeds]] = {}
        unneeded: list[int] = []
        looked = 0
        while waiting and looked < SLICE:
            sequence, these = waiting.popleft(), others
            if isFiltered:
                record = await self._stream.get(sequence)
                if record is None:
                    continue
                subject = record.subject
                if subject not in wanting:
                    looked += len(others)
                    wanting[subject] = [each for each in others if each.wants(subject)]
                these = wanting[subject]
            looked += len(these) + 1
            if not any(each.needs(sequence) for each in these):
                unneeded.append(sequence)
        return unneeded

    def releaseUnneeded(self, last: int) -> Deferred[None]:
        """
        Remove messages that no consumer needs.

        @param last: only those up to this sequence.
        """
        return self._releaseWhere(_isUnneeded, last)

    def begin(self) -> Deferred[None]:
        """
        Remove what consumers have settled while the stream kept it: its retention has become
        interest. As in nats-server, a message that no consumer wants stays if there are consumers.
        """
        return self._releaseWhere(_isSettled, self._stream.last)

    @inlineCallbacks
    def _releaseWhere(
        self, isUnneeded: Callable[[Record, Sequence[MessageNeeds]], bool], last: int
    ) -> Generator[Deferred[Any], Any, None]:
        stream = self._stream
        sequence = max(stream.first, 1)
        if sequence <= last and not stream.consumers:
            # All at once: a stream may have millions of messages.
            yield stream.discardBefore(last + 1)
            return
        while sequence <= last:
            # Each message is looked at for each consumer.
            limit = max(SLICE // max(len(stream.consumers), 1), 1)
            found = yield stream.read((), sequence, limit, 1 << 24)
            yield stream.account.deadlines.turn()
            consumers = self._consumers()
            yield stream.remove(
                [each.sequence for each in found.records if isUnneeded(each, consumers)]
            )
            sequence = found.next


def _isUnneeded(record: Record, consumers: Sequence[MessageNeeds]) -> bool:
    return not any(each.wants(record.subject) and each.needs(record.sequence) for each in consumers)


def _isSettled(record: Record, consumers: Sequence[MessageNeeds]) -> bool:
    wanting = [each for each in consumers if each.wants(record.subject)]
    if consumers and not wanting:
        return False
    return not any(each.needs(record.sequence) for each in wanting)
