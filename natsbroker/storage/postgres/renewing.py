"""
Renewing leases, again and again, as long as a store is open.

Several times while leases last; that it does not work is said once, until it works again.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.interfaces.records import StoreError
from natsbroker.storage.postgres.leasing import Renewed

__all__ = ["RENEWALS", "Renewing"]

RENEWALS = 3
"""How often leases are renewed while they last."""

_log = Logger(namespace="natsbroker.storage.postgres")


class Renewing:
    """
    Renews the leases of a store.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        lease: float,
        renew: Callable[[], Deferred[Renewed]],
        renewed: Callable[[Renewed], object],
    ) -> None:
        """
        @param lease: how many seconds leases last.
        @param renewed: told each time what is held still.
        """
        self._reactor = reactor
        self._interval = lease / RENEWALS
        self._renew = renew
        self._renewed = renewed
        self._works = True
        self._isOver = False
        self._call: IDelayedCall | None = None
        self._later(None)

    def stop(self) -> None:
        """
        Renew no more.
        """
        self._isOver = True
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def _now(self) -> None:
        self._call = None
        self._renew().addCallbacks(self._done, self._failed).addBoth(self._later)

    def _done(self, held: Renewed) -> None:
        self._works = True
        if not self._isOver:
            self._renewed(held)

    def _failed(self, failure: Failure) -> None:
        failure.trap(StoreError)
        if self._works and not self._isOver:
            self._works = False
            _log.error("The leases cannot be renewed: {why}", why=failure.getErrorMessage())

    def _later(self, result: object) -> object:
        if not self._isOver:
            self._call = self._reactor.callLater(self._interval, self._now)
        return result
