"""
What is known of a log: the row that describes it.

A row is taken over from a transaction only when that is durable.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.interfaces.records import LogBounds


@dataclass(slots=True)
class PostgresLogRow:
    """
    @ivar identity: a random number, which is also in each of its records.
    @ivar token: rises whenever the log's lease changes hands.
    @ivar first: the oldest sequence that is there; C{last + 1} for none.
    @ivar last: the highest sequence that was ever used.
    @ivar oldest: the timestamp of the oldest record; 0 for none. Not in the database.
    @ivar dropped: whether only leftovers of its records may be there.
    """

    identity: int
    name: str
    token: int
    first: int = 1
    last: int = 0
    count: int = 0
    size: int = 0
    lastTime: int = 0
    oldest: int = 0
    dropped: bool = False

    def bounds(self) -> LogBounds:
        return LogBounds(self.first, self.last, self.count, self.size, self.lastTime)
