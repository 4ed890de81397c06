"""
Slowing a publisher down for a receiver that lags.

A publisher waits only for receivers that its own messages reached and that catch up soon;
one that does not is left to its limit of waiting bytes, so it cannot hold up other publishers.
(nats-server stalls producers for a few milliseconds in the same spirit.)
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from natsbroker import hot

__all__ = ["PATIENCE", "Stall"]

#: How long a publisher waits for one receiver, in seconds.
PATIENCE = 0.1


class Stall:
    """
    One publisher's wait.
    """

    __slots__ = ("_call", "_outbox", "_resume")

    def __init__(
        self, reactor: IReactorTime, outbox: hot.Outbox, resume: Callable[[], None]
    ) -> None:
        """
        @param outbox: whose owner lags.
        @param resume: called once when the publisher need not wait any more.
        """
        self._outbox = outbox
        self._resume: Callable[[], None] | None = resume
        self._call: IDelayedCall | None = reactor.callLater(PATIENCE, self._impatient)
        outbox.whenRelieved(self.end)

    def end(self) -> None:
        """
        Stop waiting.
        """
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        resume, self._resume = self._resume, None
        if resume is not None:
            resume()

    def _impatient(self) -> None:
        self._call = None
        self._outbox.lagging = True
        self.end()
