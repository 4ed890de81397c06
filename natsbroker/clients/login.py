"""
The login of a connection. The outcome is always a grant or a denial: an authorizer that raises,
hangs or returns something else denies the login. The type and the place of an exception are logged.
Its text may quote the client, so it is logged for debugging only.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from time import perf_counter
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from natsbroker import errors
from natsbroker.auth.proxies import TrustedProxies
from natsbroker.interfaces import IAuthorizer
from natsbroker.runtime.failures import definedAt, raisedAt
from natsbroker.runtime.observers import PluginCalls
from natsbroker.wire.grants import ConnectRequest, Grant

_log = Logger()

_ASYNCIO = (
    "; await Deferreds here: for asyncio, await Deferred.fromFuture(asyncio.ensure_future(...)) and"
    " start with Twisted's asyncio reactor: twistd -r asyncio natsbroker"
)

_FUTURES = ("Future", "Task")
_NO_LOOP = ("event loop", "used with future")
"""The answers and texts of asyncio without its loop."""


class Login:
    """
    @ivar denial: the error for a client that loses its grant.
    @ivar refusal: the authorizer's text in a denial, or C{None}.
    """

    __slots__ = (
        "_asked",
        "_began",
        "_calls",
        "_deferred",
        "_done",
        "_proxies",
        "_proxy",
        "denial",
        "refusal",
        "waiting",
    )

    def __init__(
        self,
        done: Callable[[Grant | None], None],
        calls: PluginCalls,
        proxies: TrustedProxies | None = None,
    ) -> None:
        """
        @param done: called once with the grant, or with C{None} for a denial; perhaps before L{ask}
            returns.
        @param calls: counts this one.
        @param proxies: whose signatures count; C{None} for nobody's.
        """
        self._calls = calls
        self._proxies = proxies
        self._proxy = ""
        self._asked: IAuthorizer | None = None
        self._began = 0.0
        self._done: Callable[[Grant | None], None] | None = done
        self._deferred: Deferred[Any] | None = None
        self.waiting = True
        self.denial = errors.AUTHORIZATION
        self.refusal: errors.Unauthorized | None = None

    def ask(self, authorizer: IAuthorizer, request: ConnectRequest) -> None:
        self._calls.number += 1
        self._began = perf_counter()
        self._asked = authorizer
        try:
            if self._proxies is not None:
                request = self._proxies.seen(request)
                self._proxy = request.proxy
            answer: Any = authorizer.grantFor(request)
        except errors.Unauthorized as denied:
            self._denied(denied)
            return
        except BaseException:
            self._broken(Failure())
            return
        if isinstance(answer, Grant):
            self._answered(answer)
            return
        if isinstance(answer, Coroutine):
            answer = ensureDeferred(answer)
        if isinstance(answer, Deferred):
            self._deferred = answer
            answer.addCallbacks(self._answered, self._refused)
        else:
            self._answered(answer)

    def cancel(self) -> None:
        self._done = self._asked = None
        self.waiting = False
        deferred, self._deferred = self._deferred, None
        if deferred is not None:
            try:
                deferred.cancel()
            except BaseException:
                _logBroken("An authorizer's canceller failed", Failure(), "")

    def giveUp(self) -> None:
        _log.error("The authorizer did not answer in time: denied{who}", who=self._who("; it is "))
        self.cancel()

    def _answered(self, answer: Any) -> None:
        if isinstance(answer, Grant):
            self._finish(replace(answer, proxy=self._proxy) if self._proxy else answer)
        else:
            kind = type(answer).__name__
            _log.error(
                "The authorizer's answer is no grant but {kind}: denied{cure}",
                kind=kind,
                cure=_ASYNCIO if kind in _FUTURES else self._who("; a Grant has to come from "),
            )
            self._calls.failures += 1
            self._finish(None)

    def _refused(self, failure: Failure) -> None:
        if isinstance(failure.value, errors.Unauthorized):
            self._denied(failure.value)
        elif self._done is None:
            self._finish(None)
        else:
            self._broken(failure)

    def _denied(self, denied: errors.Unauthorized) -> None:
        self.denial, self.refusal = denied.error, denied
        if self._done is not None and str(denied):
            _log.debug("Not authorized: {why}", why=str(denied))
        self._finish(None)

    def _broken(self, failure: Failure) -> None:
        _logBroken("The authorizer failed: denied", failure, _cureFor(failure))
        self._calls.failures += 1
        self._finish(None)

    def _who(self, words: str) -> str:
        if self._asked is None:
            return ""
        authorizer: Any = self._asked
        place = definedAt(getattr(authorizer, "grant", authorizer.grantFor))
        return f"{words}{type(authorizer).__name__} ({place})"

    def _finish(self, grant: Grant | None) -> None:
        self._calls.seconds += perf_counter() - self._began
        self.waiting = False
        self._deferred = self._asked = None
        done, self._done = self._done, None
        if done is not None:
            done(grant)


def _logBroken(what: str, failure: Failure, text: str) -> None:
    _log.error("{what}: {raised}{text}", what=what, raised=raisedAt(failure), text=text)
    _log.failure("{what}", failure, LogLevel.debug, what=what)


def _cureFor(failure: Failure) -> str:
    text = failure.getErrorMessage()
    if isinstance(failure.value, RuntimeError) and any(reason in text for reason in _NO_LOOP):
        return _ASYNCIO
    return " (its text is in the debug log: -D)"
