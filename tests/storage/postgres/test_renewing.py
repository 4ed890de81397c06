"""
When leases are renewed, and what is said if that does not work.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from natsbroker.interfaces.records import StoreFailed
from natsbroker.storage.postgres.leasing import Renewed
from natsbroker.storage.postgres.renewing import Renewing

HELD = Renewed(frozenset({5}), frozenset())


class Database:
    """
    Renews, or not.

    @ivar renewals: how often it was asked.
    @ivar told: what was held each time.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.answer: Deferred[Renewed] | None = None
        self.renewals = 0
        self.told: list[Renewed] = []
        self.renewing = Renewing(self.clock, 6, self._renew, self.told.append)

    def _renew(self) -> Deferred[Renewed]:
        self.renewals += 1
        return self.answer or succeed(HELD)


def test_often() -> None:
    """Leases are renewed three times while they last, and what is held still is told."""
    database = Database()
    database.clock.pump([2] * 5)
    assert (database.renewals, database.told) == (5, [HELD] * 5)


def test_slowly() -> None:
    """The next renewal waits for the last one to end."""
    database = Database()
    database.answer = Deferred()
    database.clock.pump([2] * 5)
    assert database.renewals == 1
    database.answer.callback(HELD)
    database.answer = None
    database.clock.advance(2)
    assert database.renewals == 2


def test_saidOnce() -> None:
    """That leases cannot be renewed is said when it begins, and tried on."""
    database = Database()
    with capturedLogs() as events:
        for works in (False, False, True, False):
            database.answer = None if works else fail(StoreFailed("gone"))
            database.clock.advance(2)
    assert [formatEvent(each) for each in events] == ["The leases cannot be renewed: gone"] * 2
    assert database.renewals == 4


def test_stopped() -> None:
    """Nothing is renewed, told or left in the reactor afterwards."""
    database = Database()
    database.renewing.stop()
    assert database.clock.getDelayedCalls() == []
    database = Database()
    answer: Deferred[Renewed] = Deferred()
    database.answer = answer
    database.clock.advance(2)
    database.renewing.stop()
    answer.callback(HELD)
    assert (database.told, database.clock.getDelayedCalls()) == ([], [])
