"""Requests of a server to all others, on a bus of the system account."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from enum import Enum
from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from natsbroker.interfaces import IMessageBus, ISubscription
from natsbroker.runtime.responder import RequestResponder
from natsbroker.wire.values import Message


class PeerEnding(Enum):
    """The reason for which a request ended: C{ALONE} if no other server received it."""

    ENOUGH = "enough"
    ALONE = "alone"
    ANSWERED = "answered"
    LATE = "late"
    CLOSED = "closed"


class _PeerRequest:
    """
    @ivar take: receives an answer; returns whether it is enough.
    @ivar silent: the number of servers that have not answered; negative if answers come before
        that number is known.
    """

    inbox: ISubscription

    def __init__(self, take: Callable[[Message], bool], ended: Deferred[PeerEnding]) -> None:
        self.take = take
        self.ended = ended
        self.silent = 0.0
        self.timer: IDelayedCall | None = None


class PeerRequests:
    """
    A request ends when an answer is enough, when all servers have answered, or at the timeout.
    """

    def __init__(
        self,
        bus: IMessageBus,
        responder: RequestResponder,
        clock: IReactorTime,
        count: Callable[[], float],
        timeout: float,
    ) -> None:
        """
        @param responder: this server's own answers, which are excluded.
        @param count: gives the number of other servers; infinity if it is unknown: then a request
            ends at its timeout, unless an answer is enough.
        @param timeout: in seconds.
        """
        self._bus = bus
        self._responder = responder
        self._clock = clock
        self._count = count
        self._timeout = timeout
        self._pending: set[_PeerRequest] = set()

    def openInbox(self, take: Callable[[Message], object]) -> tuple[bytes, ISubscription]:
        """
        Subscribe to a new inbox. A pattern for all inboxes would use one of the limited number of
        L{natsbroker.subjects.shapes}.
        """
        subject = b"$SYS._INBOX." + secrets.token_urlsafe(12).encode("ascii")
        return subject, self._bus.subscribe(subject, self._responder, take)

    def ask(
        self, subject: bytes, body: bytes, take: Callable[[Message], bool]
    ) -> Deferred[PeerEnding]:
        """C{take} receives answers, and returns whether one is enough."""
        request = _PeerRequest(take, Deferred(lambda _: self._forget(request)))
        self._pending.add(request)
        reply, request.inbox = self.openInbox(partial(self._answered, request))
        reached = self._responder.ask(subject, body, reply)
        if request.ended.called:
            return request.ended
        request.silent += max(reached, self._count())
        if not reached:
            self._end(request, PeerEnding.ALONE)
        elif request.silent <= 0:
            self._end(request, PeerEnding.ANSWERED)
        else:
            request.timer = self._clock.callLater(
                self._timeout, self._end, request, PeerEnding.LATE
            )
        return request.ended

    def close(self) -> None:
        for request in list(self._pending):
            self._end(request, PeerEnding.CLOSED)

    def _answered(self, request: _PeerRequest, message: Message) -> None:
        if request not in self._pending:
            return
        request.silent -= 1
        if request.take(message):
            self._end(request, PeerEnding.ENOUGH)
        elif request.timer is not None and request.silent <= 0:
            self._end(request, PeerEnding.ANSWERED)

    def _end(self, request: _PeerRequest, ending: PeerEnding) -> None:
        self._forget(request)
        request.ended.callback(ending)

    def _forget(self, request: _PeerRequest) -> None:
        self._pending.discard(request)
        request.inbox.cancel()
        if request.timer is not None and request.timer.active():
            request.timer.cancel()
