"""
Account JWTs of other servers: lookups, and the regular comparison of whole folders, with nats-
server's subjects.

Only valid JWTs of trusted operators are accepted. A lookup ends with the first of them, when every
server has answered, or at its timeout.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.resolvers import TIMEOUT
from natsbroker.auth.responder import RequestResponder
from natsbroker.errors import logText
from natsbroker.interfaces import IMessageBus, ISubscriber
from natsbroker.wire.values import Message

_log = Logger()

_LOOKUP = b"$SYS.REQ.ACCOUNT.%b.CLAIMS.LOOKUP"
_PACK = b"$SYS.REQ.CLAIMS.PACK"

#: The last token of the inbox for what others have; those of questions are numbers.
_PACKED = b"pack"


class _PendingLookup:
    """
    @ivar silent: how many servers have not answered.
    """

    def __init__(self, account: str, answer: Deferred[str]) -> None:
        self.account = account
        self.answer = answer
        self.silent = 0.0
        self.timer: IDelayedCall | None = None


@implementer(ISubscriber)
class PeerLookup:
    def __init__(
        self,
        bus: IMessageBus,
        asker: RequestResponder,
        clock: IReactorTime,
        check: Callable[[str, str], object],
        count: Callable[[], float],
        timeout: float = TIMEOUT,
    ) -> None:
        """
        @param asker: this server's own answers, which are excluded.
        @param check: takes an account and a JWT; raises L{FieldError} if that is invalid.
        @param count: gives the number of other servers; infinity if it is unknown: then a lookup
            ends at its timeout at the earliest.
        """
        self._asker = asker
        self._clock = clock
        self._check = check
        self._count = count
        self._timeout = timeout
        self._prefix = b"$SYS._INBOX.%b." % secrets.token_urlsafe(12).encode("ascii")
        self._subscription = bus.subscribe(self._prefix + b"*", self)
        self._questions: dict[bytes, _PendingLookup] = {}
        self._asked = 0
        self._loop: LoopingCall | None = None
        self._merge: Callable[[str, str], Deferred[Any]] | None = None

    def close(self) -> None:
        self._subscription.cancel()
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        for name in list(self._questions):
            self._end(name, LookupError("the broker stops"))

    def lookUp(self, account: str) -> Deferred[str]:
        """
        @return: fires with a valid JWT of the account; fails with C{LookupError} without.
        """
        self._asked += 1
        name = b"%d" % self._asked
        answer: Deferred[str] = Deferred(lambda _: self._forget(name))
        question = self._questions[name] = _PendingLookup(account, answer)
        subject = _LOOKUP % account.encode("ascii")
        reached = self._asker.ask(subject, b"", self._prefix + name)
        if name not in self._questions:
            return answer
        if not reached:
            self._end(name, LookupError("there is nobody else"))
            return answer
        question.silent += max(reached, self._count())
        if question.silent <= 0:
            self._end(name, LookupError("nobody has it"))
            return answer
        question.timer = self._clock.callLater(
            self._timeout, self._end, name, LookupError("nobody had it in time")
        )
        return answer

    def _answered(self, name: bytes, payload: bytes) -> None:
        question = self._questions.get(name)
        if question is None:
            return
        text = payload.decode("ascii", "replace").strip()
        if text and self._isTrue(question.account, text):
            self._forget(name)
            question.answer.callback(text)
            return
        question.silent -= 1
        if question.timer is not None and question.silent <= 0:
            self._end(name, LookupError("nobody has it"))

    def _isTrue(self, account: str, text: str) -> bool:
        try:
            self._check(account, text)
        except FieldError as error:
            why = logText(str(error))
            _log.warn("Another server's JWT of account {name}: {why}", name=account, why=why)
            return False
        return True

    def _end(self, name: bytes, why: LookupError) -> None:
        question = self._questions.get(name)
        if question is not None:
            self._forget(name)
            question.answer.errback(why)

    def _forget(self, name: bytes) -> None:
        question = self._questions.pop(name, None)
        if question is not None and question.timer is not None and question.timer.active():
            question.timer.cancel()

    def keepUp(
        self,
        interval: float,
        digest: Callable[[], bytes],
        merge: Callable[[str, str], Deferred[Any]],
    ) -> None:
        """
        Ask regularly for all JWTs of a server that has others than this one.

        @param merge: takes an account and a valid JWT.
        """
        self._merge = merge
        self._loop = LoopingCall(lambda: self._asker.ask(_PACK, digest(), self._prefix + _PACKED))
        self._loop.clock = self._clock
        self._loop.start(interval, now=False)

    def _packed(self, payload: bytes) -> None:
        for line in payload.decode("ascii", "replace").split("\n"):
            account, bar, text = line.partition("|")
            if bar and self._merge is not None and self._isTrue(account, text.strip()):
                merging = maybeDeferred(self._merge, account, text.strip())
                merging.addErrback(lambda why: _log.failure("JWTs of another server", why))

    def deliver(self, message: Message, tag: Any) -> None:
        name = message.subject[len(self._prefix) :]
        if name == _PACKED:
            self._packed(message.payload)
        else:
            self._answered(name, message.payload)

    def subscriptionEnded(self, tag: Any) -> None:
        pass
