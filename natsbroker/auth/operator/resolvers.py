"""
Resolvers that hold nothing themselves: JWTs of accounts from the configuration, or over HTTP.

What is found is handed on as it is; a server that does not answer in time has nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock, DeferredSemaphore, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.iweb import IAgent
from zope.interface import implementer

from natsbroker.auth.fields import FieldError
from natsbroker.auth.httpexchange import exchange
from natsbroker.auth.operator.folders import CachedFolder, TokenFolder
from natsbroker.auth.operator.tokens import LONGEST, decodeToken
from natsbroker.interfaces import IAccountResolver

__all__ = ["FolderResolver", "MemoryResolver", "URLResolver"]

#: Seconds that a server has to answer (nats-server's limit).
TIMEOUT = 1.9

#: How many accounts are asked for at a time.
_AT_A_TIME = 16

_OK = 200


@implementer(IAccountResolver)
class MemoryResolver:
    """
    JWTs that the configuration holds.
    """

    def __init__(self, preload: Mapping[str, str]) -> None:
        """
        @param preload: JWTs by public key.
        """
        self._tokens = dict(preload)

    def replace(self, preload: Mapping[str, str]) -> None:
        """
        Hold other JWTs from now on.
        """
        self._tokens = dict(preload)

    def fetch(self, account: str) -> str:
        return self._tokens[account]


@implementer(IAccountResolver)
class URLResolver:
    """
    JWTs of an account server: each is at the URL that ends with its account's public key.
    """

    def __init__(
        self, url: str, agent: IAgent, clock: IReactorTime, timeout: float = TIMEOUT
    ) -> None:
        """
        @param url: what stands before the public key.
        @param agent: makes requests.
        @param timeout: seconds for each.
        """
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

#: Calls a function with arguments in another thread.
RunInThread = Callable[..., "Deferred[Any]"]


@implementer(IAccountResolver)
class FolderResolver:
    """
    JWTs in a folder.

    @ivar folder: that folder, to be looked at only.
    @ivar elsewhere: finds a true JWT that is not there, or fails with C{LookupError}; C{None} for
        nowhere else.
    """

    def __init__(self, folder: TokenFolder, runInThread: RunInThread) -> None:
        """
        @param runInThread: calls its first argument with the others in another thread; fires with
            the result.
        """
        self.folder = folder
        self._runInThread = runInThread
        self._lock = DeferredLock()
        self.elsewhere: Callable[[str], Deferred[str]] | None = None

    def fetch(self, account: str) -> str | Deferred[str]:
        """
        See L{IAccountResolver.fetch}. What is found elsewhere is kept.
        """
        if account in self.folder or self.elsewhere is None:
            return self.folder[account]
        return self.elsewhere(account).addCallback(lambda text: self._keep(account, text))

    def _keep(self, account: str, text: str) -> Deferred[str]:
        """
        Store what was found elsewhere. It is used even if there is no room for it.
        """
        storing = self.saveIfNewer(account, text)
        storing.addErrback(lambda why: _log.failure("A JWT cannot be kept", why))
        return storing.addCallback(lambda _: text)

    def expire(self) -> Deferred[None]:
        """
        See L{CachedFolder.expire}; nothing for other folders.
        """
        if not isinstance(self.folder, CachedFolder):
            return succeed(None)
        return self._lock.run(self._runInThread, self.folder.expire)

    def save(self, account: str, text: str) -> Deferred[bool]:
        return self._lock.run(self._runInThread, self.folder.save, account, text)

    def delete(self, account: str) -> Deferred[bool]:
        return self._lock.run(self._runInThread, self.folder.delete, account)

    def saveIfNewer(self, account: str, text: str) -> Deferred[bool]:
        """
        As L{save}, unless the JWT that is there was issued later.

        @return: fires with whether it is another one than before.
        """
        return self._lock.run(self._runInThread, self._saveIfNewer, account, text)

    def preload(self, account: str, text: str) -> None:
        """
        As L{saveIfNewer}, at once: before anything runs that must not wait for the disk.

        @raise natsbroker.auth.operator.folders.FolderError: if there are too many.
        @raise OSError: if the disk does not take it.
        """
        self._saveIfNewer(account, text)

    def read(self) -> Deferred[set[str]]:
        return self._lock.run(self._runInThread, self.folder.read)

    def _saveIfNewer(self, account: str, text: str) -> bool:
        if account in self.folder and _issuedAt(self.folder[account]) > _issuedAt(text):
            return False
        return self.folder.save(account, text)


def _issuedAt(text: str) -> float:
    """
    When a JWT was issued; for what is none, before everything.
    """
    try:
        return decodeToken(text, "account").issuedAt
    except FieldError:
        return float("-inf")
