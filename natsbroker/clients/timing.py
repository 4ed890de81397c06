"""
What a conversation must do in time (log in, answer PINGs, take its messages), and when it waits.

One next deadline, asked for on the shared wheel; a client that is late is told so in the
real server's words.
"""

from __future__ import annotations

from natsbroker import errors, hot
from natsbroker.clients.conversation import Conversation
from natsbroker.connections.keepalive import KeepaliveAction

__all__ = ["TimedConversation"]


class TimedConversation(Conversation):
    """
    A conversation with deadlines.
    """

    __slots__ = ()

    def _schedule(self) -> None:
        self._context.wheel.schedule(self, self._nextDeadline())

    def _nextDeadline(self) -> float:
        due = self._keepalive.due
        for deadline in (self._loginBy, self._expires):
            if deadline is not None and deadline < due:
                due = deadline
        if self._stuckSince is not None:
            due = min(due, self._stuckSince + self._context.limits.write_deadline)
        return due

    def deadlinePassed(self, now: float) -> float | None:
        if self.reason:
            return None
        if self._loginBy is not None and now >= self._loginBy:
            waited, self._login = self._login, None
            if waited is not None:
                waited.giveUp()
                self.close(errors.AUTHORIZATION)
            else:
                self.close(errors.AUTH_TIMEOUT)
        elif self._expires is not None and now >= self._expires:
            self.close(errors.AUTH_EXPIRED)
        elif self._isStuck(now):
            deadline = self._context.limits.write_deadline
            self._cut(errors.SLOW_DEADLINE, f"WriteDeadline of {deadline:g}s exceeded")
        else:
            self._keepAlive(now)
        return None if self.reason else self._nextDeadline()

    def _keepAlive(self, now: float) -> None:
        maximum = self._context.limits.ping_max
        action = self._keepalive.timePassed(now, self.decoder.heard, maximum)
        if action is KeepaliveAction.PING:
            self._say(b"PING\r\n")
        elif action is KeepaliveAction.STALE:
            self.close(errors.STALE)

    def _isStuck(self, now: float) -> bool:
        since = self._stuckSince
        return since is not None and now >= since + self._context.limits.write_deadline

    def writeBlocked(self) -> None:
        """
        The transport is full: it has until the write deadline to take what waits now. Called again
        for what came to wait meanwhile, when it has taken that.
        """
        isFirst = self._stuckSince is None
        self._stuckSince = self._context.reactor.seconds()
        if isFirst:
            self._schedule()

    def writeProgressed(self) -> None:
        """
        The transport took everything.
        """
        self._stuckSince = None

    def _waitFor(self, outbox: hot.Outbox) -> None:
        if self._context.limits.stall:
            self._stallFor(self._context.reactor, outbox)

    def _setReading(self, isWanted: bool) -> None:
        if isWanted:
            self._peer.resumeReading()
        else:
            self._peer.pauseReading()

    def _pong(self) -> None:
        self._keepalive.ponged(self._context.reactor.seconds())
