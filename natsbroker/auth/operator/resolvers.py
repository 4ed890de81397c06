"""The sources of accounts' JWTs: the configuration, an account server, a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.defer import Deferred, DeferredLock, DeferredSemaphore, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.iweb import IAgent
from zope.interface import implementer

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.folders import CachedFolder, TokenFolder
from natsbroker.auth.operator.tokens import LONGEST, decodeToken
from natsbroker.auth.passwords import RunInThread
from natsbroker.connections.httpexchange import exchange
from natsbroker.interfaces import IAccountResolver

#: Seconds that a server has to answer (nats-server's limit).
TIMEOUT = 1.9

#: The accounts that are asked for at a time.
_AT_A_TIME = 16

_OK = 200


@implementer(IAccountResolver)
class MemoryResolver:
    def __init__(self, preload: Mapping[str, str]) -> None:
        self._tokens = dict(preload)

    def replace(self, preload: Mapping[str, str]) -> None:
        self._tokens = dict(preload)

    def fetch(self, account: str) -> str:
        return self._tokens[account]


@implementer(IAccountResolver)
class URLResolver:
    """An account server: the JWT is at a URL that ends with the account's public key."""

    def __init__(
        self, url: str, agent: IAgent, clock: IReactorTime, timeout: float = TIMEOUT
    ) -> None:
        self._url = url if url.endswith("/") else url + "/"
        self._agent = agent
        self._clock = clock
        self._timeout = timeout
        self._slots = DeferredSemaphore(_AT_A_TIME)

    def fetch(self, account: str) -> Deferred[str]:
        return self._slots.run(self._ask, account)

    def _ask(self, account: str) -> Deferred[str]:
        asking = exchange(self._agent, self._clock, self._url + account, self._timeout, LONGEST)
        return asking.addCallback(_textOf)


def _textOf(answer: tuple[int, bytes]) -> str:
    status, body = answer
    if status != _OK or not body:
        raise LookupError(f"the account server answers {status}")
    return body.decode("ascii", "replace")


_log = Logger()


@implementer(IAccountResolver)
class FolderResolver:
    """
    A folder whose changes are written in a thread, one after the other.

    @ivar elsewhere: finds a valid JWT that is not in the folder, or fails with C{LookupError}.
    """

    def __init__(self, folder: TokenFolder, runInThread: RunInThread) -> None:
        self.folder = folder
        self._runInThread = runInThread
        self._lock = DeferredLock()
        self.elsewhere: Callable[[str], Deferred[str]] | None = None

    def fetch(self, account: str) -> str | Deferred[str]:
        if account in self.folder or self.elsewhere is None:
            return self.folder[account]
        return self.elsewhere(account).addCallback(lambda text: self._keep(account, text))

    def _keep(self, account: str, text: str) -> Deferred[str]:
        """Store a JWT. If that fails, the JWT is used nevertheless."""
        storing = self.saveIfNewer(account, text)
        storing.addErrback(lambda why: _log.failure("A JWT cannot be kept", why))
        return storing.addCallback(lambda _: text)

    def expire(self) -> Deferred[None]:
        if not isinstance(self.folder, CachedFolder):
            return succeed(None)
        return self._lock.run(self._runInThread, self.folder.expire)

    def save(self, account: str, text: str) -> Deferred[bool]:
        return self._lock.run(self._runInThread, self.folder.save, account, text)

    def delete(self, account: str) -> Deferred[bool]:
        return self._lock.run(self._runInThread, self.folder.delete, account)

    def saveIfNewer(self, account: str, text: str) -> Deferred[bool]:
        """
        Save a JWT unless the stored one was issued later. Fires with whether the stored JWT has
        changed.
        """
        return self._lock.run(self._runInThread, self._saveIfNewer, account, text)

    def preload(self, account: str, text: str) -> None:
        self._saveIfNewer(account, text)

    def read(self) -> Deferred[set[str]]:
        return self._lock.run(self._runInThread, self.folder.read)

    def _saveIfNewer(self, account: str, text: str) -> bool:
        if account in self.folder and _issuedAt(self.folder[account]) > _issuedAt(text):
            return False
        return self.folder.save(account, text)


def _issuedAt(text: str) -> float:
    try:
        return decodeToken(text, "account").issuedAt
    except FieldError:
        return float("-inf")
