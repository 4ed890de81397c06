"""
Reading records into a list, or into what the lane has instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from natsbroker import hot
from natsbroker.interfaces.records import Record
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
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
            (SUBJECTS[each % len(SUBJECTS)], b"head" + b"er" * (each % 2), b"%d" % each, 1 + each)
            for each in range(count)
        ]
        self.wait(self.log.append(entries))

    def walk(self, patterns: tuple[bytes, ...], limit: int, isEncoded: bool) -> list[Record]:
        """All records that match, a few at a time."""
        found: list[Record] = []
        sequence = 1
        while sequence <= self.log.bounds().last:
            some: Any = hot.EncodedRecords(Record) if isEncoded else []
            following = self.wait(self.log.collect(some, patterns, sequence, limit, 1 << 20))
            assert following > sequence and len(some) <= limit
            assert all(sequence <= each.sequence < following for each in some)
            found += some
            sequence = following
        return found


@needsCompiled
@pytest.mark.parametrize("limit", [1, 30, 1000])
@pytest.mark.parametrize("patterns", [(), (b"a.*",), (b"a.1", b"b"), (b"c",), (b"none",), (b">",)])
def test_collected(tmp_path: Path, patterns: tuple[bytes, ...], limit: int) -> None:
    """Both give the same records, each once: in blocks, in the journal, not deleted."""
    stage = LogStage(tmp_path / "store")
    try:
        decoded = stage.walk(patterns, limit, isEncoded=False)
        assert stage.walk(patterns, limit, isEncoded=True) == decoded
        bare = {each for each in SUBJECTS if not patterns or each in patterns}
        wanted = bare if b"a.*" not in patterns else {b"a.1", b"a.2"}
        wanted = set(SUBJECTS) if b">" in patterns else wanted
        everything = [each for each in range(1, 221) if each % 7 or each >= 200]
        place = [each if each <= 200 else each - 200 for each in everything]
        assert [each.sequence for each in decoded] == [
            sequence
            for sequence, number in zip(everything, place, strict=True)
            if SUBJECTS[(number - 1) % len(SUBJECTS)] in wanted
        ]
    finally:
        stage.wait(stage.store.close())
