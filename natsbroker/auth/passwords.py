"""
Comparing what a client said with what the settings hold: plain text or bcrypt.

Plain text is compared in constant time; bcrypt is computed outside of the reactor's
thread, a bounded number at a time, and what does not fit is denied, so a flood of logins can
neither stop the broker nor fill its memory.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable

import bcrypt
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from natsbroker import errors

__all__ = ["DummySecrets", "PasswordChecks", "RunInThread", "checkHash", "isHash", "sameText"]

#: How bcrypt hashes begin, as the real server recognises them.
_HASH = re.compile(r"\$2[abxy]\$\d{2}\$")

#: More bytes of a password than these do not count for bcrypt; longer ones are refused.
_LONGEST = 72

#: Calls a function with arguments in another thread.
RunInThread = Callable[..., "Deferred[bool]"]


def isHash(secret: str) -> bool:
    """
    Whether a configured secret is a bcrypt hash.
    """
    return _HASH.match(secret) is not None


def sameText(expected: str, given: str) -> bool:
    """
    Whether two texts are the same, in a time that does not tell where they differ.
    """
    return hmac.compare_digest(
        expected.encode("utf-8", "surrogatepass"), given.encode("utf-8", "surrogatepass")
    )


def checkHash(expected: str, given: str) -> bool:
    """
    Whether a password is the one that was hashed. Takes long.
    """
    password = given.encode("utf-8", "surrogatepass")
    if len(password) > _LONGEST or b"\0" in password:
        return False
    hashed = expected.encode("ascii", "replace")
    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:
        return False


class PasswordChecks:
    """
    The comparisons of one authorizer.

    @cvar AT_A_TIME: how many hashes are computed at a time.
    @cvar WAITING: how many comparisons may wait for that.
    @cvar PENANCE: how long, in seconds, they wait for their denial who are too many.
    """

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
        """
        @param runInThread: calls its first argument with the others in another thread; fires
            with the result.
        @param clock: lets them wait who are too many; by default they are denied at once.
        @param hashed: whether a secret is a hash.
        @param compare: compares one with a password; may take long. By default L{checkHash}.
        """
        self._isHash = hashed
        self._compare = compare
        self._runInThread = runInThread
        self._clock = clock
        self._running = 0
        self._waiting: deque[tuple[Deferred[bool], str, str]] = deque()

    def check(self, expected: str, given: str) -> bool | Deferred[bool]:
        """
        Compare a password or token.

        @param expected: plain text or a hash.
        @return: whether they are the same, at once for plain text and later for a hash.
        @raise errors.Unauthorized: if too many comparisons wait already; the Deferred may fail with
            it too.
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
        self._waiting = deque(each for each in self._waiting if each[0] is not result)

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
    """
    Stands in for the secrets of users that do not exist.
    """

    def __init__(self, known: Iterable[str]) -> None:
        """
        @param known: the secrets that there are, in plain text or hashed.
        """
        self._known = list(known) or [""]
        self._salt = secrets.token_bytes(16)

    def secretFor(self, name: str) -> str:
        """
        A secret for a name. Whoever gets it must be denied, be it right or wrong.
        """
        text = name.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(text, digest_size=8, key=self._salt).digest()
        return self._known[int.from_bytes(digest, "big") % len(self._known)]
