"""
The comparison of passwords and tokens with those of the configuration, in plain text or bcrypt.

Plain text is compared in constant time. Bcrypt runs in threads, a bounded number at a time, and
logins beyond a bounded queue are denied: a flood of logins neither stops the broker nor fills its
memory.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import bcrypt
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from natsbroker import errors

#: The beginning of bcrypt hashes, by which nats-server recognises them.
_HASH = re.compile(r"\$2[abxy]\$\d{2}\$")

#: More bytes of a password than these do not count for bcrypt; longer ones are refused.
_LONGEST = 72

#: Calls a function with arguments in another thread.
RunInThread = Callable[..., "Deferred[Any]"]


def isHash(secret: str) -> bool:
    return _HASH.match(secret) is not None


def sameText(expected: str, given: str) -> bool:
    return hmac.compare_digest(
        expected.encode("utf-8", "surrogatepass"), given.encode("utf-8", "surrogatepass")
    )


def checkHash(expected: str, given: str) -> bool:
    """Whether a password matches a bcrypt hash. This is slow."""
    password = given.encode("utf-8", "surrogatepass")
    if len(password) > _LONGEST or b"\0" in password:
        return False
    hashed = expected.encode("ascii", "replace")
    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:
        return False


class PasswordChecks:
    AT_A_TIME = 2
    WAITING = 64
    DENIAL_DELAY = 1.0

    def __init__(
        self,
        runInThread: RunInThread,
        clock: IReactorTime | None = None,
        hashed: Callable[[str], bool] = isHash,
        compare: Callable[[str, str], bool] | None = None,
    ) -> None:
        self._isHash = hashed
        self._compare = compare
        self._runInThread = runInThread
        self._clock = clock
        self._running = 0
        self._waiting: deque[tuple[Deferred[bool], str, str]] = deque()

    def check(self, expected: str, given: str) -> bool | Deferred[bool]:
        """
        @raise errors.Unauthorized: if too many comparisons wait; the Deferred may fail with it too.
        """
        if not self._isHash(expected):
            return sameText(expected, given)
        if len(self._waiting) >= self.WAITING:
            return self._denied(errors.Unauthorized("too many logins at a time"))
        result: Deferred[bool] = Deferred(self._cancelled)
        self._waiting.append((result, expected, given))
        self._next()
        return result

    def _denied(self, why: errors.Unauthorized) -> Deferred[bool]:
        if self._clock is None:
            raise why
        result: Deferred[bool] = Deferred(lambda _: timer.cancel())
        timer = self._clock.callLater(self.DENIAL_DELAY, result.errback, why)
        return result

    def _cancelled(self, result: Deferred[bool]) -> None:
        self._waiting = deque(waiting for waiting in self._waiting if waiting[0] is not result)

    def _next(self) -> None:
        while self._waiting and self._running < self.AT_A_TIME:
            result, expected, given = self._waiting.popleft()
            self._running += 1
            self._runInThread(self._compare or checkHash, expected, given).addBoth(
                self._done, result
            )

    def _done(self, outcome: bool | Failure, result: Deferred[bool]) -> None:
        self._running -= 1
        if not result.called:
            if isinstance(outcome, bool):
                result.callback(outcome)
            else:
                result.errback(outcome)
        self._next()


class DummySecrets:
    """The secrets of unknown users, so that their login takes as long as others'."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = list(known) or [""]
        self._salt = secrets.token_bytes(16)

    def secretFor(self, name: str) -> str:
        """
        One of the secrets, always the same for a name. The login is denied even if it matches.
        """
        text = name.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(text, digest_size=8, key=self._salt).digest()
        return self._known[int.from_bytes(digest, "big") % len(self._known)]
