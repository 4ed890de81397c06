"""The messages that a consumer has yet to deliver, or delivers again, as far as they were read."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from twisted.logger import Logger

from natsbroker.interfaces.records import Record, StoreError
from natsbroker.jetstream.consumers.recordbuffer import RecordBuffer
from natsbroker.jetstream.contracts import ConsumerStream
from natsbroker.subjects.verdicts import SubjectVerdicts

_log = Logger(namespace="natsbroker.jetstream")

#: Messages that are read at once, and that are kept for a consumer that takes none.
PIECE = 512

#: Messages that are read at once for a consumer that takes all that was read.
LARGE_PIECE = 2048

#: Bytes that are read at once.
PIECE_BYTES = 1 << 20

#: Seconds after which a read that failed is tried again.
RETRY = 1.0

#: Single messages with gaps of up to this many others between them are read together.
_GAP = 4

#: Subjects of which is remembered whether they match the filters.
_SUBJECTS = 4096


async def fetchRecords(stream: ConsumerStream, sequences: Sequence[int]) -> dict[int, Record]:
    """
    The messages at rising sequences that the stream still has, by sequence. Those near each other
    are read together.
    """
    records: dict[int, Record] = {}
    wanted = set(sequences)
    place = 0
    while place < len(sequences):
        end = place + 1
        while end < len(sequences) and sequences[end] - sequences[end - 1] <= _GAP:
            end += 1
        first, last = sequences[place], sequences[end - 1]
        if first == last:
            record = await stream.get(first)
            if record is not None:
                records[first] = record
            place = end
            continue
        matching = await stream.read((), first, last - first + 1, PIECE_BYTES)
        records.update(
            (stored.sequence, stored) for stored in matching.records if stored.sequence in wanted
        )
        covered = max(matching.next, first + 1)
        while place < end and sequences[place] < covered:
            place += 1
    return records


class StoredCount:
    """The number of messages with certain subjects that were stored so far, up to C{last}."""

    count = last = 0


class RecordCursor:
    """
    The position of a consumer in its stream.

    @ivar position: the first sequence that was neither delivered nor skipped.
    @ivar resume: for C{last_per_subject}: the sequence up to which only the last message of each
        subject is delivered; else 0.
    @ivar isBusy: whether a read or a count is under way. More may be known soon.
    """

    def __init__(
        self,
        stream: ConsumerStream,
        filters: tuple[bytes, ...],
        ready: Callable[[], object],
        queue: Callable[[int], list[int]],
    ) -> None:
        """
        @param filters: empty for all messages.
        @param ready: called when a read has ended.
        @param queue: gives a number of first sequences of the redelivery queue.
        """
        self._stream = stream
        self._ready = ready
        self._queue = queue
        self.filters = filters
        self._matching = SubjectVerdicts(filters)
        self._generation = self._changes = self._removals = 0
        self._isStale = True
        self.isBusy = False
        self._asleep: tuple[StoredCount, Callable[[], object], int] | None = None
        self.restart(1)

    def restart(self, position: int, resume: int = 0, skip: Collection[int] = ()) -> None:
        """
        Begin at another position; the pending messages are to be counted afterwards.

        @param skip: for C{last_per_subject}: the sequences up to C{resume} that are delivered.
        """
        self._wake()
        self._generation += 1
        self.position = position
        self.resume = resume
        self._skip = deque(skip)
        self._buffer = RecordBuffer()
        self._scan = resume + 1 if resume and not skip else position
        self._piece = PIECE
        self._again: dict[int, Record | None] = {}
        self._remaining = 0
        self._counted = self._last = self._stream.last
        self._stale()

    def refilter(self, filters: tuple[bytes, ...]) -> None:
        """Continue at the same position with other filters."""
        self.filters = filters
        self._matching = SubjectVerdicts(filters)
        self.restart(self.position)

    def wants(self, subject: bytes) -> bool:
        if not self.filters:
            return True
        if len(self._matching) >= _SUBJECTS:
            self._matching.clear()
        return self._matching[subject]

    # The number of pending messages.

    @property
    def numPending(self) -> int:
        """The messages that were not delivered yet."""
        missed = 0 if self._asleep is None else self._asleep[0].count - self._asleep[2]
        if not missed and not self._skip and self.position > self._last:
            return 0
        return max(self._remaining + missed, 0)

    @property
    def isCounted(self) -> bool:
        """Whether the number of pending messages is exact."""
        return not self._isStale

    async def recount(self) -> None:
        """
        Count the pending messages, again if there was a change meanwhile.

        @raise natsbroker.interfaces.records.StoreError: if they cannot be counted.
        """
        self._catchUp()
        for isLastTry in (False, False, True):
            if not self._isStale:
                return
            changes, position = self._changes, max(self.position, self.resume + 1)
            counted = await self._stream.count(self.filters, position)
            self._catchUp()
            if changes == self._changes or isLastTry:
                position = max(self.position, self.resume + 1)
                self._remaining = counted + len(self._skip)
                self._remaining += self._buffer.countBefore(position)
                self._counted = self._last = self._stream.last
                self._isStale = False

    def count(self) -> bool:
        """Count the pending messages if necessary; true if their number is exact afterwards."""
        if self._isStale and not self.isBusy:
            self._run(self.recount)
        return not self._isStale

    def _stale(self) -> None:
        self._isStale = True
        self._changes += 1

    def stored(self, records: Sequence[Record], last: int, keep: bool) -> None:
        """
        Take durable messages that match the filters.

        @param records: at least one, in order of sequence.
        @param last: the sequence up to which no others match.
        @param keep: whether the consumer can deliver, so that reading them again can be saved.
        """
        self._changes += 1
        counted, self._counted = self._counted, max(self._counted, last)
        first = max(counted + 1, self.position)
        if records[0].sequence >= first:
            self._remaining += len(records)
        else:
            self._remaining += sum(1 for record in records if record.sequence >= first)
        isCovered = self._isCovered
        self._last = max(self._last, last)
        if isCovered and keep and len(self._buffer) < PIECE:
            scan = self._scan
            self._buffer.extend([record for record in records if record.sequence >= scan])
            self._scan = max(scan, last + 1)

    def canSleep(self, last: int) -> bool:
        """Whether counting the messages that are stored from now on is enough."""
        if self.isBusy or (self._stream.config.max_msgs_per_subject > 0 and not self._isStale):
            return False
        return self._counted == self._last == last >= self.position - 1

    def sleep(self, stored: StoredCount, woken: Callable[[], object]) -> None:
        """Only count stored messages, until C{woken} is called at the next use."""
        self._asleep = stored, woken, stored.count
        if self._buffer and self._stream.config.max_msgs_per_subject > 0:
            self._forgetRead()  # New messages may have replaced some.

    def _wake(self) -> None:
        if self._asleep is None:
            return
        (stored, woken, known), self._asleep = self._asleep, None
        woken()
        if stored.count > known:
            self._changes += 1
            self._remaining += stored.count - known
            self._counted = self._last = stored.last
            if self._stream.config.max_msgs_per_subject > 0:
                self._stale()

    @property
    def _isCovered(self) -> bool:
        """Whether all messages up to the last one that the cursor knows of are read."""
        return self._scan > self._last and not self._skip and not self.isBusy

    @property
    def isHolding(self) -> bool:
        """
        Whether the cursor has read messages that must be dropped when the stream removes them.
        """
        return bool(self._buffer or self._skip or self._again)

    def _catchUp(self) -> None:
        """
        Skip messages that are gone or do not match, since the cursor knows which messages match. If
        some may be gone, the pending messages are counted again.
        """
        self._wake()
        if self._stream.first > self.position:
            self._discardBefore(self._stream.first)
        consumers = self._stream.consumers
        removals, lastRemoved = consumers.removalsOf(self.filters)
        if removals != self._removals:
            self._removals = removals
            if self._remaining and lastRemoved >= self.position:
                self._stale()
        if consumers.announced > self._last and self._isCovered:
            self._scan = max(self._scan, consumers.announced + 1)
            self._last = consumers.announced

    def replaced(self, records: Sequence[Record], isLast: bool) -> None:
        """
        Count undelivered messages again, because new ones may have replaced them, and read them
        again unless they are known.

        @param isLast: whether the stream keeps only the last message of each subject.
        """
        first = records[0].sequence
        if self.position >= first and len({record.subject for record in records}) == len(records):
            return
        limit = self._stream.config.max_msgs_per_subject
        if self._isCovered and not self._isStale and len(self._buffer) <= limit:
            return  # All undelivered messages are known, and too few to replace one another.
        self._stale()
        if isLast:
            last = {record.subject: record.sequence for record in records}
            self._buffer.keep(lambda record: last.get(record.subject, 0) <= record.sequence)
        elif not self.isBusy:
            self._forgetRead()

    def _forgetRead(self) -> None:
        """Drop the records that were read and not delivered, to read them again."""
        skipped = [record.sequence for record in self._buffer if record.sequence <= self.resume]
        self._skip.extendleft(reversed(skipped))
        self._buffer.clear()
        self._scan = max(self.position, self.resume + 1)

    def removed(self, sequences: Collection[int], before: int) -> None:
        """Take note of removed messages, perhaps again: single ones, and all below C{before}."""
        if self._again:
            for sequence in sequences:
                if sequence in self._again:
                    self._again[sequence] = None
        if before > self.position:
            self._discardBefore(before)
        if not sequences:
            return
        removals, _ = self._stream.consumers.removalsOf(self.filters)
        if removals == self._removals + 1:
            self._removals = removals  # No other removals were unknown.
        later = [sequence for sequence in sequences if sequence >= self.position]
        if later:
            self._discard(later)

    def _discardBefore(self, before: int) -> None:
        self._wake()
        if self._again:
            self._again = {key: record for key, record in self._again.items() if key >= before}
        isRead = self._scan >= before and not self._skip
        dropped = self._buffer.countBefore(before)
        self._buffer.drop(dropped)
        while self._skip and self._skip[0] < before:
            self._skip.popleft()
        self.position = before
        self._scan = max(self._scan, before)
        if before > self._counted:
            self._remaining = 0
        elif dropped or not (isRead or self._isExactlyNone):
            self._remaining = min(self._remaining, self._counted - before + 1)
            self._stale()

    @property
    def _isExactlyNone(self) -> bool:
        return not (self._remaining or self._isStale)

    def _discard(self, gone: Sequence[int]) -> None:
        removed = [self._buffer.remove(sequence) for sequence in gone]
        if any(removed) or self._skip or max(gone) >= self._scan:
            # It is not known whether the unread messages matched, so all are counted again.
            self._stale()
        if self._skip:
            skipped = set(gone)
            self._skip = deque(sequence for sequence in self._skip if sequence not in skipped)

    # Reading.

    def peek(self) -> Record | None:
        """The next message; C{None} if there is none, or if it is being read."""
        self._catchUp()
        if self._isStale and not self.count():
            return None
        if not self._buffer and not self.isBusy:
            if self._skip:
                self._run(self._readSkip)
            elif self._scan <= self._stream.last:
                self._run(self._read)
        if self._buffer:
            return self._buffer.first
        if not self.isBusy and not self._skip and self._scan > self._stream.last:
            self.position = max(self.position, self._scan)
        return None

    @property
    def isAtEnd(self) -> bool:
        if self._buffer or self._skip or self.isBusy or self._isStale:
            return False
        return self._scan > self._stream.last

    def take(self, sequence: int) -> None:
        """Take the next message, which is delivered."""
        self._buffer.drop(1)
        if sequence <= self._counted:
            self._remaining -= 1
        self.position = sequence + 1
        if sequence <= self.resume and not self._skip:
            if not self._buffer or self._buffer.first.sequence > self.resume:
                self.position = self.resume + 1

    def upcoming(self, limit: int) -> Sequence[Record]:
        """
        Some of the next messages. All others are pending after the first of these. None if the
        number of pending messages does not fall by one with each of them.
        """
        if self.peek() is None or self._skip or self.position <= self.resume:
            return []
        records = self._buffer.upcoming(limit)
        if records[-1].sequence > min(self._counted, self._last):
            return []
        return records

    def takeRun(self, count: int, last: int) -> None:
        """Take the L{upcoming} messages up to a sequence, which are delivered."""
        buffer = self._buffer
        buffer.drop(count)
        self._piece = LARGE_PIECE if buffer.isBetweenParts else PIECE
        self.position = last + 1
        self._remaining -= count
        if len(buffer) < PIECE and not self.isBusy and self._scan <= self._stream.last:
            self._run(self._read)

    def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        self.isBusy = True
        self._stream.account.run(self._guard(work))

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreError as error:
            _log.error("Cannot read stream {name}: {why}", name=self._stream.name, why=str(error))
            self._stream.account.deadlines.after(RETRY, self._retry)
            return
        self.isBusy = False
        self._ready()

    def _retry(self) -> None:
        self.isBusy = False
        self._ready()

    async def _read(self) -> None:
        generation, scan = self._generation, self._scan
        matching = await self._stream.readEncoded(self.filters, scan, self._piece, PIECE_BYTES)
        if generation == self._generation:
            records, position = matching.records, self.position
            if records and records[0].sequence < position:
                records = [record for record in records if record.sequence >= position]
            self._buffer.extend(records)
            self._scan = max(self._scan, matching.next)
            if self._scan == self._counted + 1 and not self._skip:
                self._remaining = len(self._buffer)  # Damaged ones were counted, too.

    async def _readSkip(self) -> None:
        generation = self._generation
        wanted = [self._skip[place] for place in range(min(PIECE, len(self._skip)))]
        records = await fetchRecords(self._stream, wanted)
        if generation != self._generation:
            return
        for sequence in wanted:
            if not self._skip or self._skip[0] != sequence:
                continue  # The message was removed meanwhile.
            self._skip.popleft()
            record = records.get(sequence)
            if record is None:
                self._remaining -= 1
            else:
                self._buffer.extend([record])
        if not self._skip:
            self._scan = max(self._scan, self.resume + 1)

    # Messages that are delivered again.

    def again(self, sequence: int) -> tuple[bool, Record | None]:
        """
        A message to deliver again. Return whether it is known, and the message; C{None} if it is
        gone.
        """
        if sequence not in self._again and not self.isBusy:
            self._run(self._readAgain)
        if sequence in self._again:
            return True, self._again[sequence]
        return False, None

    def forgetAgain(self, sequence: int) -> None:
        self._again.pop(sequence, None)

    def forgetRun(self, sequences: Iterable[int]) -> None:
        if self._again:
            for sequence in sequences:
                self._again.pop(sequence, None)

    async def _readAgain(self) -> None:
        generation = self._generation
        wanted = sorted(self._queue(PIECE))
        records = await fetchRecords(self._stream, wanted)
        if generation == self._generation:
            self._again = {sequence: records.get(sequence) for sequence in wanted}
