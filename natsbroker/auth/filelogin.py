"""
The authorizer whose users are in an htpasswd file.

The broker does not start without the file; a change of it holds for the connections that
are there, too: whoever is no longer in it, or has another password, is cut.
"""

from __future__ import annotations

from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.auth.checkers import CheckerAuthenticator
from natsbroker.auth.htpasswd import HtpasswdChecker, htpasswdChecks, parseHtpasswd
from natsbroker.auth.watchedfile import RunInThread, WatchedFile
from natsbroker.errors import BrokerError
from natsbroker.interfaces import IReadiness

__all__ = ["HtpasswdAuthenticator"]

_log = Logger()

#: How many lines that let nobody in are told of one state of a file.
_MOST_WARNINGS = 10


@implementer(IReadiness)
class HtpasswdAuthenticator(CheckerAuthenticator, Service):
    """
    Lets in who is in a file. A service: it watches the file while it runs.

    @cvar INTERVAL: seconds from one look at the file to the next; a change holds after two.
    @ivar file: the file.
    """

    INTERVAL = 1.0

    def __init__(
        self, path: str, runInThread: RunInThread, clock: IReactorTime, avatars: Any = None
    ) -> None:
        """
        @param path: of the file.
        @param runInThread: calls its first argument with the others in another thread; fires with
            the result.
        @param avatars: see L{CheckerAuthenticator}.
        """
        self._checker = HtpasswdChecker(htpasswdChecks(runInThread, clock))
        super().__init__([self._checker], avatars)
        self.file = WatchedFile(path, runInThread, self._take)
        self._loop = LoopingCall(self.file.look)
        self._loop.clock = clock

    def whenPrepared(self) -> Deferred[None]:
        return self.file.load().addErrback(self._unprepared)

    def _unprepared(self, failure: Failure) -> None:
        failure.trap(OSError, ValueError)
        why = getattr(failure.value, "strerror", None) or str(failure.value)
        raise BrokerError(f"authorization: cannot read {self.file.path}: {why}")

    def startService(self) -> None:
        """
        Watch the file from now on.
        """
        super().startService()  # type: ignore[no-untyped-call]
        # Not before the first interval is over: the file is read when it is asked for.
        self._loop.start(self.INTERVAL, now=False)

    def stopService(self) -> None:
        """
        Watch the file no more.
        """
        super().stopService()  # type: ignore[no-untyped-call]
        if self._loop.running:
            self._loop.stop()

    def _take(self, text: str) -> None:
        entries, complaints = parseHtpasswd(text)
        for complaint in complaints[:_MOST_WARNINGS]:
            _log.warn("{path}: {complaint}", path=self.file.path, complaint=complaint)
        if len(complaints) > _MOST_WARNINGS:
            more = len(complaints) - _MOST_WARNINGS
            _log.warn("{path}: {more} more lines let nobody in", path=self.file.path, more=more)
        self._checker.use(entries)
        self.revoke()
