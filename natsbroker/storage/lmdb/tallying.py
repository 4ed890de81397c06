"""
The tallies of one log in a write transaction: what there is of each subject.

A log of one subject has none; others have one for each subject.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from natsbroker.storage.blocks import Block
from natsbroker.storage.envelopes import unwrap
from natsbroker.storage.lmdb.blocklog import LogBlocks
from natsbroker.storage.lmdb.layout import LISTED, LogRow, Tally, tallyKey, tallyPrefix
from natsbroker.storage.lmdb.values import ValueTransaction
from natsbroker.storage.policy import Policy
from natsbroker.storage.records import Damaged, subjectOf

MOST_LISTED = 1024
"""How many sequences a tally lists at most."""

KEYS_A_SLICE = 1000
"""How many tallies are deleted at a time, to make them again."""


class LogTallies(LogBlocks):
    def __init__(self, transaction: ValueTransaction, row: LogRow, policy: Policy) -> None:
        super().__init__(transaction, row)
        self._policy = policy
        self._tallies: dict[bytes, Tally] = {}
        self._counted: list[bytes] = []

    def _beginIndex(self) -> None:
        """
        From now on there is more than one subject: make the tally of the one that there was.
        """
        row = self.row
        if row.indexed:
            return
        row.indexed = True
        if row.count:
            self.flush()
            tally = Tally(row.sole, row.count, row.first)
            tally.listed.extend(self._newest(LISTED))
            tally.last = tally.listed[-1] if tally.listed else row.last
            self._tallies[row.sole] = tally
        row.sole = b""

    def _tally(self, subject: bytes) -> Tally | None:
        tally = self._tallies.get(subject)
        if tally is None:
            key = tallyKey(self.row.identity, subject)
            raw = self._transaction.txn.get(key)
            if raw is None:
                return None
            tally = self._unwrapTally(key, raw) or self._recount(subject)
            self._tallies[subject] = tally
        return tally

    def _count(self, subjects: Sequence[bytes], sequences: Sequence[int]) -> None:
        keep = max(LISTED, min(self._policy.retention.perSubject, MOST_LISTED))
        found: dict[bytes, list[int]] = {}
        for subject, sequence in zip(subjects, sequences, strict=True):
            found.setdefault(subject, []).append(sequence)
        for subject, new in found.items():
            tally = self._tally(subject)
            if tally is None:
                tally = self._tallies[subject] = Tally(subject)
            tally.add(new, keep)
        self._counted += found

    def _uncount(self, block: Block, indexes: Sequence[int]) -> None:
        if not self.row.indexed:
            return
        emptied = set()
        for index in indexes:
            subject = subjectOf(block.raw, block.starts[index])
            tally = self._tally(subject)
            if tally is not None and tally.count:
                tally.remove(block.sequences[index])
                if tally.count and not tally.listed:
                    emptied.add(subject)
        for subject in emptied:
            tally = self._tallies[subject]
            gone = {block.sequences[index] for index in indexes}
            self._tallies[subject] = self._recount(subject, tally.first, gone)

    def _recount(self, subject: bytes, start: int = 0, without: Collection[int] = ()) -> Tally:
        """
        Count the records of a subject by looking at all.
        """
        self.flush()
        tally = Tally(subject)
        found = [each for each in self._sequencesOf(subject, start) if each not in without]
        if found:
            tally.add(found, MOST_LISTED)
        return tally

    def recountAll(self) -> None:
        transaction, row = self._transaction, self.row
        while transaction.deleteSome(tallyPrefix(row.identity), KEYS_A_SLICE):
            pass
        self._tallies = {}
        for block in self.blocksFrom(row.first):
            for index in block.living():
                if block.sequences[index] >= row.first:
                    subject = subjectOf(block.raw, block.starts[index])
                    tally = self._tallies.get(subject)
                    if tally is None:
                        tally = self._tallies[subject] = Tally(subject)
                    tally.add((block.sequences[index],), MOST_LISTED)

    def _unwrapTally(self, key: bytes, raw: bytes) -> Tally | None:
        """
        A tally, or C{None} if it is damaged.
        """
        try:
            return Tally.unpack(unwrap(raw, key).value)
        except Damaged:
            return None

    def _writeTallies(self) -> None:
        transaction = self._transaction
        for subject, tally in self._tallies.items():
            key = tallyKey(self.row.identity, subject)
            if tally.count:
                transaction.put(key, tally.pack())
            else:
                transaction.delete(key)
        self._tallies = {}
