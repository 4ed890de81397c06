"""
Request and reply on a message bus. The Deferred fires once, with the first reply or the reason for
none; then no subscription and no timer is left.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from natsbroker.errors import NoResponders, RequestTimeout
from natsbroker.interfaces import IMessageBus, IOrigin, ISubscriber, ISubscription
from natsbroker.wire.grants import Grant
from natsbroker.wire.headers import Headers
from natsbroker.wire.values import ClientInfo, Message

_NO_RESPONDERS = b"NATS/1.0 503"


@implementer(IOrigin)
class ProgramOrigin:
    """The origin of messages from a program in the broker's process."""

    def __init__(self, account: str) -> None:
        self.grant = Grant(account)

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        return ClientInfo(acc=self.grant.account)


def newInbox() -> bytes:
    return b"_INBOX." + secrets.token_urlsafe(16).encode("ascii")


def isNoResponders(message: Message) -> bool:
    return not message.payload and message.headers.startswith(_NO_RESPONDERS)


def request(
    bus: IMessageBus,
    clock: IReactorTime,
    subject: bytes,
    payload: bytes = b"",
    timeout: float = 1.0,
    headers: Headers | None = None,
    makeInbox: Callable[[], bytes] = newInbox,
    origin: object = None,
) -> Deferred[Message]:
    """
    @param timeout: seconds.
    @param origin: the requester, such as a L{ProgramOrigin}. Without one, the services of a broker
        do not answer: so a user who may choose the subject cannot command them.
    @param makeInbox: makes the subject for the answer.
    @return: fires with the first answer. Fails with L{NoResponders} if nobody is there, with
        L{RequestTimeout} if nobody answers in time. Cancelling it gives up.
    """
    block = headers.block() if headers else b""
    message = Message(subject, block + payload, makeInbox(), len(block), origin)
    return _PendingRequest(bus, clock, timeout).ask(message)


@implementer(ISubscriber)
class _PendingRequest:
    def __init__(self, bus: IMessageBus, clock: IReactorTime, timeout: float) -> None:
        self._bus = bus
        self._subject = b""
        self._answer: Deferred[Message] | None = Deferred(lambda _: self._end())
        self._subscription: ISubscription | None = None
        self._timer: IDelayedCall | None = clock.callLater(timeout, self._late, timeout)

    def ask(self, message: Message) -> Deferred[Message]:
        answer = self._answer
        if answer is None:
            raise RuntimeError("this request was already sent")
        self._subject = message.subject
        try:
            self._subscription = self._bus.subscribe(message.reply, self)
            reached = self._bus.publish(message)
        except Exception:
            self._end()
            raise
        if not reached and self._answer is not None:
            self._end()
            answer.errback(NoResponders(message.subject))
        return answer

    def deliver(self, message: Message, tag: Any) -> None:
        answer = self._answer
        self._end()
        if answer is None:
            return
        if isNoResponders(message):
            answer.errback(NoResponders(self._subject))
        else:
            answer.callback(message)

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""

    def _late(self, timeout: float) -> None:
        answer, self._timer = self._answer, None
        self._end()
        if answer is not None:
            answer.errback(RequestTimeout(timeout))

    def _end(self) -> None:
        self._answer = None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.cancel()
