"""Messages that may or may not be stored, because the store failed."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.python.failure import Failure

from natsbroker.interfaces.records import Record, StoreFailed
from natsbroker.jetstream.streams.streamcore import StreamCore

_PIECE = 1024
_PIECE_BYTES = 1 << 24

#: The number of newest messages whose rollups are repeated after a start.
_NEWEST = 128


class UnknownOutcome:
    """
    Finds out which messages were stored, once the store works again. Consumers and other followers
    learn of them as if they had just been stored, before any later messages. Otherwise, these
    messages would never be delivered.

    @ivar isOpen: whether there are messages in doubt. Messages that become durable meanwhile are
        found too.
    """

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._next = self._doubts = 0
        self._found = 0

    @property
    def isOpen(self) -> bool:
        return self._next > 0

    def failed(self, sequence: int, failure: Failure) -> None:
        """
        Note that messages could not be stored.

        @param sequence: of the first one.
        """
        duplicates = self._stream.publisher.duplicates
        duplicates.forgetFrom(sequence)
        if failure.check(StoreFailed):
            self._doubts += 1
            self._next = min(self._next or sequence, sequence)
            duplicates.isKnown = False
            self._stream.upkeep.keepTrying(self._find)

    def unannounced(self, records: Sequence[Record]) -> Sequence[Record]:
        """The durable records that were not announced."""
        if records[0].sequence <= self._found:
            return [record for record in records if record.sequence > self._found]
        return records

    async def _find(self) -> None:
        stream, duplicates = self._stream, self._stream.publisher.duplicates
        while self.isOpen:
            doubts = self._doubts
            # An empty append fails until the store writes again, and knows its content.
            await stream.log.append([])
            # The message before the next one has the last id if none was stored.
            sequence = max(self._next - 1, stream.first, 1)
            while sequence <= stream.last:
                page = await stream.read((), sequence, _PIECE, _PIECE_BYTES)
                duplicates.read(page.records)
                new = [record for record in page.records if record.sequence >= self._next]
                self._next = max(self._next, page.next)
                sequence = page.next
                self._found = sequence - 1
                stream.announce(new, bool(new))
                stream.publisher.rollUpAgain(new)
            if doubts == self._doubts:
                self._next = 0
                duplicates.isKnown = True

    async def compare(self) -> None:
        """
        After a start, complete rollups of the newest messages, which may have been interrupted.
        """
        stream, last = self._stream, self._stream.last
        if stream.config.allow_rollup_hdrs:
            start = max(last + 1 - _NEWEST, stream.first, 1)
            page = await stream.read((), start, _NEWEST, _PIECE_BYTES)
            stream.publisher.rollUpAgain(
                [record for record in page.records if record.sequence <= last]
            )
