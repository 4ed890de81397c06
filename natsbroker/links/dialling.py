"""
Dialling one peer until it answers, one attempt at a time. The pauses have jitter, so that two
servers that dial each other do not stay synchronous.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import (
    HostnameEndpoint,
    TCP4ClientEndpoint,
    TCP6ClientEndpoint,
    UNIXClientEndpoint,
)
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.links.tls import isAddress

_log = Logger(namespace="natsbroker")

Key = TypeVar("Key", bound=Hashable)


def peerEndpoint(reactor: Any, host: str, port: int, timeout: float) -> IStreamClientEndpoint:
    """
    @param host: or the path of a UNIX socket, with port 0.
    """
    if not port and host.startswith("/"):
        return UNIXClientEndpoint(reactor, host, timeout)
    make: Any = HostnameEndpoint
    if isAddress(host):
        make = TCP6ClientEndpoint if ":" in host else TCP4ClientEndpoint
    endpoint: IStreamClientEndpoint = make(reactor, host, port, timeout=timeout)
    return endpoint


@dataclass(frozen=True, slots=True)
class DialTerms:
    """
    The pauses and limits of dialling; times in seconds.

    @ivar longest: the limit of a pause, which doubles each time; C{pause} if it stays the same.
    @ivar jitter: the limit of what is added to a pause.
    @ivar retries: attempts after the first; negative for no limit.
    @ivar reports: the number of attempts between errors in the log; 0 for no errors.
    """

    pause: float = 1.0
    longest: float = 1.0
    jitter: float = 0.1
    retries: int = -1
    reports: int = 3600


@dataclass(eq=False)
class Dialler:
    """
    The attempts to reach one peer. It is used once.

    @ivar what: the words after "trying to connect" in the log, made at that time because the
        address may change.
    @ivar over: called once with whether the peer answered; not after L{stop}.
    """

    reactor: IReactorTime
    random: Random
    terms: DialTerms
    connect: Callable[[], Deferred[Any]]
    what: object
    over: Callable[[bool], None]
    attempts: int = field(default=0, init=False)
    _call: Any = field(default=None, init=False)
    _attempt: Deferred[Any] | None = field(default=None, init=False)
    _isStopped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._pause = self.terms.pause

    def start(self, after: float = 0.0) -> None:
        """Dial after some seconds with jitter; 0 for at once."""
        delay = after + self.random.uniform(0.0, self.terms.jitter) if after else 0.0
        self._call = self.reactor.callLater(delay, self._dial)

    def stop(self) -> None:
        self._isStopped = True
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()

    def _dial(self) -> None:
        self._call = None
        self.attempts += 1
        attempt = self._attempt = self.connect()
        attempt.addCallbacks(self._reached, self._failed)

    def _reached(self, _: object) -> None:
        self._attempt = None
        if not self._isStopped:
            self.over(True)

    def _failed(self, failure: Failure) -> None:
        self._attempt = None
        if self._isStopped:
            return
        self._report(failure)
        terms = self.terms
        if 0 <= terms.retries < self.attempts:
            self.over(False)
            return
        pause = self._pause + self.random.uniform(0.0, terms.jitter)
        self._pause = min(self._pause * 2, max(terms.longest, terms.pause))
        self._call = self.reactor.callLater(pause, self._dial)

    def _report(self, failure: Failure) -> None:
        attempts, reports = self.attempts, self.terms.reports
        isReported = reports > 0 and (attempts == 1 or attempts % reports == 0)
        log = _log.error if isReported else _log.debug
        log(
            "Error trying to connect {what} (attempt {attempt}): {why}",
            what=self.what,
            attempt=attempts,
            why=failure.getErrorMessage(),
        )


def _nothing(isReached: bool) -> None:
    pass


class Diallers(Generic[Key]):
    def __init__(self, reactor: Any, random: Random) -> None:
        self._reactor = reactor
        self._random = random
        self._diallers: dict[Key, Dialler] = {}
        self._isOpen = False

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._diallers))

    def open(self) -> None:
        self._isOpen = True

    def close(self) -> None:
        self._isOpen = False
        for key in self:
            self.stop(key)

    def dial(
        self,
        key: Key,
        what: object,
        terms: DialTerms,
        connect: Callable[[], Deferred[Any]],
        after: float,
        over: Callable[[bool], None] = _nothing,
    ) -> None:
        """
        Dial a peer, unless it is being dialled. Does nothing before L{open} or after L{close}.

        @param over: called once with whether the peer answered; not if dialling was stopped.
        """
        if not self._isOpen or key in self._diallers:
            return

        def dialled(isReached: bool) -> None:
            del self._diallers[key]
            over(isReached)

        dialler = Dialler(self._reactor, self._random, terms, connect, what, dialled)
        self._diallers[key] = dialler
        dialler.start(after)

    def stop(self, key: Key) -> None:
        dialler = self._diallers.pop(key, None)
        if dialler is not None:
            dialler.stop()

    def connect(self, host: str, port: int, timeout: float, factory: Factory) -> Deferred[Any]:
        endpoint = peerEndpoint(self._reactor, host, port, timeout)
        connecting: Deferred[Any] = endpoint.connect(factory)
        return connecting
