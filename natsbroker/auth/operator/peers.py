"""
Account JWTs of other servers: lookups, and the regular comparison of whole folders, with nats-
server's subjects.

Only valid JWTs of trusted operators are accepted. A lookup ends with the first of them, when every
server has answered, or at its timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.resolvers import TIMEOUT
from natsbroker.errors import logText
from natsbroker.interfaces import IMessageBus, ISubscription
from natsbroker.runtime.peerrequests import PeerEnding, PeerRequests
from natsbroker.runtime.responder import RequestResponder
from natsbroker.wire.values import Message

_log = Logger()

_LOOKUP = b"$SYS.REQ.ACCOUNT.%b.CLAIMS.LOOKUP"
_PACK = b"$SYS.REQ.CLAIMS.PACK"

_FAILURES = {
    PeerEnding.ALONE: "there is no other server",
    PeerEnding.ANSWERED: "no server has it",
    PeerEnding.LATE: "no server had it in time",
    PeerEnding.CLOSED: "the broker is stopping",
}


class PeerLookup:
    def __init__(
        self,
        bus: IMessageBus,
        responder: RequestResponder,
        clock: IReactorTime,
        check: Callable[[str, str], object],
        count: Callable[[], float],
        timeout: float = TIMEOUT,
        server: bytes = b"",
    ) -> None:
        """
        @param responder: this server's own answers, which are excluded.
        @param check: takes an account and a JWT; raises L{FieldError} if that is invalid.
        @param count: gives the number of other servers; infinity if it is unknown: then a lookup
            ends at its timeout at the earliest.
        @param server: of this broker and others, all of which answer its lookups; empty for one.
        """
        self._server = server
        self._responder = responder
        self._clock = clock
        self._check = check
        self._requests = PeerRequests(bus, responder, clock, count, timeout)
        self._packs: ISubscription | None = None
        self._loop: LoopingCall | None = None

    def close(self) -> None:
        if self._packs is not None:
            self._packs.cancel()
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        self._requests.close()

    def lookUp(self, account: str) -> Deferred[str]:
        """
        Look up an account. Fires with a valid JWT; fails with C{LookupError} if there is none.
        """
        texts: list[str] = []

        def take(message: Message) -> bool:
            text = message.payload.decode("ascii", "replace").strip()
            if text and self._isValid(account, text):
                texts.append(text)
            return bool(texts)

        def ended(ending: PeerEnding) -> str:
            if not texts:
                raise LookupError(_FAILURES[ending])
            return texts[0]

        subject = _LOOKUP % account.encode("ascii")
        return self._requests.ask(subject, self._server, take).addCallback(ended)

    def _isValid(self, account: str, text: str) -> bool:
        try:
            self._check(account, text)
        except FieldError as error:
            why = logText(str(error))
            _log.warn("Another server's JWT of account {name}: {why}", name=account, why=why)
            return False
        return True

    def keepUp(
        self,
        interval: float,
        digest: Callable[[], bytes],
        merge: Callable[[str, str], Deferred[Any]],
    ) -> None:
        """
        Send other servers the digest of this one's JWTs at intervals. A server with another digest
        answers with all of its JWTs, of which C{merge} takes the valid ones.
        """

        def packed(message: Message) -> None:
            for line in message.payload.decode("ascii", "replace").split("\n"):
                account, bar, text = line.partition("|")
                if bar and self._isValid(account, text.strip()):
                    merging = maybeDeferred(merge, account, text.strip())
                    merging.addErrback(
                        lambda why: _log.failure("Cannot merge JWTs of another server", why)
                    )

        reply, self._packs = self._requests.openInbox(packed)
        self._loop = LoopingCall(lambda: self._responder.ask(_PACK, digest(), reply))
        self._loop.clock = self._clock
        self._loop.start(interval, now=False)
