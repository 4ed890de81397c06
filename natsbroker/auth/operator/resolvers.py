"""
Resolvers that hold nothing themselves: JWTs of accounts from the configuration, or over HTTP.

What is found is handed on as it is; a server that does not answer in time has nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IReactorTime
from twisted.web.iweb import IAgent
from zope.interface import implementer

from natsbroker.auth.httpexchange import exchange
from natsbroker.auth.operator.tokens import LONGEST
from natsbroker.interfaces import IAccountResolver

__all__ = ["MemoryResolver", "URLResolver"]

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
