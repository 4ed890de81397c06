"""
Reading records into a list, or into what the lane has instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from natsbroker import hot
from natsbroker.interfaces.records import Record, RecordDamaged
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.history import Recorder
from tests.storage.lmdb.test_scrubbing import damage
from tests.support import needsCompiled

SUBJECTS = [b"a.1", b"a.2", b"b", b"a.1", b"c", b"a.2"]


class LogStage:
    """
    A log on disk, with deleted records in the database and more in the journal.
    """

    def __init__(self, path: Path) -> None:
        self.reactor = PumpedReactor()
        self.store: Any = self.wait(openLMDB(self.reactor, path))
        self.log: Any = self.wait(self.store.open("log"))
        self.put(200)
        self.wait(self.log.delete(range(7, 200, 7)))
        self.wait(self.store.close())
        self.store = self.wait(openLMDB(self.reactor, path))
        self.log = self.wait(self.store.open("log"))
        self.put(20)

    def wait(self, deferred: Any) -> Any:
        return self.reactor.wait(deferred)

    def put(self, count: int) -> None:
        """Append records with all subjects in turn."""
        entries = [
            (
                SUBJECTS[number % len(SUBJECTS)],
                b"head" + b"er" * (number % 2),
                b"%d" % number,
                1 + number,
            )
            for number in range(count)
        ]
        self.wait(self.log.append(entries))

    def walk(self, patterns: tuple[bytes, ...], limit: int, isEncoded: bool) -> list[Record]:
        """All records that match, a few at a time."""
        records: list[Record] = []
        sequence = 1
        while sequence <= self.log.bounds().last:
            some: Any = hot.EncodedRecords(Record) if isEncoded else []
            following = self.wait(self.log.collect(some, patterns, sequence, limit, 1 << 20))
            assert following > sequence and len(some) <= limit
            assert all(sequence <= record.sequence < following for record in some)
            records += some
            sequence = following
        return records


@needsCompiled
@pytest.mark.parametrize("limit", [1, 30, 1000])
@pytest.mark.parametrize("patterns", [(), (b"a.*",), (b"a.1", b"b"), (b"c",), (b"none",), (b">",)])
def test_collected(tmp_path: Path, patterns: tuple[bytes, ...], limit: int) -> None:
    """
    Both readers give the same records, each once, from blocks and from the journal, without deleted
    ones.
    """
    stage = LogStage(tmp_path / "store")
    try:
        decoded = stage.walk(patterns, limit, isEncoded=False)
        assert stage.walk(patterns, limit, isEncoded=True) == decoded
        bare = {subject for subject in SUBJECTS if not patterns or subject in patterns}
        wanted = bare if b"a.*" not in patterns else {b"a.1", b"a.2"}
        wanted = set(SUBJECTS) if b">" in patterns else wanted
        everything = [number for number in range(1, 221) if number % 7 or number >= 200]
        place = [number if number <= 200 else number - 200 for number in everything]
        assert [record.sequence for record in decoded] == [
            sequence
            for sequence, number in zip(everything, place, strict=True)
            if SUBJECTS[(number - 1) % len(SUBJECTS)] in wanted
        ]
    finally:
        stage.wait(stage.store.close())


@pytest.mark.parametrize("subjects", [(b"s", b"s"), (b"s", b"t")])
def test_counts(tmp_path: Path, subjects: tuple[bytes, bytes]) -> None:
    """
    A damaged record is not counted any more once it is found, also after a restart; its subject is
    known to have lost its last record.
    """
    reactor, wait = PumpedReactor(), PumpedReactor.wait
    directory = tmp_path / "store"
    store: Any = wait(reactor, openLMDB(reactor, directory))
    log = wait(reactor, store.open("log"))
    batch = [(subjects[number > 5], b"", b"payload %02d." % number, 0) for number in range(1, 11)]
    wait(reactor, log.append(batch))
    wait(reactor, store.close())
    damage(directory / "data.mdb", b"payload 01.", b"payload 04.", b"payload 10.")
    for isFirst in (True, False):
        store = wait(reactor, openLMDB(reactor, directory))
        recorder = Recorder()
        store.watch(recorder)
        log = wait(reactor, store.open("log"))
        size = len(b"spayload 01.")
        assert (log.bounds().count, log.bounds().size) == (
            (10, 10 * size) if isFirst else (7, 7 * size)
        )
        read = [record.sequence for record in wait(reactor, log.read(1))]
        assert read == [2, 3, 5, 6, 7, 8, 9]
        wait(reactor, log.append([]))
        assert (log.bounds().count, log.bounds().size) == (7, 7 * size)
        assert (log.bounds().first, log.bounds().last) == (2, 10)
        assert {loss[1] for loss in recorder.damaged} >= {4, 10}
        with pytest.raises(RecordDamaged):
            wait(reactor, log.lastFor(subjects[1]))
        assert wait(reactor, log.exportRange(2, 11)).damaged == (4, 10)
        reactor.advance(1)
        wait(reactor, store.close())
