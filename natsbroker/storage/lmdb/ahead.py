"""
The records of one log that are in the journal and not yet in the database. The reactor's thread
reads them.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from itertools import islice
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks

from natsbroker.interfaces.records import EncodedRecord, LogBounds
from natsbroker.storage.blocks import Block, readBlock
from natsbroker.storage.lmdb.fetching import (
    TallyPage,
    edgesIn,
    fetchAbsent,
    fetchBefore,
    fetchEdges,
    fetchTallies,
    talliesIn,
)
from natsbroker.storage.lmdb.layout import Tally, subjectOrder
from natsbroker.storage.records import sequenceOf, subjectOf
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.searching import PatternSearch


class RecordsAhead:
    """
    @ivar gone: subjects by sequence, of records here and in the database that limits remove; the
        subject is empty for a deleted record.
    @ivar deleted: the deleted records. The database must apply their deletion before subjects are
        counted.
    """

    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self.gone: dict[int, bytes] = {}
        self.deleted: set[int] = set()
        self._added: dict[bytes, list[int]] = {}
        self._removed: dict[bytes, list[int]] = {}
        self._counted = 0
        self._uncounted = 0

    def add(
        self, blobs: Sequence[bytes], gone: Mapping[int, bytes], deleted: Collection[int] = ()
    ) -> None:
        self.blobs += blobs
        self.gone.update(gone)
        if deleted:
            self.gone.update(dict.fromkeys(deleted, b""))
            self.deleted.update(deleted)

    @property
    def first(self) -> int:
        return sequenceOf(self.blobs[0], 0) if self.blobs else 0

    def hasOnly(self, prefix: bytes) -> bool:
        self._index()
        return all(subject.startswith(prefix) for subject in self._added)

    def recall(self, sequence: int) -> EncodedRecord | None:
        """The bytes of a record, if it is here and was not removed."""
        place = sequence - self.first if self.blobs else -1
        if not 0 <= place < len(self.blobs) or sequence in self.gone:
            return None
        blob = self.blobs[place]
        return blob, 0, len(blob)

    def block(self, identity: int, sequence: int, enough: int) -> list[Block]:
        """The records from a sequence on, as a block of about C{enough} bytes."""
        first = self.first
        start = max(sequence - first, 0)
        starts = array("I", (0,))
        for place in range(start, len(self.blobs)):
            if starts[-1] >= enough:
                break
            starts.append(starts[-1] + len(self.blobs[place]))
        count = len(starts) - 1
        if not count:
            return []
        raw = b"".join(self.blobs[start : start + count])
        sequences = range(first + start, first + start + count)
        return [Block(raw, identity, sequences, starts, self.goneIn(sequences))]

    def goneIn(self, sequences: Collection[int]) -> frozenset[int]:
        gone = self.gone
        if not gone:
            return _NONE
        fewer, others = (gone, sequences) if len(gone) < len(sequences) else (sequences, gone)
        return frozenset(sequence for sequence in fewer if sequence in others)

    def lastOf(self, subject: bytes) -> int:
        if not self.blobs:
            return 0
        self._index()
        sequences = self._added.get(subject)
        return sequences[-1] if sequences else 0

    @property
    def subjects(self) -> list[bytes]:
        self._index()
        return list(self._added)

    def _index(self) -> None:
        for blob in islice(self.blobs, self._counted, None):
            self._added.setdefault(subjectOf(blob, 0), []).append(sequenceOf(blob, 0))
        for sequence, subject in islice(self.gone.items(), self._uncounted, None):
            if subject:
                self._removed.setdefault(subject, []).append(sequence)
        self._counted, self._uncounted = len(self.blobs), len(self.gone)

    def merged(
        self,
        page: TallyPage,
        pattern: bytes,
        after: bytes,
        limit: int,
        order: Callable[[bytes], bytes] = subjectOrder,
    ) -> list[Tally]:
        """
        The tallies of a page of the database, including these records.

        @param after: the subject behind which the page begins; empty for none.
        @param order: gives the sort key of a subject.
        """
        if not self.blobs or page.last >= self.first:
            return page.tallies  # The database has caught up.
        tallies = {listed.subject: listed for listed in page.tallies}
        for subject in self._between(pattern, after, page.following, order):
            tally = tallies.setdefault(subject, Tally(subject))
            tally.add(self._added[subject], sys.maxsize)
            for sequence in self._removed.get(subject, ()):
                tally.remove(sequence)
        return sorted(tallies.values(), key=lambda tally: order(tally.subject))[:limit]

    def _between(
        self, pattern: bytes, after: bytes, following: bytes, order: Callable[[bytes], bytes]
    ) -> list[bytes]:
        self._index()
        low = order(after) if after else b""
        high = order(following) if following else b""
        if hasWildcard(pattern):
            subjects = PatternSearch(pattern).select(list(self._added))
        else:
            subjects = [pattern] if pattern in self._added else []
        return [
            subject
            for subject in subjects
            if low < (key := order(subject)) and (not high or key <= high)
        ]


_NONE: frozenset[int] = frozenset()

TALLIES = 4096
"""The number of subjects that are looked at in one go."""

QUICK = 64
"""The number of subjects that the reactor's thread looks at, where there may be many."""

AHEAD = 1 << 18
"""The bytes of blocks that are fetched at a time."""


@inlineCallbacks
def tighten(
    tallies: Sequence[Tally],
    bounds: LogBounds,
    fetch: Callable[[int, int], Deferred[list[Block]]],
) -> Generator[Deferred[Any], Any, None]:
    """Find the first records of subjects for which only a lower bound is known."""
    wanted = {loose.subject: loose for loose in tallies}
    sequence = max(min((loose.first for loose in tallies), default=0), bounds.first)
    enough = 1  # Mostly the records just removed were the oldest, and the next ones are near.
    while wanted and sequence <= bounds.last:
        blocks = yield fetch(sequence, enough)
        if not blocks:
            break
        for block in blocks:
            _findFirsts(wanted, block, sequence)
        sequence, enough = blocks[-1].last + 1, AHEAD


def _findFirsts(wanted: dict[bytes, Tally], block: Block, start: int) -> None:
    """Search the first records of subjects, from a sequence on, until all are known."""
    for index in block.living(start):
        if not wanted:
            break
        subject = block.subject(index)
        tally = wanted.get(subject)
        if tally is not None and block.sequences[index] >= tally.first:
            tally.first = block.sequences[index]
            del wanted[subject]


MOST_LASTS = 20_000
"""The most subjects of which a log remembers the last sequence."""


class LastSequences:
    """The last sequences of recent subjects. C{epoch} counts how often all were forgotten."""

    def __init__(self) -> None:
        self.epoch = 0
        self._known: dict[bytes, int] = {}

    def appended(self, subjects: Sequence[bytes], sequences: range) -> None:
        known = self._known
        if len(known) > MOST_LASTS:
            self.clear()
        known.update(zip(subjects, sequences, strict=True))

    def find(self, subject: bytes) -> int:
        """
        The last sequence of a subject; 0 if it is not known. Limits may have removed the record.
        """
        return self._known.get(subject, 0)

    def found(self, subject: bytes, sequence: int, epoch: int) -> None:
        """Remember a result that was looked up in C{epoch}. Later appends are known."""
        if epoch != self.epoch:
            return
        if len(self._known) > MOST_LASTS:
            self.clear()
        self._known.setdefault(subject, sequence)

    def forget(self, subject: bytes) -> None:
        self._known.pop(subject, None)

    def clear(self) -> None:
        self.epoch += 1
        self._known.clear()


@inlineCallbacks
def newestIn(owner: Any, identity: int, bounds: LogBounds) -> Generator[Deferred[Any], Any, int]:
    """The newest existing sequence in the database, damaged or not; 0 if there is none."""
    sequence = bounds.last
    while sequence >= bounds.first:
        raw = yield owner.fetch(fetchBefore, identity, sequence)
        if raw is None:
            break
        block = readBlock(raw.raw, identity, raw.first, raw.dead)
        if block is not None:
            sequences = [*(block.sequences[index] for index in block.living()), *block.missing]
            newest = max((candidate for candidate in sequences if candidate <= sequence), default=0)
            if newest:
                return newest if newest >= bounds.first else 0
        sequence = raw.first - 1
    return 0


class TallyReader:
    def __init__(self, owner: Any, identity: int) -> None:
        self._owner = owner
        self._identity = identity

    @inlineCallbacks
    def listed(
        self, ahead: Callable[[], RecordsAhead], pattern: bytes, after: bytes, limit: int
    ) -> Generator[Deferred[Any], Any, list[Tally]]:
        """
        The tallies of matching subjects behind C{after}, at most C{limit} (0 for any number).

        @param ahead: gives the records that the database does not have.
        """
        tallies: list[Tally] = []
        while not limit or len(tallies) < limit:
            records, most = ahead(), limit - len(tallies) if limit else TALLIES
            page: TallyPage = yield from self._page(pattern, after, most)
            order = self._owner.codec.order
            tallies += records.merged(page, pattern, after, most if limit else sys.maxsize, order)
            after = page.following
            if not after:
                break
        return tallies

    def _page(
        self, pattern: bytes, after: bytes, most: int
    ) -> Generator[Deferred[Any], Any, TallyPage]:
        page: TallyPage | None = None
        codec = self._owner.codec
        if not (hasWildcard(pattern) and (codec.isSealed or after)):
            page = self._owner.readQuickly(
                talliesIn, codec, self._identity, pattern, after, most, QUICK
            )
        if page is None:
            page = yield self._owner.fetch(
                fetchTallies, self._identity, pattern, after, most, TALLIES
            )
        return page

    @inlineCallbacks
    def haveOnly(self, ahead: RecordsAhead, pattern: bytes) -> Generator[Deferred[Any], Any, bool]:
        prefix = pattern[:-1]
        if pattern == b">" or not pattern.endswith(b".>") or hasWildcard(prefix[:-1]):
            return pattern == b">"
        # All others begin with what the first and the last subject begin with.
        edges: list[bytes] | None = self._owner.readQuickly(
            edgesIn, self._owner.codec, self._identity
        )
        if edges is None:
            edges = yield self._owner.fetch(fetchEdges, self._identity)
        return ahead.hasOnly(prefix) and all(edge.startswith(prefix) for edge in edges)

    @inlineCallbacks
    def all(
        self, ahead: RecordsAhead, subject: bytes
    ) -> Generator[Deferred[Any], Any, Sequence[int] | None]:
        """
        The sequences of the records of a literal subject, rising; C{None} if not all are listed.
        """
        page = yield from self._page(subject, b"", 1)
        tallies = ahead.merged(page, subject, b"", 1)
        if not tallies:
            return ()
        return tallies[0].listed if tallies[0].complete else None

    @inlineCallbacks
    def count(self, ahead: RecordsAhead, known: int) -> Generator[Deferred[Any], Any, int | None]:
        """
        The number of subjects; C{None} if the database caught up with the journal meanwhile.

        @param known: how many are in the database.
        """
        if not ahead.blobs:
            return known
        first, subjects = ahead.first, ahead.subjects
        absent, last = yield self._owner.fetch(fetchAbsent, self._identity, subjects)
        return known + absent if last < first else None
